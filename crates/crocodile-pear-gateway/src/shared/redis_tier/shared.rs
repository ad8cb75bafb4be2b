//! The second tier of the caches: entries in Redis, with what was purged there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crocodile_pear::unstable::cache::store::codec;
use crocodile_pear::unstable::cache::{self, Entry, Key, Purge, PurgeMode, PurgeStamp, SharedEntry, Tier};
use crocodile_pear::unstable::http::date::Moment;
use crocodile_pear::unstable::runtime::hex;
use futures_util::future::BoxFuture;
use http::header::{ETAG, LAST_MODIFIED};
use redis::Cmd;
use ring::digest;
use tokio::sync::mpsc;

use super::connection::Store;
use super::scripts;
use crate::shared::purge_log::{PurgeLog, count};

/// The second tier.
pub struct SharedTier {
    store: Weak<Store>,
    cache: Arc<cache::Store>,
    purge_log: Arc<PurgeLog>,
    jobs: mpsc::Sender<BackgroundCommand>,
    /// The bytes of all jobs that wait.
    waiting: Arc<AtomicUsize>,
}

/// A command that somebody sends in the background.
pub(super) struct BackgroundCommand {
    pub command: Cmd,
    /// The bytes that it holds.
    pub size: usize,
    /// Whether it keeps an answer.
    pub keeps: bool,
}

/// Jobs that wait: more would be old when they are done.
pub(super) const MOST_JOBS: usize = 1024;

/// The bytes of jobs that wait.
const MOST_BYTES: usize = 16 << 20;

/// A larger answer is not worth its way: it would hold up the others.
const LARGEST: u64 = 1 << 20;

/// The longest time that an answer is kept in the store.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The time that an answer is kept which has to be validated, and can be.
const TO_VALIDATE: Duration = Duration::from_secs(600);

/// The key of the purges.
pub(super) const PURGES: &str = "crocodile-pear:purges";

/// The purges in order.
pub(super) const LOG: &str = "crocodile-pear:purge-log";

impl SharedTier {
    pub(super) fn new(
        store: Weak<Store>,
        cache: Arc<cache::Store>,
        purge_log: Arc<PurgeLog>,
    ) -> (Self, mpsc::Receiver<BackgroundCommand>, Arc<AtomicUsize>) {
        let (jobs, receiver) = mpsc::channel(MOST_JOBS);
        let waiting = Arc::new(AtomicUsize::new(0));
        (SharedTier { store, cache, purge_log, jobs, waiting: waiting.clone() }, receiver, waiting)
    }

    async fn ask(&self, key: &Key) -> Vec<SharedEntry> {
        let mut command = eval(scripts::FIND);
        command.arg(2).arg(entries(key)).arg(PURGES);
        let counters = &self.purge_log.counters;
        let Some(store) = self.store.upgrade() else { return Vec::new() };
        let Ok(said) = store.call::<Vec<Vec<u8>>>(&command).await else {
            count(&counters.failures);
            return Vec::new();
        };
        let found = self.read(&said);
        count(if found.is_empty() { &counters.misses } else { &counters.hits });
        found
    }

    fn read(&self, said: &[Vec<u8>]) -> Vec<SharedEntry> {
        let Some((life, number, rest)) = said.split_first().and_then(|(life, rest)| {
            let (number, rest) = rest.split_first()?;
            Some((parse(life)?, parse(number)?, rest))
        }) else {
            return Vec::new();
        };
        if !self.purge_log.learn(PurgeStamp { life, number }) {
            // What others purged may have been lost with the old life.
            self.cache.purge_here(&Purge::All, PurgeMode::Soft);
        }
        let shared = |part: &[Vec<u8>]| {
            let [number, stale, bytes] = part else { return None };
            let entry = codec::decode(bytes.clone().into())?;
            Some(SharedEntry { entry, stamp: PurgeStamp { life, number: parse(number)? }, stale: **stale == *b"1" })
        };
        rest.chunks(3).filter_map(shared).collect()
    }

