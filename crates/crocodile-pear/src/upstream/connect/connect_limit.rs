//! How fast new connections to one server may begin.
//!
//! A server takes new connections from a queue. Most queues have 128 or 511 places. An attempt that finds the queue full is
//! dropped, and the kernel repeats it only after a second. So the first connections for a long list begin at once, and the
//! others follow at short intervals, in which the server can take some from its queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// So many connections may begin at once.
const AT_ONCE: u32 = 96;

/// The time between those that follow.
const APART: Duration = Duration::from_micros(40);

/// The time at which the next connection would begin if all were that far apart.
pub(crate) struct Burst {
    base: Instant,
    /// In nanoseconds since the base.
    next: AtomicU64,
}

impl Burst {
    pub(crate) fn new() -> Self {
        Burst { base: Instant::now(), next: AtomicU64::new(0) }
    }

    /// Reserves the next connection. Returns when it may begin; `None` means now.
    pub(crate) fn turn(&self) -> Option<Instant> {
        let (now, apart) = (nanoseconds(self.base.elapsed()), nanoseconds(APART));
        let after = |next: u64| Some(next.max(now) + apart);
        let next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or(0);
        let due = next.max(now).saturating_sub(nanoseconds(APART * (AT_ONCE - 1)));
        (due > now).then(|| self.base + Duration::from_nanos(due))
    }
}

/// Enough for 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::super::connect_limit::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_go_at_once_and_the_others_one_by_one() {
        let burst = Burst::new();
        advance(Duration::from_secs(3)).await;
        assert!((0..AT_ONCE).all(|_| burst.turn().is_none()));
        let begun = Instant::now();
        for number in 1..=1_000 {
            assert_eq!(burst.turn(), Some(begun + APART * number));
        }
        // After a pause, the connections begin at once again.
        advance(APART * (1_000 + AT_ONCE)).await;
        assert!((0..AT_ONCE).all(|_| burst.turn().is_none()) && burst.turn().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_now_and_then_never_wait() {
        let burst = Burst::new();
        for _ in 0..10_000 {
            advance(APART).await;
            assert_eq!(burst.turn(), None);
        }
    }
}
