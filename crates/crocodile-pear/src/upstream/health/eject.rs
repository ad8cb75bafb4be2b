//! Ejection (outlier detection): a server whose calls fail gets no calls for a while; the others take over.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Json, Located, Mark, Node};
use crate::resilience::state_change::Change;
use crate::resilience::trial::{Outage, Pass, Trial};
use crate::resilience::verdict::Verdict;
use crate::runtime::backoff::grown;
use crate::spec;

spec! {
    /// When one of several servers is ejected: it gets no calls for a while. Failures are the same as for `breaker`. The
    /// last server is never ejected.
    pub struct EjectSpec {
        /// A server is ejected after this many failures in a row.
        pub failures: NonZeroU32 = NonZeroU32::MIN.saturating_add(4),
        /// How long the ejection lasts. Then one call tests the server; if it fails, the next wait is twice as long.
        pub first: Duration = Duration::from_secs(1),
        /// The longest wait.
        pub most: Duration = Duration::from_secs(30),
    }
}

impl EjectSpec {
    pub(crate) fn mark(&self) -> Mark {
        Mark::of((self.failures, self.first, self.most))
    }
}

/// Whether servers that fail are ejected.
#[derive(Clone, Debug)]
pub enum Ejection {
    /// Never; written `never`.
    Never,
    /// After failures.
    After(EjectSpec),
}

impl Decode for Ejection {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_text().as_ref().map(Located::as_str) {
            Some("never") => Some(Ejection::Never),
            Some(_) => node.wrong("a map, or `never`", "", problems),
            None => EjectSpec::decode(node, problems).map(Ejection::After),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [{"const": "never"}, EjectSpec::schema(definitions)]})
    }
}

/// The ejection of one server.
pub(crate) struct Eject {
    rules: EjectSpec,
    outage: Outage,
    in_a_row: AtomicU32,
    /// Failed trial calls since it was ejected.
    again: AtomicU32,
    times: AtomicU64,
}

impl Eject {
    pub(crate) fn new(rules: EjectSpec) -> Self {
        Eject {
            rules,
            outage: Outage::none(),
            in_a_row: AtomicU32::new(0),
            again: AtomicU32::new(0),
            times: AtomicU64::new(0),
        }
    }

    /// Asks whether a call may go to the server.
    pub(crate) fn admit(&self) -> Pass {
        self.outage.admit(self.rules.first)
    }

    /// Whether the server is ejected.
    pub(crate) fn is_out(&self) -> bool {
        self.outage.lasts()
    }

    /// How long the server still gets no calls, if it is ejected.
    pub(crate) fn remains(&self) -> Option<Duration> {
        self.outage.remains()
    }

    /// Whether the latest call has failed.
    pub(crate) fn is_doubted(&self) -> bool {
        self.in_a_row.load(Ordering::Relaxed) != 0
    }

    /// How often the server was ejected.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }

    /// Records the outcome of a call; `last`: no other server takes calls.
    pub(crate) fn note(&self, verdict: Verdict, trial: Trial, last: impl FnOnce() -> bool) -> Option<Change> {
        match (verdict, trial) {
            (Verdict::Success, Trial::Yes) => self.readmit(),
            (Verdict::Failure, Trial::Yes) => {
                let again = self.again.fetch_add(1, Ordering::Relaxed) + 1;
                self.outage.begin(grown(self.rules.first, again, self.rules.most));
                None
            }
            (Verdict::Success, Trial::No) => {
                // Read first: it is almost always 0, and the line stays in every core's cache.
                if self.in_a_row.load(Ordering::Relaxed) != 0 {
                    self.in_a_row.store(0, Ordering::Relaxed);
                }
                None
            }
            (Verdict::Failure, Trial::No) => {
                let in_a_row = self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
                if in_a_row < self.rules.failures.get() || self.is_out() || last() {
                    return None;
                }
                self.times.fetch_add(1, Ordering::Relaxed);
                self.outage.begin(self.rules.first);
                Some(Change::Ejected)
            }
        }
    }

    /// Ends the ejection.
    pub(crate) fn readmit(&self) -> Option<Change> {
        self.in_a_row.store(0, Ordering::Relaxed);
        self.again.store(0, Ordering::Relaxed);
        self.outage.end().then_some(Change::Readmitted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::eject::*;

    fn fail(eject: &Eject, times: u32) -> Option<Change> {
        (0..times).fold(None, |_, _| eject.note(Verdict::Failure, Trial::No, || false))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_bad_is_left_out_for_longer_each_time() {
        let eject = Eject::new(crate::config::spec::defaults());
        assert_eq!((fail(&eject, 4), fail(&eject, 1), fail(&eject, 9)), (None, Some(Change::Ejected), None));
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            tokio::time::advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
            assert_eq!(eject.admit(), Pass::Closed, "{seconds}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(eject.admit(), Pass::Trial);
            assert_eq!(eject.note(Verdict::Failure, Trial::Yes, || false), None);
        }
        assert_eq!(eject.note(Verdict::Success, Trial::Yes, || false), Some(Change::Readmitted));
        assert_eq!((eject.admit(), eject.times()), (Pass::Free, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_one_left_stays() {
        let eject = Eject::new(crate::config::spec::defaults());
        for _ in 0..100 {
            assert_eq!(eject.note(Verdict::Failure, Trial::No, || true), None);
        }
        assert_eq!(eject.admit(), Pass::Free);
    }
}
