//! `versions`: an API in several versions, of which the older ones say what differs.

mod by;
mod check;
mod place;
mod spec;

pub use place::{Api, Placed, plain};
pub use spec::{AdaptSpec, VersionsSpec};
