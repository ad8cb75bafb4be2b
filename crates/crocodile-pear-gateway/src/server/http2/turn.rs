//! Handles wakes during a turn: the task is already running, so it does another round instead of being scheduled again.
//! `h2` wakes its connection whenever a stream has data to send, which is the case in most turns.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// The length of a turn before other connections get theirs: a few dozen requests. Work that has begun is not
/// interrupted.
const LENGTH: Duration = Duration::from_micros(250);

/// The bit of a turn that is running.
const RUNNING: u8 = 1;

/// The two parts of a connection's work. Each has a waker of its own, and is polled after its wake was taken: a wake
/// that comes later is still there when the turn ends, wherever the turn stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TurnPart {
    /// The requests and their handlers.
    Streams = 2,
    /// The frames: `h2` and the socket.
    Frames = 4,
}

/// The wakes of a connection's parts.
#[derive(Debug)]
pub struct Turn {
    task: Mutex<Waker>,
    /// Whether a turn is running, and which parts were woken since they were last polled. A single atomic, so that
    /// a wake from another thread is seen either by the turn or by the task.
    state: AtomicU8,
    first: Instant,
    /// When the turn should end, in nanoseconds since the first turn.
    until: AtomicU64,
}

impl Turn {
    pub fn new() -> Arc<Self> {
        let (task, first) = (Mutex::new(Waker::noop().clone()), Instant::now());
        Arc::new(Turn { task, state: AtomicU8::new(0), first, until: 0.into() })
    }

    pub fn waker(self: &Arc<Self>, part: TurnPart) -> Waker {
        Waker::from(Arc::new(PartWaker { turn: self.clone(), part }))
    }

    /// Begins a turn. Earlier wakes are forgotten: both parts must be polled.
    pub fn begin(&self, now: Instant, cx: &Context<'_>) {
        self.until.store(self.nanoseconds(now + LENGTH), Relaxed);
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.will_wake(cx.waker()) {
            task.clone_from(cx.waker());
        }
        drop(task);
        self.state.swap(RUNNING, AcqRel);
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
        self.state.load(Acquire) != RUNNING
    }

    /// Takes the wake of a part, which must be polled next; returns whether there was one.
    pub fn take(&self, part: TurnPart) -> bool {
        self.state.fetch_and(!(part as u8), AcqRel) & part as u8 != 0
    }

    /// Ends the turn. Wakes that were not taken are passed on to the task.
    pub fn end(&self) {
        if self.state.fetch_and(!RUNNING, AcqRel) != RUNNING {
            self.wake_task();
        }
    }

    /// Wakes a part: in this turn if one is running, else in the next.
    pub fn wake(&self, part: TurnPart) {
        if self.state.fetch_or(part as u8, AcqRel) & RUNNING == 0 {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

#[derive(Debug)]
struct PartWaker {
    turn: Arc<Turn>,
    part: TurnPart,
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.turn.wake(self.part);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.turn.wake(self.part);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_wake_within_a_turn_is_told_once_and_one_between_turns_wakes_the_task() {
        let (count, turn) = (Arc::new(Count::default()), Turn::new());
        let (task, inner) = (Waker::from(count.clone()), turn.waker(TurnPart::Streams));
        turn.begin(Instant::now(), &Context::from_waker(&task));
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert!(turn.woken() && !turn.take(TurnPart::Frames) && turn.take(TurnPart::Streams));
        assert!(!turn.woken() && !turn.take(TurnPart::Streams));
        turn.end();
        assert_eq!(count.0.load(Relaxed), 0);
        inner.wake_by_ref();
        assert_eq!(count.0.load(Relaxed), 1);
        turn.begin(Instant::now(), &Context::from_waker(&task));
        assert!(!turn.woken());
        inner.wake_by_ref();
        assert!(!turn.take(TurnPart::Frames));
        turn.end();
        assert_eq!(count.0.load(Relaxed), 2);
    }

    /// The wake of one part says nothing about the other.
    #[test]
    fn a_wake_that_was_not_taken_outlives_the_turn() {
        let (count, turn) = (Arc::new(Count::default()), Turn::new());
        let task = Waker::from(count.clone());
        for (woken, taken) in [(TurnPart::Streams, TurnPart::Frames), (TurnPart::Frames, TurnPart::Streams)] {
            turn.begin(Instant::now(), &Context::from_waker(&task));
            turn.waker(woken).wake();
            turn.take(taken);
            turn.end();
        }
        assert_eq!(count.0.load(Relaxed), 2);
    }

    #[test]
    fn a_wake_of_another_thread_at_the_end_of_a_turn_is_not_lost() {
        let (count, turn) = (Arc::new(Count::default()), Turn::new());
        let (task, inner) = (Waker::from(count.clone()), turn.waker(TurnPart::Frames));
        for _ in 0..2_000 {
            let before = count.0.load(Relaxed);
            turn.begin(Instant::now(), &Context::from_waker(&task));
            std::thread::scope(|threads| {
                threads.spawn(|| inner.wake_by_ref());
                turn.end();
            });
            assert_eq!(count.0.load(Relaxed), before + 1);
        }
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
