//! What was answered, kept for who asks again: entries, their bodies, the store that bounds them, and purges.

pub mod body;
pub mod entry;
pub mod key;
pub mod purge;
pub mod store;

pub use body::{SharedBody, Writer};
pub use entry::{Entry, Tags};
pub use key::Key;
pub use purge::{Mark, Purge, PurgeMode};
pub use store::{Counters, Found, Store};
