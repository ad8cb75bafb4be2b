//! The cache: entries and their bodies, the store that bounds them, and purges.
//!
//! In a build without the cache, answers still tell caches downstream how they may be kept: `rules`, `dependence`,
//! `composition` and `downstream` are in each build.

mod composition;
pub mod dependence;
pub mod downstream;
#[cfg(feature = "cache")]
pub mod fetch;
#[cfg(not(feature = "cache"))]
#[path = "cache/fetch/absent.rs"]
pub mod fetch;
pub mod rules;
mod said;
#[cfg(feature = "cache")]
pub mod store;
#[cfg(not(feature = "cache"))]
#[path = "cache/store/absent.rs"]
pub mod store;

pub use composition::{AnswerParts, KeptPart, is_neutral};
pub use dependence::Dependence;
pub use fetch::spec::CacheSpec;
pub use said::AskedWith;
pub use store::Store;

/// The message for a `cache` setting in a build without the cache.
pub(crate) const UNBUILT: &str =
    "`cache` needs the feature `cache` of the crate crocodile-pear, which this build is without";

#[cfg(feature = "cache")]
pub use self::{
    fetch::cache::{Cache, CacheRules, Fetch, FetchPlan, FetchResult, FetchedAnswer, Initiator, Question, Reply},
    fetch::front::{Distinction, Front, Identity, KeyUrl},
    fetch::spec::{CachingSpec, PrivateSpec, QueryOrder, StoreCookies},
    rules::key::{Audience, Key},
    rules::methods::{CacheService, CachedMethod, Methods},
    rules::tags::Tags,
    store::counters::{CacheOutcome, CacheOwner, OUTCOMES, Traffic},
    store::encoded_copies::{Copies, Copy},
    store::entry::Entry,
    store::purge::{Purge, PurgeMark, PurgeMode, PurgeStamp},
    store::shared_body::{BodyWriter, SharedBody},
    store::shared_tier::{SharedEntry, Tier},
    store::shelf::{Shelf, ShelfOwner},
    store::stored_answer::{Kept, Making},
    store::{CacheCounters, FoundEntry},
};
