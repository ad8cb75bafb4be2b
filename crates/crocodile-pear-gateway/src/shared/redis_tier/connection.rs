//! The connection to the store: one for all cores. While it is away nobody waits for it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::cache::Tier;
use crocodile_pear::unstable::choice;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::reason::{self, OutageReason};
use super::store_health::StoreHealth;
use crate::shared::redis::RedisServer;
use crate::telemetry::metrics::Metrics;

choice! {
    /// The handling of requests with a limit while the store is away.
    pub enum WhileAway {
        /// Each gateway counts by itself, with its share of the limit (see `replicas`).
        Local = "local",
        /// Requests pass.
        Open = "open",
        /// Requests get 503.
        Closed = "closed",
    }
}

/// The store, as a gateway uses it.
pub struct Store {
    pub(super) state: watch::Sender<StoreState>,
    pub(super) timeout: Duration,
    /// How rate limits work while Redis is unavailable.
    pub while_away: WhileAway,
    /// How many gateways share it.
    pub replicas: u64,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tier: OnceLock<Arc<dyn Tier>>,
    /// Calls in a row that were not answered in time.
    pub(super) late: AtomicU32,
    /// Why it was found away.
    pub(super) why: Mutex<Option<OutageReason>>,
}

/// After so many calls in a row without an answer in time, the store is away.
const LATE: u32 = 3;

/// Whether the store can be asked.
#[derive(Clone)]
pub(super) enum StoreState {
    /// The store has not been connected to yet.
    New,
    Up(MultiplexedConnection),
    Away,
}

/// The store cannot be asked now.
#[derive(Debug)]
pub struct Away;

/// Between two attempts to reach a store that is away.
pub(super) const AGAIN: Duration = Duration::from_millis(100);

/// For an attempt: nobody waits for it.
const ATTEMPT: Duration = Duration::from_secs(1);

impl Store {
    /// The second tier of the caches.
    pub fn tier(&self) -> Option<Arc<dyn Tier>> {
        self.tier.get().cloned()
    }
}

/// Connects, and again whenever the store was found away.
pub(super) async fn connect(store: Arc<Store>, server: RedisServer) {
    let (mut health, mut outage) = (StoreHealth::default(), OutageLog::default());
    let mut open = None;
    loop {
        match attempt(&server, &mut open, store.timeout).await {
            Ok(connection) if health.answers() => {
                outage.back();
                store.metrics.set_store_up(true);
                store.late.store(0, Relaxed);
                let mut state = store.state.subscribe();
                store.state.send_replace(StoreState::Up(connection));
                // It ends with the store, which the task itself holds.
                let _ = state.wait_for(|state| matches!(state, StoreState::Away)).await.map(drop);
                health.leaves();
                open = None;
                let why = store.why.lock().unwrap_or_else(PoisonError::into_inner).take();
                outage.away(&why.unwrap_or(reason::LATE), store.while_away);
            }
            Ok(_) => {}
            Err(reason) => {
                open = None;
                health.fails();
                outage.away(&reason, store.while_away);
            }
        }
        store.state.send_if_modified(|state| !matches!(std::mem::replace(state, StoreState::Away), StoreState::Away));
        store.metrics.set_store_up(false);
        sleep(AGAIN).await;
    }
}

/// A connection on which the store has done what limits need of it: a store that is full or read-only is greeted in vain.
async fn attempt(
    server: &RedisServer,
    open: &mut Option<MultiplexedConnection>,
    time: Duration,
) -> Result<MultiplexedConnection, OutageReason> {
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => {
            let connecting = server.connect(AsyncConnectionConfig::new());
            let connected = timeout(ATTEMPT, connecting).await.map_err(|_| reason::LATE)?;
            connected.map_err(|error| reason::from_error(&error))?
        }
    };
    let mut trial = redis::cmd("EVAL");
    trial.arg("return redis.call('SET', KEYS[1], '1', 'PX', 10000)").arg(1).arg("crocodile-pear:trial");
    let answer = timeout(time, trial.query_async::<()>(&mut connection)).await.map_err(|_| reason::LATE)?;
    answer.map_err(|error| reason::from_error(&error))?;
    Ok(open.insert(connection).clone())
}

