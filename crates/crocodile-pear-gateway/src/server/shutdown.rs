//! Stops the server: gracefully at the first signal, at once at the second.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::runtime::threads::{event_loop, start};

/// The stage of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// Readiness checks fail, so that load balancers stop sending requests; clients may still connect.
    Announced,
    Draining,
    Over,
}

/// Stops all cores.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<Phase>);

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown(watch::Sender::new(Phase::Running))
    }
}

impl Shutdown {
    /// Announces the stop, and continues to serve.
    pub fn announce(&self) {
        self.advance(Phase::Announced);
    }

    /// Whether a stop was announced.
    pub fn is_announced(&self) -> bool {
        *self.0.borrow() > Phase::Running
    }

    /// Stops accepting, and lets requests in flight end.
    pub fn begin(&self) {
        self.advance(Phase::Draining);
    }

    /// Stops at once; requests in flight are reset.
    pub fn end(&self) {
        self.advance(Phase::Over);
    }

    /// Handles SIGTERM, SIGINT and SIGQUIT: the first begins the shutdown after `grace`, the second ends it.
    ///
    /// # Errors
    /// If signal handlers cannot be set up.
    pub fn on_signals(&self, grace: Duration) -> io::Result<()> {
        let runtime = event_loop()?;
        let mut orders = {
            let _within = runtime.enter();
            StopSignals([
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::quit())?,
            ])
        };
        let shutdown = self.clone();
        let follow = async move {
            orders.next().await;
            // Before the log line, so that whoever reads the line sees the new state.
            shutdown.announce();
            tracing::info!(?grace, "shutting down; a second signal ends at once");
            if timeout(grace, orders.next()).await.is_err() {
                shutdown.begin();
                orders.next().await;
            }
            shutdown.end();
        };
        start("signals", move || runtime.block_on(follow)).map(drop)
    }

    pub(super) fn follow(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }

    fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let further = phase > *now;
            *now = phase.max(*now);
            further
        });
    }
}

/// The signals that stop the gateway. With SIGQUIT nginx stops in the same way.
struct StopSignals([Signal; 3]);

impl StopSignals {
    async fn next(&mut self) {
        let [term, int, quit] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = quit.recv() => {}
        }
    }
}
