//! `store`: how much caches keep, and what several gateways share, in Redis. One call has little time; while the store is away nobody waits for it.

mod connection;
mod follow;
mod outbox;
mod scripts;
mod shared;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, Size};
use tokio::sync::watch;

pub use self::connection::{Away, Store, WhileAway};
use self::connection::{State, connect};
use self::follow::Follower;
use self::outbox::Outbox;
use self::shared::SharedTier;
use crate::background::Task;
use crate::lasting::Lasting;

spec! {
    /// Memory for cached answers, and a Redis server through which several gateways share rate limits and caches.
    pub struct StoreSpec {
        /// The most memory that all caches use together: heads, bodies, keys and index. The least recently used
        /// answers are removed first.
        pub memory: Located<Size> = Located::new(MEMORY, Default::default()),
        /// A Redis server (5 or later) through which several gateways share the counts of their rate limits and the
        /// answers of their caches: `redis://HOST:PORT`, or with credentials
        /// `redis://USER:PASSWORD@HOST:PORT/DATABASE`.
        pub redis: Option<Located<String>>,
        /// How long a request waits for Redis. After a timeout, Redis counts as unavailable until it answers again.
        pub timeout: Duration = Duration::from_millis(20),
        /// How rate limits work while Redis is unavailable.
        pub while_away: WhileAway = WhileAway::Local,
        /// The number of gateways that share Redis. While it is unavailable, each gateway applies every limit divided
        /// by this number.
        pub replicas: std::num::NonZeroU32 = std::num::NonZeroU32::MIN.saturating_add(1),
    }
}

/// What caches take where nothing is written.
pub const MEMORY: Size = Size(256 << 20);

/// Below it nothing useful fits.
const LEAST: Size = Size(1 << 20);

impl StoreSpec {
    /// Checks it; the task connects to the store, and again when it was away.
    pub fn compile(&self, lasting: &Lasting, problems: &mut Problems) -> Option<Option<(Arc<Store>, Task)>> {
        if self.memory.value < LEAST {
            let remedy = "write `memory: 256MiB`, or leave it out";
            return problems.error(self.memory.span, "a store needs at least 1MiB of memory", remedy);
        }
        let Some(written) = &self.redis else { return Some(None) };
        let client = match redis::Client::open(written.as_str()) {
            Ok(client) if written.value.starts_with("redis://") => client,
            _ => {
                // The text may have a password in it.
                let remedy = "write `redis://127.0.0.1:6379`";
                return problems.error(written.span, "this is not the address of a Redis server", remedy);
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
}

#[cfg(test)]
mod tests;
