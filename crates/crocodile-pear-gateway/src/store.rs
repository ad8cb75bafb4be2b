//! `store`: how much caches keep, and what several gateways share, in Redis. One call has little time; while the store is away nobody waits for it.

mod follow;
mod outbox;
mod scripts;
mod shared;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crocodile_pear::cache::Tier;
use crocodile_pear::problem::Problems;
use crocodile_pear::spec::{Located, Size};
use crocodile_pear::{choice, spec};
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::background::Task;
use crate::lasting::Lasting;
use crate::metrics::Metrics;
use crate::store::follow::Follower;
use crate::store::outbox::Outbox;
use crate::store::shared::SharedTier;

spec! {
    /// Where caches keep answers, and where several gateways keep what they share.
    pub struct StoreSpec {
        /// The most memory that all caches of the gateway take: heads, bodies, keys and index. What was not used lately makes room.
        pub memory: Located<Size> = Located::new(MEMORY, Default::default()),
        /// What several gateways share, the counts of their rate limits and the answers of their caches, is in a Redis server (5 or
        /// later), `redis://HOST:PORT`, with `redis://USER:PASSWORD@HOST:PORT/DATABASE` where it asks for them.
        pub redis: Option<Located<String>>,
        /// How long a request waits for it; then the store counts as away until it answers again.
        pub timeout: Duration = Duration::from_millis(20),
        /// What holds while it is away.
        pub while_away: WhileAway = WhileAway::Local,
        /// How many gateways share it: while it is away, each has this part of every limit.
        pub replicas: std::num::NonZeroU32 = std::num::NonZeroU32::MIN.saturating_add(1),
    }
}

choice! {
    /// What becomes of requests with a limit while the store is away.
    pub enum WhileAway {
        /// Each gateway counts by itself, with its part of the limit.
        Local = "local",
        /// They pass.
        Open = "open",
        /// They are answered with 503.
        Closed = "closed",
    }
}

/// What caches take where nothing is written.
pub const MEMORY: Size = Size(256 << 20);

/// Below it nothing useful fits.
const LEAST: Size = Size(1 << 20);

/// The store, as a gateway uses it.
pub struct Store {
    state: watch::Sender<State>,
    timeout: Duration,
    /// What holds while it is away.
    pub while_away: WhileAway,
    /// How many gateways share it.
    pub replicas: u64,
    metrics: Arc<Metrics>,
    tier: OnceLock<Arc<SharedTier>>,
}

/// Whether the store can be asked.
#[derive(Clone)]
enum State {
    /// It has not been connected to yet.
    New,
    Up(MultiplexedConnection),
    Away,
}

/// The store cannot be asked now.
#[derive(Debug)]
pub struct Away;

/// Between two attempts to reach a store that is away.
const AGAIN: Duration = Duration::from_millis(100);

/// For an attempt: nobody waits for it.
const ATTEMPT: Duration = Duration::from_secs(1);

impl StoreSpec {
    /// Checks it; the task connects to the store, and again when it was away.
    pub fn compile(&self, lasting: &Lasting, problems: &mut Problems) -> Option<Option<(Arc<Store>, Task)>> {
        if self.memory.value < LEAST {
            let remedy = "write `memory: 256MiB`, or leave it out";
            return problems.error(self.memory.span, "a store has at least 1MiB of memory", remedy);
        }
        let Some(written) = &self.redis else { return Some(None) };
        let client = match redis::Client::open(written.as_str()) {
            Ok(client) if written.value.starts_with("redis://") => client,
            _ => {
                // The text may have a password in it.
                let remedy = "write `redis://127.0.0.1:6379`";
                return problems.error(written.span, "this is no address of a Redis server", remedy);
            }
        };
        if self.timeout.is_zero() {
            return problems.error(written.span, "a store needs some time to answer", "write `timeout: 20ms`");
        }
        let store = Arc::new(Store {
            state: watch::Sender::new(State::New),
            timeout: self.timeout,
            while_away: self.while_away,
            replicas: self.replicas.get().into(),
            metrics: lasting.metrics.clone(),
            tier: OnceLock::new(),
        });
        let task = Box::pin(store.clone().work(client, lasting));
        Some(Some((store, task)))
    }
}

impl Store {
    /// Begins the second tier of the caches; the task is what goes on for it and for the connection.
    fn work(self: Arc<Self>, client: redis::Client, lasting: &Lasting) -> impl Future<Output = ()> + use<> {
        let (cache, ledger) = (lasting.cache.clone(), lasting.ledger.clone());
        let (tier, jobs, waiting) = SharedTier::new(Arc::downgrade(&self), cache.clone(), ledger.clone());
        // It is set once, here.
        let _ = self.tier.set(Arc::new(tier));
        let outbox = Outbox { client: client.clone(), cache: cache.clone(), ledger: ledger.clone(), jobs, waiting };
        let follower = Follower { client: client.clone(), cache, ledger };
        async move {
            tokio::join!(connect(self, client), outbox.run(), follower.run());
        }
    }

    /// The second tier of the caches.
    pub fn tier(&self) -> Option<Arc<dyn Tier>> {
        self.tier.get().map(|tier| tier.clone() as Arc<dyn Tier>)
    }
}

/// Connects, and again whenever the store was found away.
async fn connect(store: Arc<Store>, client: redis::Client) {
    let mut told = false;
    loop {
        match timeout(ATTEMPT, attempt(&client, store.timeout)).await {
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
async fn attempt(client: &redis::Client, time: Duration) -> redis::RedisResult<MultiplexedConnection> {
    let mut connection = client.get_multiplexed_async_connection().await?;
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
            tracing::warn!(why, while_away = holds, "the store is away; rate limits and caches do without it");
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

    async fn connection(&self) -> Result<MultiplexedConnection, Away> {
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

#[cfg(test)]
mod tests;
