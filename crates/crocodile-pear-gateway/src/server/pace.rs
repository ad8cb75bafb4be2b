//! The minimum rate of a body: each side has some time at the start, and every byte earns some more.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

/// The minimum rate of bodies.
#[derive(Clone, Debug)]
pub struct MinRate {
    /// Bytes per second.
    pub bytes: NonZeroU64,
    /// The time at the start.
    pub after: Duration,
}

impl Default for MinRate {
    fn default() -> Self {
        MinRate { bytes: NonZeroU64::MIN.saturating_add(499), after: Duration::from_secs(10) }
    }
}

/// The time that one side has earned with its bytes, minus the time spent waiting for it, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeBalance(i64);

impl TimeBalance {
    /// Counts bytes that moved after a wait. Even many bytes earn no more than `rest`.
    pub fn moved(&mut self, waited: Duration, bytes: u64, rate: &MinRate, rest: Duration) {
        let earned = nanoseconds(Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.bytes));
        let most = nanoseconds(rest.saturating_sub(rate.after));
        self.0 = self.0.saturating_sub(nanoseconds(waited)).saturating_add(earned).min(most);
    }

    /// When a wait that began at `since` becomes too long.
    pub fn due(self, since: Instant, rate: &MinRate) -> Instant {
        let left = nanoseconds(rate.after).saturating_add(self.0).max(0);
        since + Duration::from_nanos(left.unsigned_abs())
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(30);

    /// How long a body goes on that sends so many bytes after each wait; at most a thousand waits.
    fn lasts(bytes: u64, wait: Duration) -> Duration {
        let (rate, mut pace, mut now) = (MinRate::default(), TimeBalance::default(), Instant::now());
        let began = now;
        for _ in 0..1000 {
            if pace.due(now, &rate) < now + wait {
                return pace.due(now, &rate) - began;
            }
            now += wait;
            pace.moved(wait, bytes, &rate, REST);
        }
        now - began
    }

    #[test]
    fn a_trickle_ends_and_a_slow_line_does_not() {
        let (half, second) = (Duration::from_millis(500), Duration::from_secs(1));
        assert!(lasts(1, half) < Duration::from_millis(10_100));
        assert!(lasts(0, REST) == Duration::from_secs(10));
        assert!(lasts(499, second) < second * 6000);
        assert_eq!(lasts(500, second), second * 1000);
        assert_eq!(lasts(5_000, second * 10), second * 10_000);
    }

    #[test]
    fn a_burst_buys_no_more_than_a_rest() {
        let (rate, mut pace, now) = (MinRate::default(), TimeBalance::default(), Instant::now());
        pace.moved(Duration::ZERO, u64::MAX, &rate, REST);
        assert_eq!(pace.due(now, &rate), now + REST);
    }
}
