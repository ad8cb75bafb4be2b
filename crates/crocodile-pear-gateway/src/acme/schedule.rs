//! When certificates are renewed, and when what failed is tried again.

use std::time::{Duration, SystemTime};

use crocodile_pear::unstable::runtime::backoff::grown;

use super::failure::{FailureCause, OrderFailure};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate with a life shorter than this is renewed at half of it (Let's Encrypt's advice).
const SHORT_LIVED: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// When a certificate is renewed if its authority gives no advice: when a third of its life is left, up to a thirtieth before.
pub fn unadvised(begin: SystemTime, expiry: SystemTime, share: f64) -> SystemTime {
    let life = expiry.duration_since(begin).unwrap_or_default();
    let rest = if life < SHORT_LIVED { life / 2 } else { life / 3 };
    expiry - rest - (life / 30).mul_f64(share)
}

/// The window in which an authority wants a certificate to be renewed (RFC 9773).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: SystemTime,
    pub end: SystemTime,
    /// When it wants to be asked for it again.
    pub again: Duration,
    /// A page that says why the window is what it is.
    pub explanation: Option<String>,
}

impl Window {
    /// A moment in it (RFC 9773, 4.2); never so late that a failure could not be tried again.
    pub fn moment(&self, begin: SystemTime, expiry: SystemTime, share: f64) -> SystemTime {
        let width = self.end.duration_since(self.start).unwrap_or_default();
        let life = expiry.duration_since(begin).unwrap_or_default();
        (self.start + width.mul_f64(share)).min(expiry - life / 20)
    }

    /// When to ask again: neither at once nor never (RFC 9773, 4.3.2).
    pub fn next(&self) -> Duration {
        self.again.clamp(MINUTE, DAY)
    }
}

/// How long is waited after failures: each time longer, and never less than the authority asks for.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    pub fn next(&mut self, failure: &OrderFailure, share: f64) -> Duration {
        let (first, longest) = match failure.cause {
            FailureCause::Unreachable | FailureCause::Unsupported => (Duration::from_secs(5), 10 * MINUTE),
            FailureCause::Disk => (Duration::from_secs(30), 10 * MINUTE),
            // Let's Encrypt allows five refusals of a name an hour.
            FailureCause::Refused => (2 * MINUTE, 6 * HOUR),
        };
        let own = grown(first, self.0, longest);
        self.0 += 1;
        let asked = failure.after.unwrap_or_default().min(7 * DAY);
        let wait = own.max(asked);
        wait + (wait / 10).mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn day(number: u64) -> SystemTime {
        UNIX_EPOCH + DAY * u32::try_from(number).expect("a day")
    }

    #[test]
    fn a_third_of_its_life_is_left_for_what_may_fail() {
        assert_eq!(unadvised(day(0), day(90), 0.0), day(60));
        assert_eq!(unadvised(day(0), day(90), 1.0), day(57));
        assert_eq!(unadvised(day(0), day(6), 0.0), day(3));
        assert_eq!(unadvised(day(9), day(0), 0.5), day(0));
    }

    #[test]
    fn a_window_is_kept_unless_it_ends_too_late() {
        let window = |start, end| Window { start: day(start), end: day(end), again: HOUR, explanation: None };
        assert_eq!(window(50, 60).moment(day(0), day(100), 0.5), day(55));
        assert_eq!(window(99, 200).moment(day(0), day(100), 0.5), day(95));
        let again = |again| Window { again, ..window(1, 2) }.next();
        assert_eq!((again(Duration::ZERO), again(HOUR), again(9 * DAY)), (MINUTE, HOUR, DAY));
    }

    #[test]
    fn failures_are_tried_again_ever_later_and_not_before_the_authority_wants() {
        let waits = |cause, after: Option<Duration>| {
            let mut backoff = Backoff::default();
            let failure = OrderFailure { after, ..OrderFailure::new(cause, "") };
            [0; 12].map(|_| backoff.next(&failure, 0.0).as_secs())
        };
        assert_eq!(waits(FailureCause::Refused, None)[..5], [120, 240, 480, 960, 1920]);
        assert_eq!(waits(FailureCause::Refused, None)[11], 21_600);
        assert_eq!(waits(FailureCause::Unreachable, None)[..3], [5, 10, 20]);
        assert_eq!(waits(FailureCause::Unreachable, None)[11], 600);
        assert_eq!(waits(FailureCause::Refused, Some(HOUR))[..6], [3600, 3600, 3600, 3600, 3600, 3840]);
        let jitter = Backoff::default().next(&OrderFailure::new(FailureCause::Refused, ""), 0.5);
        assert_eq!(jitter, Duration::from_secs(126));
    }
}
