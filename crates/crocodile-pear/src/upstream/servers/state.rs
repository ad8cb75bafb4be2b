//! The state of a server, for operators.

use std::sync::Arc;
use std::time::Duration;

use super::server::Server;
use crate::resilience::breaker::Breaker;
use crate::upstream::connect::PhaseTotal;
use crate::upstream::health::Health;
use crate::upstream::health::eject::Eject;

#[derive(Clone, Debug)]
pub struct ServerState {
    /// Authority and base path. For operators only, never for clients.
    pub address: Arc<str>,
    /// Whether it takes calls: not down, not ejected, breaker closed.
    pub up: bool,
    /// Whether its breaker is open or half open.
    pub open: bool,
    /// How often its breaker has opened.
    pub opened: u64,
    /// How often it was ejected.
    pub ejected: u64,
    /// How long it still gets no calls, if it is ejected now. Then a call tests it.
    pub ejected_for: Option<Duration>,
    /// Whether its health checks fail.
    pub down: bool,
    /// Health checks, and failed ones.
    pub checks: (u64, u64),
    /// Failed connection attempts, and those that failed because of TLS.
    pub connect_failures: (u64, u64),
    /// Failed DNS lookups, and changes of the addresses.
    pub dns: (u64, u64),
    /// The cost of opening connections.
    pub phases: Vec<PhaseTotal>,
}

impl ServerState {
    /// How it is now.
    pub(crate) fn from_server(server: &Server) -> Self {
        let availability = server.availability.as_deref();
        let (breaker, eject) =
            (availability.and_then(|s| s.breaker.as_deref()), availability.and_then(|s| s.eject.as_deref()));
        let health = availability.and_then(|s| s.health.as_deref());
        ServerState {
            address: server.address.clone(),
            up: server.is_in(),
            open: breaker.is_some_and(Breaker::is_open),
            opened: breaker.map_or(0, Breaker::opened),
            ejected: eject.map_or(0, Eject::times),
            ejected_for: eject.and_then(Eject::remains),
            down: health.is_some_and(Health::is_down),
            checks: health.map_or((0, 0), Health::counts),
            connect_failures: server.pool.connector.failures(),
            dns: server.pool.connector.name().map_or((0, 0), |name| (name.failures(), name.changes().into())),
            phases: server.pool.connector.phases(),
        }
    }
}
