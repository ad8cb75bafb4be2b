//! What was answered, kept for who asks again: entries, their bodies, the store that bounds them, and purges.

pub mod body;
pub mod control;
pub mod copies;
pub mod date;
pub mod entry;
mod flight;
pub mod kept;
pub mod key;
pub mod parts;
pub mod place;
pub mod policy;
pub mod purge;
pub mod range;
pub mod reuse;
pub mod shelf;
pub mod spec;
pub mod status;
pub mod store;
pub mod tags;
pub mod tier;
mod trip;
mod unkept;
pub mod vary;
pub mod wire;

pub use body::{SharedBody, Writer};
pub use copies::{Copies, Copy};
pub use entry::{Entry, Tags};
pub use kept::{Kept, Making};
pub use key::Key;
pub use parts::Parts;
pub use place::{Cache, Errand, Fetch, Fetching, Gained, Question, Reply, Rules, Standing};
pub use purge::{Mark, Purge, PurgeMode};
pub use shelf::{Shelf, Source};
pub use spec::{CacheSpec, CachingSpec, PrivateSpec, QueryOrder};
pub use store::{Counters, Found, Store};
pub use tier::{Shared, Stamp, Tier};
