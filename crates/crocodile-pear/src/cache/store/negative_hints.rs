//! Keys whose answers were lately not stored: requests for them do not wait for each other, since none could use the other's answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::cache::rules::key::Key;
use crate::http::date::Moment;

/// How long a key counts as one that is not kept. Varnish has two minutes; here a wrong guess only costs calls.
const MEMORY: Duration = Duration::from_secs(10);

/// So many keys are remembered.
const MOST: usize = 16_384;

/// The hashes of the keys: one that is mistaken for another costs a call.
#[derive(Default)]
pub(crate) struct Unkept(Mutex<HashMap<u64, Moment>>);

impl Unkept {
    /// Remembers a key.
    pub fn add(&self, key: &Key, now: Moment) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, until| *until > now);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key.hash(), now.after(MEMORY));
    }

    pub fn has(&self, key: &Key, now: Moment) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key.hash()).is_some_and(|until| *until > now)
    }

    /// Forgets a key: it was kept.
    pub fn remove(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.hash());
    }
}
