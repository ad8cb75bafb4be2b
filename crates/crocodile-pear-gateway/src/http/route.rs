//! Which endpoint a request is for.

mod host;
mod tree;
mod written;

pub use host::{HostPattern, Hosts};
pub use tree::{FoundRoute, Routes};
pub use written::{METHODS, Route};
