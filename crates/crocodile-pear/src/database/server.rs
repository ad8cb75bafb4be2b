//! A server of a database: its connections, the reads that share them, and its breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{away, open};
use super::pipelined_connection::SharedConnections;
use super::pool::DatabasePool;
use super::silence::Silence;
use crate::config::carried_state::Carry;
use crate::error::{Error, Kind};
use crate::resilience::breaker::{Breaker, BreakerSpec};
use crate::resilience::state_change::Change;
use crate::resilience::trial::{Outage, Pass, Trial, trial};
use crate::resilience::verdict::Verdict;

pub(super) struct DatabaseServer {
    pub(super) pool: Arc<DatabasePool>,
    pub(super) shared: Arc<SharedConnections>,
    breaker: Option<Arc<Guard>>,
    /// Only of a replica: after it was away, others are asked for a moment.
    rest: Option<Arc<Outage>>,
    silence: Arc<Silence>,
}

/// A breaker, and the statements that it has refused.
pub(super) struct Guard {
    breaker: Breaker,
    refused: AtomicU64,
}

/// How long a replica that was away is asked nothing; then one statement tries it.
const REST: Duration = Duration::from_secs(1);

/// The state of a server, for operators.
#[derive(Clone, Debug)]
pub struct DatabaseServerState {
    /// Host, port and name of the database.
    pub address: Arc<str>,
    /// Whether it cannot be reached: there is no connection, and the last attempt to open one failed.
    pub away: bool,
    /// Whether its breaker is open or half open.
    pub open: bool,
    /// How often its breaker has opened.
    pub opened: u64,
    /// Statements that its breaker has refused.
    pub refused: u64,
}

impl DatabaseServerState {
    /// Whether it gets statements, and can be reached.
    pub fn is_up(&self) -> bool {
        !self.away && !self.open
    }
}

impl Guard {
    pub(super) fn new(rules: &BreakerSpec) -> Self {
        Guard { breaker: Breaker::new(rules.clone()), refused: AtomicU64::new(0) }
    }
}

impl DatabaseServer {
    /// A server whose connections are those of the configuration before, where nothing of it has changed.
    pub(super) fn new(pool: impl FnOnce() -> DatabasePool, breaker: Option<Arc<Guard>>, carry: &Carry) -> Self {
        let (pool, shared, silence) =
            (carry.state(pool), carry.state(SharedConnections::default), carry.state(Silence::default));
        DatabaseServer { pool, shared, breaker, rest: None, silence }
    }

    pub(super) fn replica(pool: impl FnOnce() -> DatabasePool, breaker: Option<Arc<Guard>>, carry: &Carry) -> Self {
        DatabaseServer { rest: Some(carry.state(Outage::none)), ..DatabaseServer::new(pool, breaker, carry) }
    }

    /// How it is now.
    pub(super) fn state(&self) -> DatabaseServerState {
        let (guard, breaker) = (self.breaker.as_ref(), self.breaker.as_ref().map(|guard| &guard.breaker));
        DatabaseServerState {
            address: self.pool.shown.clone(),
            away: self.pool.is_away(),
            open: breaker.is_some_and(Breaker::is_open),
            opened: breaker.map_or(0, Breaker::opened),
            refused: guard.map_or(0, |guard| guard.refused.load(Relaxed)),
        }
    }

