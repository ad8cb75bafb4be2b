//! Outcomes of the requests at each cache. Each thread has its own counters; a reader adds them up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::runtime::per_thread::PerThread;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOwner {
    /// At the upstream of this name.
    Upstream(String),
    /// At the endpoint of this name.
    Endpoint(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The request was answered with a fresh entry.
    Hit,
    /// The answer was fetched, or could not be.
    Miss,
    /// The request was answered with a stale entry.
    Stale,
    /// The request was answered with an entry that the upstream has confirmed.
    Revalidated,
    /// The request was answered with the answer that another request fetched.
    Collapsed,
    /// The cache does not serve it: its method, its conditions, or `no-store`.
    Bypass,
}

/// The outcomes as labels, in the order of [`CacheOutcome`].
pub const OUTCOMES: [&str; 6] = ["hit", "miss", "stale", "revalidated", "collapsed", "bypass"];

/// The counters of one cache.
#[derive(Default)]
pub struct Traffic(PerThread<OutcomeCounters>);

/// The counters of a thread, on a cache line that no other thread writes.
#[derive(Default)]
#[repr(align(64))]
struct OutcomeCounters([AtomicU64; OUTCOMES.len()]);

impl Traffic {
    pub fn count(&self, outcome: CacheOutcome) {
        self.0.own().0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were, in the order of [`OUTCOMES`].
    pub fn sums(&self) -> [u64; OUTCOMES.len()] {
        std::array::from_fn(|at| self.0.iter().map(|thread| thread.0[at].load(Ordering::Relaxed)).sum())
    }
}

/// The counters of all caches; those of a cache that a reload makes anew count on.
#[derive(Default)]
pub struct Traffics(Mutex<Vec<(CacheOwner, Weak<Traffic>)>>);

impl Traffics {
    pub fn at(&self, here: &CacheOwner) -> Arc<Traffic> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, traffic)| traffic.strong_count() > 0);
        let found = known.iter().find(|(place, _)| place == here);
        if let Some(traffic) = found.and_then(|(_, traffic)| traffic.upgrade()) {
            return traffic;
        }
        let traffic = Arc::default();
        known.push((here.clone(), Arc::downgrade(&traffic)));
        traffic
    }

    pub fn all(&self) -> Vec<(CacheOwner, Arc<Traffic>)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(|(place, traffic)| Some((place.clone(), traffic.upgrade()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters::*;

    #[test]
    fn a_cache_that_is_made_anew_counts_on_and_one_that_is_gone_is_forgotten() {
        let (traffics, here) = (Traffics::default(), CacheOwner::Upstream("shop".to_owned()));
        let before = traffics.at(&here);
        before.count(CacheOutcome::Stale);
        let after = traffics.at(&here);
        std::thread::scope(|scope| scope.spawn(|| after.count(CacheOutcome::Stale)).join().expect("it counts"));
        drop(before);
        assert_eq!(traffics.all()[0].1.sums(), [0, 0, 2, 0, 0, 0]);
        drop(after);
        assert!(traffics.all().is_empty());
    }
}
