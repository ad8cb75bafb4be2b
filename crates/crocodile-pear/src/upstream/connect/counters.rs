//! Counters of an upstream: each thread has its own, a snapshot adds them up.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::per_thread::PerThread;

/// The counters of an upstream at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Calls started.
    pub calls: u64,
    pub opened: u64,
    /// Calls sent on a kept connection.
    pub reused: u64,
    /// Calls sent again because the kept connection had been closed.
    pub retried: u64,
    /// Calls that an open breaker rejected.
    pub refused: u64,
    /// Calls that waited because of `in_flight` or for a connection.
    pub queued: u64,
    /// Calls rejected because of `in_flight`, a connection limit or too many open files.
    pub turned_away: u64,
    /// Calls in flight now.
    pub in_flight: u64,
    /// Links of its documents that lead to an endpoint, and were mapped (`links: public`).
    pub links_mapped: u64,
    /// Links into it that no endpoint serves.
    pub links_unserved: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum ConnectionEvent {
    Call,
    Opened,
    Reused,
    Retried,
    Refused,
    Queued,
    Rejected,
    /// A call is in flight from now on.
    Entered,
    Left,
    LinkMapped,
    LinkUnserved,
}

/// The counters of one thread, on cache lines that no other thread writes.
#[derive(Default)]
#[repr(align(128))]
struct ThreadCounters([AtomicU64; 11]);

#[derive(Default)]
pub(crate) struct ConnectionCounters(PerThread<ThreadCounters>);

impl ConnectionCounters {
    pub(crate) fn count(&self, event: ConnectionEvent) {
        self.add(event, 1);
    }

    pub(crate) fn add(&self, event: ConnectionEvent, times: u64) {
        self.0.own().0[event as usize].fetch_add(times, Ordering::Relaxed);
    }

    /// Adds up. Calls continue meanwhile: each sum is right, but the sums are not all of the same moment.
    pub(crate) fn snapshot(&self) -> CounterSnapshot {
        let sum = |event: ConnectionEvent| -> u64 {
            self.0.iter().map(|thread| thread.0[event as usize].load(Ordering::Relaxed)).sum()
        };
        // `Left` first: a call that enters meanwhile may be counted once too often, and the difference is never negative.
        let left = sum(ConnectionEvent::Left);
        CounterSnapshot {
            calls: sum(ConnectionEvent::Call),
            opened: sum(ConnectionEvent::Opened),
            reused: sum(ConnectionEvent::Reused),
            retried: sum(ConnectionEvent::Retried),
            refused: sum(ConnectionEvent::Refused),
            queued: sum(ConnectionEvent::Queued),
            turned_away: sum(ConnectionEvent::Rejected),
            in_flight: sum(ConnectionEvent::Entered).saturating_sub(left),
            links_mapped: sum(ConnectionEvent::LinkMapped),
            links_unserved: sum(ConnectionEvent::LinkUnserved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters::*;

    #[test]
    fn what_threads_count_adds_up() {
        let counters = ConnectionCounters::default();
        let calls = 1_000;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..calls {
                        counters.count(ConnectionEvent::Call);
                        counters.count(ConnectionEvent::Entered);
                    }
                });
            }
        });
        // A call may end on another thread.
        (0..calls).for_each(|_| counters.count(ConnectionEvent::Left));
        assert_eq!(
            counters.snapshot(),
            CounterSnapshot { calls: 3 * calls, in_flight: 2 * calls, ..CounterSnapshot::default() }
        );
    }
}
