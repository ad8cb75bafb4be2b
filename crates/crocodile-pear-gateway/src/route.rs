//! Which endpoint a request is for.

mod host;
mod tree;
mod written;

pub use host::{HostPattern, Hosts};
pub use tree::{Found, Routes};
pub use written::{METHODS, Route};