    /// Asks whether a statement may run there, which fails there if it takes until then.
    ///
    /// # Errors
    /// `Busy`, if the breaker is open; `Unavailable`, if it was just away.
    pub(super) fn admit(&self, until: Option<Instant>) -> Result<TriedStatement<'_>, Error> {
        if self.rest.as_ref().is_some_and(|rest| rest.admit(REST) == Pass::Closed) {
            return Err(away());
        }
        let Some(guard) = &self.breaker else { return Ok(TriedStatement(None)) };
        let breaker = &guard.breaker;
        match trial(breaker.admit()) {
            Some(trial) => {
                let attempts = self.pool.attempts_failed();
                Ok(TriedStatement(Some(StatementWatch {
                    server: self,
                    breaker,
                    trial,
                    until,
                    attempts,
                    connected: false,
                })))
            }
            None => Err(open(breaker.left())),
        }
    }

    /// Counts a statement that was refused.
    pub(super) fn refuse(&self) {
        if let Some(guard) = &self.breaker {
            guard.refused.fetch_add(1, Relaxed);
        }
    }

    /// Notes that the server was unreachable.
    pub(super) fn away(&self) {
        self.rest.iter().for_each(|rest| rest.begin(REST));
    }

    /// Ends once a replica is silent; never for a server that has no other beside it.
    pub(super) async fn silent(&self) {
        match &self.rest {
            Some(_) => self.silence.found(&self.pool).await,
            None => std::future::pending().await,
        }
    }

    /// A statement was answered, if only with an error.
    pub(super) fn hear(&self) {
        if self.rest.is_some() {
            self.silence.hear();
        }
    }

    /// A statement waited for a connection in vain: with a breaker, that counts if the server answers nothing at all.
    pub(super) async fn waited_in_vain(&self, tried: &mut TriedStatement<'_>) {
        if self.breaker.is_some() && self.silence.greet(&self.pool).await {
            tried.ended(Some(Verdict::Failure));
        }
    }

    /// Notes that the server has answered.
    pub(super) fn back(&self) {
        self.hear();
        if let Some(rest) = self.rest.as_ref().filter(|rest| rest.lasts()) {
            rest.end();
        }
    }
}

/// A statement that was let through; the breaker, if there is one, learns how it went.
pub(super) struct TriedStatement<'a>(Option<StatementWatch<'a>>);

struct StatementWatch<'a> {
    server: &'a DatabaseServer,
    breaker: &'a Breaker,
    trial: Trial,
    until: Option<Instant>,
    /// How many attempts to connect had failed when it was let through.
    attempts: u64,
    connected: bool,
}

impl TriedStatement<'_> {
    /// Notes that the statement has a connection.
    pub(super) fn connected(&mut self) {
        self.0.iter_mut().for_each(|watch| watch.connected = true);
    }

    /// Notes that the statement got no connection: that is the server's fault only if the server is unreachable. A failed
    /// attempt to connect counts once, not for the statements right after it, which try nothing: a server that restarts
    /// would be left alone for too long.
    pub(super) fn unconnected(&mut self, error: &Error) {
        let tried = |watch: &StatementWatch<'_>| watch.server.pool.attempts_failed() != watch.attempts;
        let failed = error.kind() == Kind::Unavailable && self.0.as_ref().is_some_and(tried);
        self.ended(failed.then_some(Verdict::Failure));
    }

    /// The run has ended; `None` if that means nothing for the server's health.
    pub(super) fn ended(&mut self, verdict: Option<Verdict>) {
        if let (Some(watch), Some(verdict)) = (self.0.take(), verdict) {
            watch.note(verdict);
        }
    }
}

impl Drop for TriedStatement<'_> {
    fn drop(&mut self) {
        // Dropped by its caller. Neither the client's deadline nor a wait for other statements is the server's fault.
        let Some(watch) = self.0.take() else { return };
        let late = watch.until.is_some_and(|until| Instant::now() >= until);
        if late && (watch.connected || watch.server.pool.has_none()) {
            watch.note(Verdict::Failure);
        }
    }
}

impl StatementWatch<'_> {
    fn note(&self, verdict: Verdict) {
        let (database, server) = (&*self.server.pool.name, &*self.server.pool.shown);
        match self.breaker.note(verdict, self.trial) {
            Some(Change::Opened) => tracing::warn!(database, server, "circuit breaker opened"),
            Some(Change::Closed) => tracing::info!(database, server, "circuit breaker closed"),
            _ => {}
        }
    }
}
