//! Which endpoint a request is for.

mod host;
mod spec;
mod tree;

pub use host::{HostPattern, Hosts};
pub use spec::{METHODS, Route};
pub use tree::{FoundRoute, Routes};
