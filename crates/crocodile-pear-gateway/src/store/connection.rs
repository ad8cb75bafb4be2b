//! The connection to the store: one for all cores. While it is away nobody waits for it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crocodile_pear::cache::Tier;
use crocodile_pear::choice;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::metrics::Metrics;
use crate::redis::RedisServer;

choice! {
    /// What becomes of requests with a limit while the store is away.
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
    pub(super) state: watch::Sender<State>,
    pub(super) timeout: Duration,
    /// How rate limits work while Redis is unavailable.
    pub while_away: WhileAway,
    /// How many gateways share it.
    pub replicas: u64,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tier: OnceLock<Arc<dyn Tier>>,
}

/// Whether the store can be asked.
#[derive(Clone)]
pub(super) enum State {
    /// It has not been connected to yet.
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
    let mut told = false;
    loop {
        match timeout(ATTEMPT, attempt(&server, store.timeout)).await {
            Ok(Ok(connection)) => {
                if told {
                    tracing::info!("the store answers again");
                }
                told = false;
                store.metrics.set_store_up(true);
                let mut state = store.state.subscribe();
                store.state.send_replace(State::Up(connection));
                // It ends with the store, which the task itself holds.
                let _ = state.wait_for(|state| matches!(state, State::Away)).await.map(drop);
                told = store.tell(told, "it did not answer in time");
            }
            Ok(Err(error)) => told = store.tell(told, &error.to_string()),
            Err(_) => told = store.tell(told, "it does not answer"),
        }
        store.metrics.set_store_up(false);
        sleep(AGAIN).await;
    }
}

/// A connection on which the store has answered.
async fn attempt(server: &RedisServer, time: Duration) -> redis::RedisResult<MultiplexedConnection> {
    let mut connection = server.connect(AsyncConnectionConfig::new()).await?;
    let answer = redis::cmd("PING");
    timeout(time, answer.query_async::<()>(&mut connection))
        .await
        .unwrap_or_else(|late| Err(std::io::Error::from(late).into()))?;
    Ok(connection)
}

impl Store {
    /// Says once that it is away.
    fn tell(&self, told: bool, why: &str) -> bool {
        if !told {
            let holds = self.while_away.word();
            tracing::warn!(why, while_away = holds, "the store is unavailable; rate limits and caches work without it");
        }
        self.state.send_replace(State::Away);
        true
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
                Away
            })
        });
        match answer.await {
            Ok(Ok(value)) => Ok(value),
            _ => {
                // Those that come after do not wait.
                self.state.send_if_modified(|state| !matches!(std::mem::replace(state, State::Away), State::Away));
                Err(Away)
            }
        }
    }

    pub(super) async fn connection(&self) -> Result<MultiplexedConnection, Away> {
        // Cloned and let go: nobody waits while the state is borrowed.
        let state = self.state.borrow().clone();
        match state {
            State::Up(connection) => Ok(connection),
            State::Away => Err(Away),
            State::New => {
                let mut changes = self.state.subscribe();
                let state = changes.wait_for(|state| !matches!(state, State::New)).await.map_err(|_| Away)?;
                match &*state {
                    State::Up(connection) => Ok(connection.clone()),
                    _ => Err(Away),
                }
            }
        }
    }
}