/// The log lines of an outage: one, and another one if it lasts for another reason.
#[derive(Default)]
struct OutageLog {
    reason: Option<OutageReason>,
    /// Another reason, and since when.
    other: Option<(OutageReason, Instant)>,
}

/// How long another reason must last before it is told.
const LASTS: Duration = Duration::from_secs(1);

impl OutageLog {
    fn back(&mut self) {
        if self.reason.take().is_some() {
            tracing::info!("the store answers again");
        }
        self.other = None;
    }

    fn away(&mut self, why: &OutageReason, while_away: WhileAway) {
        let Some(known) = &self.reason else {
            let holds = while_away.word();
            tracing::warn!(%why, while_away = holds, "the store is unavailable; rate limits and caches work without it");
            self.reason = Some(why.clone());
            return;
        };
        match &self.other {
            _ if known == why => self.other = None,
            Some((other, since)) if other == why => {
                if since.elapsed() >= LASTS {
                    tracing::warn!(%why, "the store is still unavailable");
                    self.reason = Some(why.clone());
                    self.other = None;
                }
            }
            _ => self.other = Some((why.clone(), Instant::now())),
        }
    }
}

impl Store {
    /// A call has shown that it cannot be asked: those that come after do not wait.
    fn mark_away(&self, why: OutageReason) {
        let mut known = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let leaves = |state: &mut StoreState| match state {
            StoreState::Up(_) => {
                *state = StoreState::Away;
                true
            }
            StoreState::New | StoreState::Away => false,
        };
        if self.state.send_if_modified(leaves) {
            *known = Some(why);
        }
    }

    /// Runs a script that gives integers.
    ///
    /// # Errors
    /// When the store is away, or does not answer in time.
    pub async fn run(&self, script: &str, keys: &[String], arguments: &[String]) -> Result<Vec<i64>, Away> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        let answer = self.call(&command).await;
        if answer.is_err() {
            self.metrics.count_store_failure();
        }
        answer
    }

    /// Sends a command, and waits for its answer as long as a request may.
    ///
    /// # Errors
    /// When the store is away, or does not answer in time.
    pub async fn call<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, Away> {
        let answer = timeout(self.timeout, async {
            let mut connection = self.connection().await?;
            command.query_async(&mut connection).await.map_err(|error: redis::RedisError| {
                tracing::debug!(%error, "a call to the store failed");
                self.mark_away(reason::from_error(&error));
                Away
            })
        });
        match answer.await {
            Ok(Ok(value)) => {
                // Read first: it is almost always 0, and the line stays in every core's cache.
                if self.late.load(Relaxed) != 0 {
                    self.late.store(0, Relaxed);
                }
                Ok(value)
            }
            Ok(Err(away)) => Err(away),
            Err(_) => {
                // One answer that is late is no outage.
                if self.late.fetch_add(1, Relaxed) + 1 >= LATE {
                    self.mark_away(reason::LATE);
                }
                Err(Away)
            }
        }
    }

    pub(super) async fn connection(&self) -> Result<MultiplexedConnection, Away> {
        // Cloned and let go: nobody waits while the state is borrowed.
        let state = self.state.borrow().clone();
        match state {
            StoreState::Up(connection) => Ok(connection),
            StoreState::Away => Err(Away),
            StoreState::New => {
                let mut changes = self.state.subscribe();
                let state = changes.wait_for(|state| !matches!(state, StoreState::New)).await.map_err(|_| Away)?;
                match &*state {
                    StoreState::Up(connection) => Ok(connection.clone()),
                    _ => Err(Away),
                }
            }
        }
    }
}
