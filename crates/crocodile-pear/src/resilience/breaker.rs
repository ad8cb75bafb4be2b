//! The circuit breaker: a server that fails gets no calls for a while, so that callers fail fast and it can recover.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::state_change::Change;
use super::trial::{Outage, Pass, Trial};
use super::verdict::Verdict;
use crate::config::spec::Share;
use crate::spec;

spec! {
    /// Circuit breaker: when a failing server gets no more calls, and how it is tested again. A call has failed if no
    /// complete head arrives in time, or if the status is 500, 502, 503 or 504. A statement has failed if the
    /// database cannot be reached or cannot serve, if the connection is lost, or after a timeout; an error that the
    /// database reports about the statement is not a failure. While the breaker is open, calls get 503 at once.
    pub struct BreakerSpec {
        /// The breaker opens after this many failures in a row.
        pub failures: NonZeroU32 = NonZeroU32::MIN.saturating_add(9),
        /// The breaker also opens when this share of the calls within `window` has failed.
        pub rate: Share = Share(0.5),
        /// `rate` applies only if there were at least this many calls within `window`.
        pub calls: NonZeroU32 = NonZeroU32::MIN.saturating_add(49),
        /// The sliding window for `rate` and `calls`.
        pub window: Duration = Duration::from_secs(10),
        /// How long the breaker stays open. Then it lets one call at a time through as a probe.
        pub open: Duration = Duration::from_secs(5),
        /// The breaker closes after this many successful probes.
        pub probes: NonZeroU32 = NonZeroU32::MIN.saturating_add(2),
    }
}

impl BreakerSpec {
    pub(crate) fn explain(&self) -> String {
        let Self { failures, rate, calls, window, open, probes } = self;
        let rate = rate.0 * 100.0;
        format!(
            "breaker: opens for {open:?} after {failures} failures in a row, or {rate}% of at least {calls} calls within \
             {window:?}; closes after {probes} successful probes"
        )
    }
}

/// The breaker of one server, of an upstream or of a database.
pub(crate) struct Breaker {
    rules: BreakerSpec,
    outage: Outage,
    in_a_row: AtomicU32,
    /// Successful probes since it opened.
    passed: AtomicU32,
    window: Window,
    opened: AtomicU64,
}

impl Breaker {
    pub(crate) fn new(rules: BreakerSpec) -> Self {
        Breaker {
            window: Window::new(rules.window),
            outage: Outage::none(),
            in_a_row: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            opened: AtomicU64::new(0),
            rules,
        }
    }

    /// Asks whether a call may pass. A probe without an outcome delays the next one by `open` at most.
    pub(crate) fn admit(&self) -> Pass {
        self.outage.admit(self.rules.open)
    }

    /// Whether it is open or half open.
    pub(crate) fn is_open(&self) -> bool {
        self.outage.lasts()
    }

    /// How long until the next probe.
    pub(crate) fn left(&self) -> Duration {
        self.outage.left()
    }

    /// How often it has opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Records the outcome of a call.
    pub(crate) fn note(&self, verdict: Verdict, trial: Trial) -> Option<Change> {
        match trial {
            Trial::Yes => self.tried(verdict),
            // The call was sent before the breaker opened: its outcome is out of date.
            Trial::No if self.is_open() => None,
            Trial::No => self.count(verdict),
        }
    }

    fn count(&self, verdict: Verdict) -> Option<Change> {
        let since = self.window.count(verdict);
        if verdict == Verdict::Success {
            // Read first: it is almost always 0, and the line stays in every core's cache.
            if self.in_a_row.load(Ordering::Relaxed) != 0 {
                self.in_a_row.store(0, Ordering::Relaxed);
            }
            return None;
        }
        let in_a_row = self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if in_a_row < self.rules.failures.get() && !self.too_many(since) {
            return None;
        }
        self.passed.store(0, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.outage.begin(self.rules.open);
        Some(Change::Opened)
    }

    fn too_many(&self, now: u64) -> bool {
        let (calls, failures) = self.window.sums(now);
        calls >= self.rules.calls.get() && f64::from(failures) >= f64::from(calls) * self.rules.rate.0
    }

    fn tried(&self, verdict: Verdict) -> Option<Change> {
        if verdict == Verdict::Failure {
            self.passed.store(0, Ordering::Relaxed);
            self.outage.begin(self.rules.open);
            return None;
        }
        if self.passed.fetch_add(1, Ordering::Relaxed) + 1 < self.rules.probes.get() {
            // The next probe may follow at once.
            self.outage.begin(Duration::ZERO);
            return None;
        }
        self.in_a_row.store(0, Ordering::Relaxed);
        self.window.clear();
        self.outage.end().then_some(Change::Closed)
    }
}

/// Parts of the sliding window.
const PARTS: u64 = 10;

/// Recent calls and failures. Two cores that begin a part at the same time may lose a call: the share need not be exact.
struct Window {
    born: Instant,
    part: Duration,
    parts: [WindowPart; PARTS as usize],
}

#[derive(Default)]
struct WindowPart {
    /// Which part since `born` is counted here, plus one.
    number: AtomicU64,
    calls: AtomicU32,
    failures: AtomicU32,
}

impl Window {
    fn new(length: Duration) -> Self {
        let part = (length / PARTS as u32).max(Duration::from_millis(1));
        Window { born: Instant::now(), part, parts: Default::default() }
    }

