//! Whether what a cache stands before answers: while it does not, stale answers are given at once, and one that is slow for
//! once holds up no more than the first requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How long a request waits for a new answer, where a stale one may be given if there is none.
const LEAST: Duration = Duration::from_millis(500);

/// And so many times as long as fetches usually take.
const TIMES: u32 = 4;

/// The most fetches at a time that try, while nobody waits for them, whether it answers again.
const TRIALS: usize = 16;

/// Whether fetches are answered.
#[derive(Default)]
pub(crate) struct FetchSilence {
    silent: AtomicBool,
    /// How many milliseconds they usually take.
    usual: AtomicU32,
    trials: AtomicUsize,
}

impl FetchSilence {
    /// How long a request waits for a new answer before it is given the stale one.
    pub fn patience(&self) -> Duration {
        match self.silent.load(Relaxed) {
            true => Duration::ZERO,
            false => LEAST.max(Duration::from_millis(self.usual.load(Relaxed).into()) * TIMES),
        }
    }

    /// A fetch was answered after this time.
    pub fn answers(&self, took: Duration) {
        let took = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let usual = self.usual.load(Relaxed);
        // Slow ones count at once, fast ones by and by.
        let next = if took > usual { took } else { usual - (usual - took) / 8 };
        if next != usual {
            self.usual.store(next, Relaxed);
        }
        if self.silent.load(Relaxed) {
            self.silent.store(false, Relaxed);
        }
    }

    /// A fetch failed, or takes too long.
    pub fn fails(&self) {
        self.silent.store(true, Relaxed);
    }

    /// Whether a fetch may try if it answers again, while nobody waits for it.
    pub fn try_again(self: &Arc<Self>) -> Option<FetchTrial> {
        let more = |trials: usize| (trials < TRIALS).then_some(trials + 1);
        self.trials.fetch_update(Relaxed, Relaxed, more).ok().map(|_| FetchTrial(self.clone()))
    }
}

/// A fetch that tries whether it answers again.
pub(crate) struct FetchTrial(Arc<FetchSilence>);

impl Drop for FetchTrial {
    fn drop(&mut self) {
        self.0.trials.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::silence::*;

    #[test]
    fn patience_is_some_times_what_fetches_take() {
        let silence = FetchSilence::default();
        assert_eq!(silence.patience(), LEAST);
        silence.answers(Duration::from_millis(800));
        assert_eq!(silence.patience(), Duration::from_millis(3_200));
        (0..100).for_each(|_| silence.answers(Duration::from_millis(10)));
        assert_eq!(silence.patience(), LEAST);
        silence.fails();
        assert_eq!(silence.patience(), Duration::ZERO);
        silence.answers(Duration::from_millis(10));
        assert_eq!(silence.patience(), LEAST);
    }

    #[test]
    fn few_try_at_a_time() {
        let silence = Arc::new(FetchSilence::default());
        let trials: Vec<_> = (0..100).map_while(|_| silence.try_again()).collect();
        assert_eq!(trials.len(), TRIALS);
        drop(trials);
        assert!(silence.try_again().is_some());
    }
}
