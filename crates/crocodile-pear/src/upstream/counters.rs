//! What has happened at an upstream: each core counts for itself, and who asks adds up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// More than the cores of most machines; beyond it two threads count in one place, and still lose nothing.
pub(super) const THREADS: usize = 64;

/// What has happened at an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Calls begun.
    pub calls: u64,
    /// Connections opened.
    pub opened: u64,
    /// Calls sent on a kept connection.
    pub reused: u64,
    /// Calls sent again because a kept connection turned out to be closed.
    pub retried: u64,
    /// Calls that no breaker let through.
    pub refused: u64,
    /// Calls that had to wait for a place among those in flight, or for a connection.
    pub queued: u64,
    /// Calls that failed for want of a place, a connection or a file to open.
    pub turned_away: u64,
    /// Calls in flight now.
    pub in_flight: u64,
}

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Call,
    Opened,
    Reused,
    Retried,
    Refused,
    Queued,
    TurnedAway,
    /// A call has taken its place among those in flight.
    Entered,
    Left,
}

/// One thread's counts, on cache lines that no other thread writes.
#[derive(Default)]
#[repr(align(128))]
struct ThreadCounters([AtomicU64; 9]);

/// The counts of all threads.
pub(super) struct Counters(Box<[ThreadCounters]>);

impl Counters {
    pub(super) fn new() -> Self {
        Counters((0..THREADS).map(|_| ThreadCounters::default()).collect())
    }

    pub(super) fn count(&self, event: Event) {
        self.0[thread_index()].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The sums. Calls may go on meanwhile: each sum is right by itself, not all of them at one moment.
    pub(super) fn snapshot(&self) -> CounterSnapshot {
        let sum = |event: Event| -> u64 {
            self.0.iter().map(|thread| thread.0[event as usize].load(Ordering::Relaxed)).sum()
        };
        // Left first: who enters in between may be counted once too often, never too few times.
        let left = sum(Event::Left);
        CounterSnapshot {
            calls: sum(Event::Call),
            opened: sum(Event::Opened),
            reused: sum(Event::Reused),
            retried: sum(Event::Retried),
            refused: sum(Event::Refused),
            queued: sum(Event::Queued),
            turned_away: sum(Event::TurnedAway),
            in_flight: sum(Event::Entered).saturating_sub(left),
        }
    }
}

/// This thread's place, in whatever every thread has for itself.
pub(super) fn thread_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS);
    INDEX.with(|index| *index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_adds_up() {
        let counters = Counters::new();
        let calls = 1_000;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..calls {
                        counters.count(Event::Call);
                        counters.count(Event::Entered);
                    }
                });
            }
        });
        // It ends where it did not begin.
        (0..calls).for_each(|_| counters.count(Event::Left));
        assert_eq!(
            counters.snapshot(),
            CounterSnapshot { calls: 3 * calls, in_flight: 2 * calls, ..CounterSnapshot::default() }
        );
    }
}
