//! Counters of spans: sent, dropped, failed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub struct SpanCounters {
    pub(super) sent: AtomicU64,
    pub(super) dropped: AtomicU64,
    /// The memory of what waits to be sent.
    pub(super) waiting: AtomicUsize,
}

impl SpanCounters {
    /// Spans that the collector has taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Spans that it has not: too many at once, or it was away for too long.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The memory of requests whose spans wait to be sent, about.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}
