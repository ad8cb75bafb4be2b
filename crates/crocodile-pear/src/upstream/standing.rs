//! What decides whether a server takes calls: its health, its ejection, its breaker.

use super::breaker::{Breaker, BreakerSpec};
use super::eject::{Eject, EjectSpec};
use super::health::Health;

/// What decides whether a server takes calls.
pub(super) struct Standing {
    pub(super) health: Option<Health>,
    pub(super) eject: Option<Eject>,
    pub(super) breaker: Option<Breaker>,
}

/// What the state of a server depends on.
pub(super) struct Rules<'a> {
    /// Whether its health is checked.
    pub(super) checked: bool,
    pub(super) eject: Option<&'a EjectSpec>,
    pub(super) breaker: Option<&'a BreakerSpec>,
}

impl Standing {
    /// `None` if nothing needs to be tracked.
    pub(super) fn new(rules: &Rules<'_>) -> Option<Self> {
        let standing = Standing {
            health: rules.checked.then(Health::default),
            eject: rules.eject.cloned().map(Eject::new),
            breaker: rules.breaker.cloned().map(Breaker::new),
        };
        let nothing = standing.health.is_none() && standing.eject.is_none() && standing.breaker.is_none();
        Some(standing).filter(|_| !nothing)
    }
}
