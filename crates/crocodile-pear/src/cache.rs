//! The cache: entries and their bodies, the store that bounds them, and purges.

pub mod dependence;
pub mod downstream;
pub mod fetch;
pub mod rules;
mod said;
pub mod store;

pub use dependence::Dependence;
pub use fetch::cache::{Cache, CacheRules, Fetch, FetchPlan, FetchResult, FetchedAnswer, Initiator, Question, Reply};
pub use fetch::front::{Distinction, Front, Identity, KeyUrl};
pub use fetch::spec::{CacheSpec, CachingSpec, PrivateSpec, QueryOrder, StoreCookies};
pub use rules::key::{Audience, Key};
pub use rules::methods::{CacheService, CachedMethod, Methods};
pub use said::AskedWith;
pub use store::composition::{AnswerParts, KeptPart, is_neutral};
pub use store::counters::{CacheOutcome, CacheOwner, OUTCOMES, Traffic};
pub use store::encoded_copies::{Copies, Copy};
pub use store::entry::{Entry, Tags};
pub use store::purge::{Purge, PurgeMark, PurgeMode, PurgeStamp};
pub use store::shared_body::{BodyWriter, SharedBody};
pub use store::shared_tier::{SharedEntry, Tier};
pub use store::shelf::{Shelf, ShelfOwner};
pub use store::stored_answer::{Kept, Making};
pub use store::{CacheCounters, FoundEntry, Store};
