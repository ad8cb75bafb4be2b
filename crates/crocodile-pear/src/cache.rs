//! The cache: entries and their bodies, the store that bounds them, and purges.

pub mod dependence;
pub mod downstream;
pub mod fetch;
pub mod rules;
mod said;
pub mod store;

pub use dependence::Dependence;
pub use fetch::cache::{Cache, Fetch, FetchPlan, FetchedAnswer, Fetching, Initiator, Question, Reply, Rules};
pub use fetch::front::{Distinction, Front, Identity, KeyUrl};
pub use fetch::spec::{CacheSpec, CachingSpec, PrivateSpec, QueryOrder, StoreCookies};
pub use rules::key::{Audience, Key};
pub use rules::methods::{CachedMethod, Methods, Service};
pub use said::AskedWith;
pub use store::composition::{KeptPart, Parts, is_neutral};
pub use store::counters::{CacheOwner, OUTCOMES, Outcome, Traffic};
pub use store::encoded_copies::{Copies, Copy};
pub use store::entry::{Entry, Tags};
pub use store::purge::{Mark, Purge, PurgeMode, Stamp};
pub use store::shared_body::{SharedBody, Writer};
pub use store::shared_tier::{Shared, Tier};
pub use store::shelf::{Shelf, Source};
pub use store::stored_answer::{Kept, Making};
pub use store::{Counters, FoundEntry, Store};
