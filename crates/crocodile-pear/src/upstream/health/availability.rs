//! The parts that decide whether a server takes calls: its health, its ejection, its breaker.

use std::sync::Arc;

use super::eject::{Eject, EjectSpec};
use super::{Health, HealthSpec};
use crate::config::carried_state::Carry;
use crate::resilience::breaker::{Breaker, BreakerSpec};

/// The parts that decide whether a server takes calls.
pub(crate) struct Availability {
    pub(crate) health: Option<Arc<Health>>,
    pub(crate) eject: Option<Arc<Eject>>,
    pub(crate) breaker: Option<Arc<Breaker>>,
}

/// The rules on which the state of a server depends.
pub(crate) struct Rules<'a> {
    pub(crate) health: Option<&'a HealthSpec>,
    pub(crate) eject: Option<&'a EjectSpec>,
    pub(crate) breaker: Option<&'a BreakerSpec>,
}

impl Availability {
    /// `None` if nothing needs to be tracked.
    pub(crate) fn new(rules: &Rules<'_>, carry: &Carry) -> Option<Self> {
        let standing = Availability {
            health: rules.health.map(|rules| carry.part(rules.explain()).state(Health::default)),
            eject: rules.eject.map(|rules| carry.part(rules.mark()).state(|| Eject::new(rules.clone()))),
            breaker: rules.breaker.map(|rules| carry.part(rules.explain()).state(|| Breaker::new(rules.clone()))),
        };
        let nothing = standing.health.is_none() && standing.eject.is_none() && standing.breaker.is_none();
        Some(standing).filter(|_| !nothing)
    }
}
