//! Rate limit for log lines about what may happen thousands of times a second.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// At most one line in this time, unless another one is given.
const EVERY: Duration = Duration::from_secs(10);

/// Allows one log line in each such time.
pub struct LogLimiter {
    every: Duration,
    first: OnceLock<Instant>,
    /// When the next line is allowed: milliseconds after `first`.
    until: AtomicU64,
}

impl Default for LogLimiter {
    fn default() -> Self {
        LogLimiter::every(EVERY)
    }
}

impl LogLimiter {
    /// Allows one line in this time.
    pub const fn every(every: Duration) -> Self {
        LogLimiter { every, first: OnceLock::new(), until: AtomicU64::new(0) }
    }

    /// Whether a line may be written now.
    pub fn allows(&self) -> bool {
        let now = self.first.get_or_init(Instant::now).elapsed().as_millis() as u64;
        let next = now + self.every.as_millis() as u64;
        let due = |until| (until <= now).then_some(next);
        self.until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_limiter::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_stands_for_all_within_its_time() {
        let often = Duration::from_secs(1);
        for (limiter, time) in [(LogLimiter::default(), EVERY), (LogLimiter::every(often), often)] {
            assert_eq!([limiter.allows(), limiter.allows()], [true, false]);
            tokio::time::advance(time).await;
            assert_eq!([limiter.allows(), limiter.allows()], [true, false]);
        }
    }
}
