//! `store`: how much caches keep, and what several gateways share, in Redis. One call has little time; while the store is away nobody waits for it.

mod connection;
mod follow;
mod outbox;
mod reason;
mod scripts;
mod shared;
mod store_health;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crocodile_pear::unstable::config::carried_state::{Carry, MarkedFiles};
use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, Marked, Secret, Size};
use crocodile_pear::unstable::net::tls::TlsSpec;
use crocodile_pear::unstable::spec;
use tokio::sync::watch;

pub use self::connection::{Away, Store, WhileAway};
use self::connection::{StoreState, connect};
use self::follow::Follower;
use self::outbox::Outbox;
use self::shared::SharedTier;
use crate::runtime::memory_limit;
use crate::runtime::tasks::Worked;
use crate::shared::persistent_state::PersistentState;
use crate::shared::redis::RedisServer;

spec! {
    /// Memory for cached answers, and a Redis server through which several gateways share rate limits and caches.
    pub struct StoreSpec {
        /// The most memory that all caches use together: heads, bodies, keys and index. The least recently used
        /// answers are removed first. Default: 256MiB, but at most a fifth of the memory limit of the process's
        /// control group.
        pub memory: Option<Located<Size>>,
        /// A Redis server (5 or later) through which several gateways share the counts of their rate limits and the
        /// answers of their caches: `redis://HOST:PORT`, with TLS `rediss://HOST:PORT`, with credentials
        /// `rediss://USER:PASSWORD@HOST:PORT/DATABASE`. Its certificate is always checked.
        pub redis: Option<Located<Secret>>,
        /// TLS to Redis, for `rediss://`: CAs to trust, client certificate, versions.
        pub tls: Option<Marked<TlsSpec>>,
        /// How long a request waits for Redis. After a timeout, Redis counts as unavailable until it answers again.
        pub timeout: Duration = Duration::from_millis(20),
        /// How rate limits work while Redis is unavailable.
        pub while_away: WhileAway = WhileAway::Local,
        /// The number of gateways that share Redis. While it is unavailable, each gateway applies every limit divided
        /// by this number.
        pub replicas: std::num::NonZeroU32 = std::num::NonZeroU32::MIN.saturating_add(1),
    }
}

/// The memory of caches if it is not set.
pub const MEMORY: Size = Size(256 << 20);

/// Below it nothing useful fits.
const LEAST: Size = Size(1 << 20);

/// The memory of all caches, as written or by default.
pub fn memory(written: Option<&StoreSpec>) -> Size {
    let written = written.and_then(|store| store.memory.as_ref()).map(|memory| memory.value);
    written.unwrap_or_else(|| memory_limit::within(MEMORY, memory_limit::limit()))
}

impl StoreSpec {
    /// Checks it; its work connects to the store, and again when it was away. The connection of a store that has not
    /// changed stays.
    pub fn compile(
        &self,
        files: Files<'_>,
        persistent: &PersistentState,
        problems: &mut Problems,
    ) -> Option<Option<Arc<Worked<Store>>>> {
        if let Some(memory) = self.memory.as_ref().filter(|memory| memory.value < LEAST) {
            let remedy = "write `memory: 256MiB`, or leave it out";
            return problems.error(memory.span, "a store needs at least 1MiB of memory", remedy);
        }
        let Some(written) = &self.redis else {
            let Some(_) = &self.tls else { return Some(None) };
            let span = self.memory.as_ref().map(|memory| memory.span).unwrap_or_default();
            let remedy = "add `redis: 'rediss://HOST:6379'`, or leave out `tls`";
            return problems.error(span, "`tls` of the store is for `redis`, which is not there", remedy);
        };
        let reading = MarkedFiles::new(files);
        let files = |written: &_| reading.read(written);
        let server = RedisServer::compile(written, self.tls.as_deref(), &files, problems)?;
        if self.timeout.is_zero() {
            return problems.error(written.span, "a store needs some time to answer", "write `timeout: 20ms`");
        }
        let tls = self.tls.as_ref().map(|tls| tls.mark);
        let terms = (self.timeout, self.while_away, self.replicas);
        let carry =
            Carry::over(&persistent.carried).part(("store", written.value.expose(), tls, reading.mark(), terms));
        Some(Some(carry.state(|| {
            let store = Arc::new(Store {
                state: watch::Sender::new(StoreState::New),
                timeout: self.timeout,
                while_away: self.while_away,
                replicas: self.replicas.get().into(),
                metrics: persistent.metrics.clone(),
                tier: OnceLock::new(),
                late: AtomicU32::new(0),
                why: Mutex::default(),
            });
            let task = Box::pin(store.clone().work(server, persistent));
            Worked::new(store, task)
        })))
    }
}

impl Store {
    /// Begins the second tier of the caches; the task is what goes on for it and for the connection.
    fn work(self: Arc<Self>, server: RedisServer, persistent: &PersistentState) -> impl Future<Output = ()> + use<> {
        let (cache, purge_log) = (persistent.cache.clone(), persistent.purge_log.clone());
        let (tier, jobs, waiting) = SharedTier::new(Arc::downgrade(&self), cache.clone(), purge_log.clone());
        // It is set once, here.
        let _ = self.tier.set(Arc::new(tier));
        let outbox =
            Outbox { server: server.clone(), cache: cache.clone(), purge_log: purge_log.clone(), jobs, waiting };
        let follower = Follower { server: server.clone(), cache, purge_log };
        async move {
            tokio::join!(connect(self, server), outbox.run(), follower.run());
        }
    }
}

#[cfg(test)]
mod tests;