    /// Gives a job to who does them; drops it if there is too much to do.
    fn give(&self, job: BackgroundCommand) {
        let (size, keeps) = (job.size, job.keeps);
        let fits = self.waiting.fetch_add(size, Ordering::Relaxed) + size <= MOST_BYTES;
        if !fits || self.jobs.try_send(job).is_err() {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            if keeps {
                count(&self.purge_log.counters.dropped);
            }
        }
    }
}

impl Tier for SharedTier {
    fn stamp(&self) -> PurgeStamp {
        self.purge_log.known()
    }

    fn find<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Vec<SharedEntry>> {
        // What is purged here, and not yet there, must not come back from there.
        if self.purge_log.may_purge(key) {
            return Box::pin(std::future::ready(Vec::new()));
        }
        Box::pin(self.ask(key))
    }

    fn keep(&self, stamp: PurgeStamp, key: &Key, entry: &Arc<Entry>) {
        let small = entry.body.length().is_some_and(|length| length <= LARGEST);
        let Some(lifetime) = lifetime(entry).filter(|_| small && stamp.life != 0) else { return };
        let Some(bytes) = codec::encode(entry) else { return };
        let (size, names) = (bytes.len() + 512, names(key, entry));
        let mut command = eval(scripts::KEEP);
        command.arg(2).arg(entries(key)).arg(PURGES);
        command.arg(stamp.life).arg(stamp.number).arg(variant(entry)).arg(lifetime.as_millis() as u64);
        // The URL of a request has no white space.
        command.arg(key.url().replace(char::is_whitespace, "+")).arg(names).arg(bytes);
        self.give(BackgroundCommand { command, size, keeps: true });
    }

    fn remove(&self, key: &Key) {
        let mut command = redis::cmd("UNLINK");
        command.arg(entries(key));
        self.give(BackgroundCommand { command, size: 256, keeps: false });
    }

    fn purge(&self, purge: &Purge, mode: PurgeMode) {
        self.purge_log.add(purge, mode);
    }
}

/// How long it may be of use.
fn lifetime(entry: &Entry) -> Option<Duration> {
    let terms = &entry.terms;
    let fresh = terms.fresh.saturating_sub(terms.age(Moment::now()));
    let fresh = if terms.always_validate { Duration::ZERO } else { fresh };
    let stale = terms.stale_while_revalidate.max(terms.stale_if_error).max(terms.stale_if_unreachable);
    let validated = entry.headers.contains_key(ETAG) || entry.headers.contains_key(LAST_MODIFIED);
    let after = if validated { stale.max(TO_VALIDATE) } else { stale };
    let lifetime = fresh.saturating_add(after).min(LONGEST);
    (lifetime >= Duration::from_secs(1)).then_some(lifetime)
}

pub(super) fn eval(script: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script);
    command
}

pub(super) fn parse(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Where the entries of a key are. What it is made of may be a credential: only its hash leaves.
pub(super) fn entries(key: &Key) -> String {
    let length = (key.url().len() as u64).to_be_bytes();
    format!("crocodile-pear:cache:{}", hash(&[&length[..], key.url().as_bytes(), key.rest()].concat()))
}

pub(super) fn variant(entry: &Entry) -> String {
    let part = |(name, value): &(http::HeaderName, Option<Box<[u8]>>)| format!("{name}={value:?}\n");
    hash(entry.selector.iter().map(part).collect::<String>().as_bytes())
}

fn hash(bytes: &[u8]) -> String {
    hex::text(&digest::digest(&digest::SHA256, bytes).as_ref()[..16])
}

fn names(key: &Key, entry: &Entry) -> String {
    let names = key.names();
    let names = names.iter().chain(entry.tags.names()).map(|name| format!("{:016x}", name.number()));
    names.collect::<Vec<_>>().join(",")
}