    /// Counts a call; returns the number of the current part.
    fn count(&self, verdict: Verdict) -> u64 {
        let now = (self.born.elapsed().as_nanos() / self.part.as_nanos()) as u64 + 1;
        let part = &self.parts[(now % PARTS) as usize];
        if part.number.load(Ordering::Relaxed) != now && part.number.swap(now, Ordering::Relaxed) != now {
            part.calls.store(0, Ordering::Relaxed);
            part.failures.store(0, Ordering::Relaxed);
        }
        part.calls.fetch_add(1, Ordering::Relaxed);
        if verdict == Verdict::Failure {
            part.failures.fetch_add(1, Ordering::Relaxed);
        }
        now
    }

    fn sums(&self, now: u64) -> (u32, u32) {
        let recent = self.parts.iter().filter(|part| part.number.load(Ordering::Relaxed) + PARTS > now);
        recent.fold((0, 0), |(calls, failures), part| {
            (calls + part.calls.load(Ordering::Relaxed), failures + part.failures.load(Ordering::Relaxed))
        })
    }

    fn clear(&self) {
        self.parts.iter().for_each(|part| part.number.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::super::breaker::*;

    fn breaker(failures: u32, calls: u32) -> Breaker {
        let number = |number| NonZeroU32::new(number).expect("not 0");
        Breaker::new(BreakerSpec {
            failures: number(failures),
            calls: number(calls),
            ..crate::config::spec::defaults()
        })
    }

    fn call(breaker: &Breaker, verdict: Verdict) -> Option<Change> {
        let trial = match breaker.admit() {
            Pass::Free => Trial::No,
            Pass::Trial => Trial::Yes,
            Pass::Closed => panic!("it is open"),
        };
        breaker.note(verdict, trial)
    }

    async fn seconds(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it() {
        let breaker = breaker(3, 1_000);
        for verdict in [Verdict::Failure, Verdict::Failure, Verdict::Success, Verdict::Failure, Verdict::Failure] {
            assert_eq!(call(&breaker, verdict), None);
        }
        assert_eq!(call(&breaker, Verdict::Failure), Some(Change::Opened));
        assert_eq!(breaker.admit(), Pass::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_of_failures_within_the_window_opens_it() {
        let breaker = breaker(1_000, 20);
        for _ in 0..9 {
            assert_eq!((call(&breaker, Verdict::Success), call(&breaker, Verdict::Failure)), (None, None));
            seconds(1).await;
        }
        // The first calls leave the window.
        seconds(5).await;
        for _ in 0..5 {
            assert_eq!((call(&breaker, Verdict::Success), call(&breaker, Verdict::Failure)), (None, None));
        }
        assert_eq!(call(&breaker, Verdict::Failure), None);
        for _ in 0..2 {
            assert_eq!(call(&breaker, Verdict::Success), None);
        }
        assert_eq!(call(&breaker, Verdict::Failure).or_else(|| call(&breaker, Verdict::Failure)), Some(Change::Opened));
    }

    #[tokio::test(start_paused = true)]
    async fn good_probes_one_at_a_time_close_it() {
        let breaker = breaker(1, 1_000);
        assert_eq!(call(&breaker, Verdict::Failure), Some(Change::Opened));
        seconds(5).await;
        assert_eq!(breaker.admit(), Pass::Trial);
        assert_eq!(breaker.admit(), Pass::Closed);
        // A call that was in flight when the breaker opened.
        assert_eq!(breaker.note(Verdict::Success, Trial::No), None);
        assert_eq!(breaker.note(Verdict::Success, Trial::Yes), None);
        assert_eq!(call(&breaker, Verdict::Failure), None);
        assert_eq!(breaker.admit(), Pass::Closed);
        seconds(5).await;
        assert_eq!((call(&breaker, Verdict::Success), call(&breaker, Verdict::Success)), (None, None));
        assert_eq!(call(&breaker, Verdict::Success), Some(Change::Closed));
        assert_eq!(breaker.admit(), Pass::Free);
    }
}
