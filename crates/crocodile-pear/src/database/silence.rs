//! Whether a server is silent. A read that gets no answer has it greeted, on a connection beside the others: a server
//! that answers the greeting works on the read, and is left alone.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::pool::DatabasePool;
use crate::telemetry::log_limiter::LogLimiter;

/// A read looks after this time, and after the same time again.
const STEP: Duration = Duration::from_millis(100);

/// The longest time between two looks.
const SELDOM: Duration = Duration::from_secs(1);

/// How long the answer to a greeting may take: two round trips, and a process that is started.
const GREETING: Duration = Duration::from_millis(400);

/// How long a finding holds: so often a server is greeted at most.
const HOLDS: Duration = Duration::from_secs(1);

/// The findings about the silence of a server.
#[derive(Default)]
pub(super) struct Silence {
    /// Whether a statement was answered since the last look.
    heard: AtomicBool,
    /// When the server was greeted, and whether it was silent. Locked while it is greeted: all wait for one greeting.
    found: Mutex<Option<(Instant, bool)>>,
    logged: LogLimiter,
}

impl Silence {
    /// A statement was answered.
    pub(super) fn hear(&self) {
        // Read first: the line stays in every core's cache.
        if !self.heard.load(Relaxed) {
            self.heard.store(true, Relaxed);
        }
    }

    /// Ends once the server is silent.
    pub(super) async fn found(&self, pool: &DatabasePool) {
        let mut step = STEP;
        sleep(step).await;
        loop {
            self.heard.store(false, Relaxed);
            sleep(step).await;
            // Boxed: few reads wait so long, and all would carry the room.
            if !self.heard.load(Relaxed) && Box::pin(self.greet(pool)).await {
                return;
            }
            step = (step * 2).min(SELDOM);
        }
    }

    /// Greets the server, unless that was just done; returns whether it is silent.
    pub(super) async fn greet(&self, pool: &DatabasePool) -> bool {
        let mut found = self.found.lock().await;
        if let Some((at, silent)) = *found
            && at.elapsed() < HOLDS
        {
            return silent;
        }
        let silent = !matches!(timeout(GREETING, pool.address.greet()).await, Ok(Ok(())));
        *found = Some((Instant::now(), silent));
        if silent && self.logged.allows() {
            let (database, address) = (&*pool.name, &*pool.shown);
            tracing::warn!(database, address, "the database server does not answer");
        }
        silent
    }
}
