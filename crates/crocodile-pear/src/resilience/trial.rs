//! An outage: for a time a server gets no calls, then one trial call at a time tests whether it is back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// An outage, or none. It is one atomic, without a lock.
pub(crate) struct Outage {
    born: Instant,
    /// When the next trial call is allowed, in milliseconds since `born`; 0 without an outage.
    until: AtomicU64,
}

/// The permission for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// There is no outage.
    Free,
    /// The call is the trial call.
    Trial,
    /// The server must not be called.
    Closed,
}

/// Whether a call is the trial call of an ejection or of a breaker.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) eject: Trial,
    pub(crate) breaker: Trial,
}

/// Whether a call is a trial call, which tests if a server has recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    Yes,
    No,
}

impl Turn {
    pub(crate) const PLAIN: Turn = Turn { eject: Trial::No, breaker: Trial::No };
}

impl Outage {
    pub(crate) fn none() -> Self {
        Outage { born: Instant::now(), until: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    /// Asks whether a call may pass. After a trial call the next one is allowed after `again`, whatever its outcome.
    pub(crate) fn admit(&self, again: Duration) -> Pass {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return Pass::Free;
        }
        let now = self.now();
        if now < until {
            return Pass::Closed;
        }
        let next = after(now, again);
        match self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Pass::Trial,
            Err(_) => Pass::Closed,
        }
    }

    /// Begins an outage, or extends it, for this long.
    pub(crate) fn begin(&self, length: Duration) {
        self.until.store(after(self.now(), length), Ordering::Relaxed);
    }

    /// Ends the outage; returns whether there was one.
    pub(crate) fn end(&self) -> bool {
        self.until.swap(0, Ordering::Relaxed) != 0
    }

    /// How long until the next trial call.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_millis(self.until.load(Ordering::Relaxed).saturating_sub(self.now()))
    }

    /// How long until the next trial call, if there is an outage.
    pub(crate) fn remains(&self) -> Option<Duration> {
        self.lasts().then(|| self.left())
    }

    pub(crate) fn lasts(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }
}

/// Whether a call with this pass is the trial call; `None` if the server must not be called.
pub(crate) fn trial(pass: Pass) -> Option<Trial> {
    match pass {
        Pass::Free => Some(Trial::No),
        Pass::Trial => Some(Trial::Yes),
        Pass::Closed => None,
    }
}

fn after(now: u64, time: Duration) -> u64 {
    // 0 has another meaning.
    now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;

    const TEN: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn one_call_tries_when_its_time_is_over() {
        let outage = Outage::none();
        assert_eq!(outage.admit(TEN), Pass::Free);
        outage.begin(TEN);
        assert_eq!(outage.admit(TEN), Pass::Closed);
        tokio::time::advance(TEN).await;
        assert_eq!((outage.admit(TEN), outage.admit(TEN)), (Pass::Trial, Pass::Closed));
        assert!(outage.end() && !outage.end());
        assert_eq!(outage.admit(TEN), Pass::Free);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_never_ends_holds_nobody_up() {
        let outage = Outage::none();
        outage.begin(TEN);
        tokio::time::advance(TEN).await;
        assert_eq!(outage.admit(TEN), Pass::Trial);
        tokio::time::advance(TEN).await;
        assert_eq!(outage.admit(TEN), Pass::Trial);
    }
}
