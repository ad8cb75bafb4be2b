//! What decides whether a server takes calls: its health, its ejection, its breaker.

use std::sync::Arc;

use super::breaker::{Breaker, BreakerSpec};
use super::eject::{Eject, EjectSpec};
use super::health::{Health, HealthSpec};
use crate::carried::Carry;

/// What decides whether a server takes calls.
pub(super) struct Standing {
    pub(super) health: Option<Arc<Health>>,
    pub(super) eject: Option<Arc<Eject>>,
    pub(super) breaker: Option<Arc<Breaker>>,
}

/// What the state of a server depends on.
pub(super) struct Rules<'a> {
    pub(super) health: Option<&'a HealthSpec>,
    pub(super) eject: Option<&'a EjectSpec>,
    pub(super) breaker: Option<&'a BreakerSpec>,
}

impl Standing {
    /// `None` if nothing needs to be tracked.
    pub(super) fn new(rules: &Rules<'_>, carry: &Carry) -> Option<Self> {
        let standing = Standing {
            health: rules.health.map(|rules| carry.part(rules.explain()).state(Health::default)),
            eject: rules.eject.map(|rules| carry.part(rules.mark()).state(|| Eject::new(rules.clone()))),
            breaker: rules.breaker.map(|rules| carry.part(rules.explain()).state(|| Breaker::new(rules.clone()))),
        };
        let nothing = standing.health.is_none() && standing.eject.is_none() && standing.breaker.is_none();
        Some(standing).filter(|_| !nothing)
    }
}
