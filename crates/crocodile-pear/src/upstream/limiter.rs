//! Rate limit for log lines about what may happen thousands of times a second.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// At most one line in this time.
const EVERY: Duration = Duration::from_secs(10);

/// Allows one log line per `EVERY`.
#[derive(Default)]
pub(super) struct LogLimiter {
    first: OnceLock<Instant>,
    /// When the next line is allowed, in milliseconds after `first`.
    until: AtomicU64,
}

impl LogLimiter {
    /// Whether a line may be written now. If so, the next one has to wait.
    pub(super) fn allows(&self) -> bool {
        let now = self.first.get_or_init(Instant::now).elapsed().as_millis() as u64;
        let next = now + EVERY.as_millis() as u64;
        let due = |until| (until <= now).then_some(next);
        self.until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_stands_for_ten_seconds() {
        let log_limiter = LogLimiter::default();
        assert_eq!([log_limiter.allows(), log_limiter.allows()], [true, false]);
        tokio::time::advance(EVERY).await;
        assert_eq!([log_limiter.allows(), log_limiter.allows()], [true, false]);
    }
}
