//! When a store that was found away counts as there again: at once after one outage, later if it comes and goes.

use std::time::Duration;

use tokio::time::Instant;

/// A store that goes away this soon after it came back comes and goes.
const SOON: Duration = Duration::from_secs(10);

/// How long it must answer then, each time twice as long.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);

/// How a store has stood lately.
#[derive(Default)]
pub(super) struct StoreHealth {
    /// How long it must answer before it counts as there.
    trial: Duration,
    /// Since when it answers, while it is tried.
    well: Option<Instant>,
    /// When it came back.
    back: Option<Instant>,
}

impl StoreHealth {
    /// Notes an answer. Returns whether the store counts as there from now on.
    pub(super) fn answers(&mut self) -> bool {
        let now = Instant::now();
        let since = *self.well.get_or_insert(now);
        if now - since < self.trial {
            return false;
        }
        self.back = Some(now);
        true
    }

    /// Notes a failure while the store is tried.
    pub(super) fn fails(&mut self) {
        self.well = None;
    }

    /// Notes that the store is away.
    pub(super) fn leaves(&mut self) {
        let soon = self.back.is_some_and(|back| back.elapsed() < SOON.max(self.trial));
        self.trial = if soon { (self.trial * 2).clamp(FIRST, MOST) } else { Duration::ZERO };
        self.well = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::super::store_health::*;

    const OFTEN: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn one_outage_is_over_at_once_and_a_store_that_comes_and_goes_is_tried_for_longer() {
        let mut health = StoreHealth::default();
        assert!(health.answers());
        advance(Duration::from_secs(60)).await;
        health.leaves();
        health.fails();
        assert!(health.answers());
        // It answers each attempt, and fails each request.
        let mut changes = 0;
        for _ in 0..600 {
            advance(OFTEN).await;
            health.leaves();
            changes += 1;
            let mut left = 600;
            while !health.answers() && left > 0 {
                advance(OFTEN).await;
                left -= 1;
            }
            if health.trial == MOST {
                break;
            }
        }
        assert_eq!(changes, 6, "1 s, 2 s, 4 s, 8 s, 16 s, 30 s");
        advance(Duration::from_secs(60)).await;
        health.leaves();
        assert!(health.answers());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_begins_the_trial_anew() {
        let mut health = StoreHealth::default();
        assert!(health.answers());
        health.leaves();
        assert!(!health.answers());
        advance(Duration::from_millis(900)).await;
        health.fails();
        assert!(!health.answers());
        advance(Duration::from_millis(900)).await;
        assert!(!health.answers());
        advance(Duration::from_millis(100)).await;
        assert!(health.answers());
    }
}
