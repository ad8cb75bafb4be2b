//! Handles wakes during a turn: the task is already running, so it does another round instead of being scheduled again.
//! `h2` wakes its connection whenever a stream has data to send, which is the case in most turns.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// The length of a turn before other connections get theirs: a few dozen requests. Work that has begun is not
/// interrupted.
const LENGTH: Duration = Duration::from_micros(250);

/// The waker of a connection's streams, and of `h2`.
#[derive(Debug)]
pub struct Turn {
    /// The task's own waker.
    task: Mutex<Waker>,
    running: AtomicBool,
    /// Whether the task was woken since the last check.
    woken: AtomicBool,
    first: Instant,
    /// When the turn should end, in nanoseconds since the first turn.
    until: AtomicU64,
}

impl Turn {
    pub fn new() -> Arc<Self> {
        let (task, first) = (Mutex::new(Waker::noop().clone()), Instant::now());
        Arc::new(Turn { task, running: false.into(), woken: false.into(), first, until: 0.into() })
    }

    /// Begins a turn.
    pub fn begin(&self, now: Instant, cx: &Context<'_>) {
        self.until.store(self.nanoseconds(now + LENGTH), Relaxed);
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.will_wake(cx.waker()) {
            task.clone_from(cx.waker());
        }
        self.running.store(true, Relaxed);
        self.woken.store(false, Relaxed);
    }

    /// Whether the turn has been long enough, so that other work must wait for the next one.
    pub fn is_long(&self) -> bool {
        self.nanoseconds(Instant::now()) >= self.until.load(Relaxed)
    }

    /// Whether a stream should leave its work for the next turn. It is polled again then.
    pub fn defers(&self, cx: &Context<'_>) -> bool {
        let long = self.is_long();
        if long {
            cx.waker().wake_by_ref();
        }
        long
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.first).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether there is more to do in this turn.
    pub fn woken(&self) -> bool {
        self.woken.swap(false, Relaxed)
    }

    /// Ends the turn.
    pub fn end(&self) {
        self.running.store(false, Relaxed);
        // Another thread may have woken the task in between.
        if self.woken() {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.running.load(Relaxed) {
            true => self.woken.store(true, Relaxed),
            false => self.wake_task(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_wake_within_a_turn_is_told_once_and_one_between_turns_wakes_the_task() {
        let (count, turn) = (Arc::new(Count::default()), Turn::new());
        let (task, inner) = (Waker::from(count.clone()), Waker::from(turn.clone()));
        turn.begin(Instant::now(), &Context::from_waker(&task));
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert!(turn.woken() && !turn.woken());
        turn.end();
        assert_eq!(count.0.load(Relaxed), 0);
        inner.wake_by_ref();
        assert_eq!(count.0.load(Relaxed), 1);
        turn.begin(Instant::now(), &Context::from_waker(&task));
        inner.wake_by_ref();
        turn.end();
        assert_eq!(count.0.load(Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_left_for_the_next_turn_when_one_is_long() {
        let (count, turn) = (Arc::new(Count::default()), Turn::new());
        let task = Waker::from(count.clone());
        turn.begin(Instant::now(), &Context::from_waker(&task));
        assert!(!turn.defers(&Context::from_waker(&task)));
        tokio::time::advance(LENGTH).await;
        assert!(turn.defers(&Context::from_waker(&task)));
        assert_eq!(count.0.load(Relaxed), 1);
        turn.begin(Instant::now(), &Context::from_waker(&task));
        assert!(!turn.is_long());
    }
}
