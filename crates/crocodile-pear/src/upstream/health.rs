//! The health of a server as active checks have found it, and how it is checked.

pub(crate) mod eject;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::config::carried_state::Carry;
use crate::config::problem::Problems;
use crate::config::spec::{Located, only};
use crate::resilience::breaker::{Breaker, BreakerSpec};
use crate::resilience::state_change::Change;
use crate::spec;
use eject::{Eject, EjectSpec};

spec! {
    /// Active health checks: a GET that must be answered with a status below 400. A server that is down gets no
    /// calls, unless all are down. Short form: the path.
    pub struct HealthSpec {
        /// The path to GET. It is added to the path of the server's URL.
        pub path: Located<String> = Located::new("/".to_owned(), Default::default()),
        /// The time between two checks.
        pub interval: Duration = Duration::from_secs(5),
        /// Timeout for the answer.
        pub timeout: Duration = Duration::from_secs(2),
        /// A server that is down is up after this many successful checks in a row.
        pub healthy: NonZeroU32 = NonZeroU32::MIN.saturating_add(1),
        /// A server is down after this many failed checks in a row.
        pub unhealthy: NonZeroU32 = NonZeroU32::MIN.saturating_add(2),
    }
    short(path)
}

fn path(path: Located<String>, problems: &mut Problems) -> Option<HealthSpec> {
    only([("path", path)], problems)
}

impl HealthSpec {
    /// Reports what is wrong in the configuration.
    pub(super) fn check(&self, problems: &mut Problems) -> Option<()> {
        let path = self.path.as_str();
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            let remedy = "write it as `/health`, other characters percent-encoded";
            return problems.error(self.path.span, "this is not a path", remedy);
        }
        if self.interval.is_zero() {
            return problems.error(
                self.path.span,
                "the interval between health checks must be longer than 0",
                "write `interval: 5s`",
            );
        }
        Some(())
    }

    pub(super) fn explain(&self) -> String {
        let Self { path, interval, timeout, healthy, unhealthy } = self;
        format!(
            "health: GET {path} every {interval:?}, timeout {timeout:?}; down after {unhealthy} failed checks, up after {healthy} \
             successful ones"
        )
    }
}

/// The state that the checks have found.
#[derive(Default)]
pub(crate) struct Health {
    down: AtomicBool,
    /// Checks in a row that differ from that.
    in_a_row: AtomicU32,
    checks: AtomicU64,
    bad: AtomicU64,
}

impl Health {
    pub(super) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Counts a check, of one task alone; returns what has changed.
    pub(super) fn count(&self, good: bool, rules: &HealthSpec) -> Option<Change> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.bad.fetch_add(u64::from(!good), Ordering::Relaxed);
        // Only checks that differ from the present state count.
        let in_a_row = if good == self.is_down() { self.in_a_row.load(Ordering::Relaxed) + 1 } else { 0 };
        let enough = if good { rules.healthy } else { rules.unhealthy };
        let changes = in_a_row >= enough.get();
        self.in_a_row.store(if changes { 0 } else { in_a_row }, Ordering::Relaxed);
        changes.then(|| {
            self.down.store(!good, Ordering::Relaxed);
            if good { Change::Up } else { Change::Down }
        })
    }

    /// How many checks ran, and how many failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.checks.load(Ordering::Relaxed), self.bad.load(Ordering::Relaxed))
    }
}

/// The parts that decide whether a server takes calls.
pub(crate) struct Availability {
    pub(crate) health: Option<Arc<Health>>,
    pub(crate) eject: Option<Arc<Eject>>,
    pub(crate) breaker: Option<Arc<Breaker>>,
}

/// The rules on which the state of a server depends.
pub(crate) struct HealthRules<'a> {
    pub(crate) health: Option<&'a HealthSpec>,
    pub(crate) eject: Option<&'a EjectSpec>,
    pub(crate) breaker: Option<&'a BreakerSpec>,
}

impl Availability {
    /// `None` if nothing needs to be tracked.
    pub(crate) fn new(rules: &HealthRules<'_>, carry: &Carry) -> Option<Self> {
        let availability = Availability {
            health: rules.health.map(|rules| carry.part(rules.explain()).state(Health::default)),
            eject: rules.eject.map(|rules| carry.part(rules.mark()).state(|| Eject::new(rules.clone()))),
            breaker: rules.breaker.map(|rules| carry.part(rules.explain()).state(|| Breaker::new(rules.clone()))),
        };
        let nothing = availability.health.is_none() && availability.eject.is_none() && availability.breaker.is_none();
        Some(availability).filter(|_| !nothing)
    }
}
