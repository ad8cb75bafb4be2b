//! State about the shared Redis store: purges received from other gateways, and own purges not sent yet. It outlives
//! reloads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crocodile_pear::unstable::cache::{Key, Purge, PurgeMode, PurgeStamp};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Notify;

use crate::telemetry::metrics::SharedCounters;

/// The state about the shared store.
pub struct PurgeLog {
    pub id: u64,
    state: Mutex<PurgeLogState>,
    pending: Mutex<VecDeque<(Purge, PurgeMode)>>,
    /// Told when there is a purge to send.
    pub work: Notify,
    /// The counters of the store.
    pub counters: SharedCounters,
}

#[derive(Default)]
struct PurgeLogState {
    /// The latest that the store has said.
    known: PurgeStamp,
    heard: Heard,
}

/// Up to where the purges of others were heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The last purge.
    pub stamp: PurgeStamp,
    pub place: String,
}

/// Purges that wait for a store that is away. Where there are more, they become one of everything.
const MOST_PENDING: usize = 4096;

impl Default for PurgeLog {
    fn default() -> Self {
        PurgeLog {
            id: number(),
            state: Mutex::default(),
            pending: Mutex::default(),
            work: Notify::new(),
            counters: SharedCounters::default(),
        }
    }
}

/// A number that nobody else has.
pub fn number() -> u64 {
    let mut bytes = [0; 8];
    // Where there is no chance, the address of this is some.
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return std::ptr::from_ref(&bytes).addr() as u64 ^ u64::from(std::process::id());
    }
    // Scripts have numbers of 53 bits.
    u64::from_le_bytes(bytes) >> 12 | 1
}

impl PurgeLog {
    fn state(&self) -> MutexGuard<'_, PurgeLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<(Purge, PurgeMode)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest that the store has said.
    pub fn known(&self) -> PurgeStamp {
        self.state().known
    }

    /// The store has said this. Says whether it is in the life that was known: if not, purges may have been lost with the old one.
    pub fn learn(&self, said: PurgeStamp) -> bool {
        let known = &mut self.state().known;
        let same = known.life == said.life || known.life == 0;
        if known.life != said.life || known.number < said.number {
            *known = said;
        }
        same
    }

    /// Up to where the purges of others were heard.
    pub fn heard(&self) -> Heard {
        self.state().heard.clone()
    }

    /// They were heard up to here.
    pub fn set_heard(&self, heard: Heard) {
        self.state().heard = heard;
    }

    /// Takes a purge, to be sent.
    pub fn add(&self, purge: &Purge, mode: PurgeMode) {
        let mut pending = self.pending();
        if pending.len() >= MOST_PENDING {
            pending.clear();
            pending.push_back((Purge::All, PurgeMode::Hard));
        }
        pending.push_back((purge.clone(), mode));
        drop(pending);
        self.work.notify_one();
    }

    /// The purge that has waited longest.
    pub fn first(&self) -> Option<(Purge, PurgeMode)> {
        self.pending().front().cloned()
    }

    /// Forgets a purge that was sent.
    pub fn sent(&self, purge: &(Purge, PurgeMode)) {
        let mut pending = self.pending();
        // Another one, if they became too many meanwhile.
        if pending.front() == Some(purge) {
            pending.pop_front();
        }
    }

    /// Whether a purge that was not sent yet is about an answer of this key, whatever its tags.
    pub fn may_purge(&self, key: &Key) -> bool {
        let pending = self.pending();
        // A tag may be one of what is kept there.
        pending.iter().any(|(purge, _)| matches!(purge, Purge::Tag(_)) || purge.is_about(key, &[]))
    }
}

/// Counts one more.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
