//! A second tier behind the store, which several gateways share.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::entry::Entry;
use super::purge::{Purge, PurgeMode, PurgeStamp};
use crate::cache::rules::key::Key;

/// A second tier. It is asked with a deadline of its own, and never a reason to fail.
pub trait Tier: Send + Sync {
    /// When a fetch begins, among the purges that the tier knows.
    fn stamp(&self) -> PurgeStamp;

    /// The entries of this key that arrive in time.
    fn find<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Vec<SharedEntry>>;

    /// Keeps an entry, in the background; drops it if there is too much to do.
    fn keep(&self, stamp: PurgeStamp, key: &Key, entry: &Arc<Entry>);

    /// Removes all entries of a key, in the background.
    fn remove(&self, key: &Key);

    /// Purges in the tier and in all gateways that share it, in the background, and for certain.
    fn purge(&self, purge: &Purge, mode: PurgeMode);
}

pub struct SharedEntry {
    pub entry: Entry,
    /// When its fetch began.
    pub stamp: PurgeStamp,
    /// Whether it was purged softly since.
    pub stale: bool,
}
