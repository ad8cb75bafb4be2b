//! Two gateways, a real Redis, and what becomes of what they share.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use crocodile_pear::unstable::cache::rules::policy::ReuseTerms;
use crocodile_pear::unstable::cache::{Entry, Key, Purge, PurgeMark, PurgeMode, SharedBody, Tags};
use http::{HeaderMap, StatusCode};
use rustix::process::{Pid, Signal, kill_process};

use crate::runtime::tasks::Background;
use crate::shared::redis_tier::*;
use crocodile_pear_demo::postgres::free_port;
use crocodile_pear_peers::wait::until;

/// A server that ends with the test.
struct RedisProcess {
    process: Child,
    port: u16,
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RedisProcess {
    /// Starts a server; `None` where none is installed.
    fn begin(port: u16, settings: &[&str]) -> Option<Self> {
        let port_text = port.to_string();
        let usual = ["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let process = Command::new("redis-server").args(usual).args(settings).stdout(Stdio::null()).spawn();
        let Ok(process) = process else {
            crocodile_pear_stage::skip("redis-server");
            return None;
        };
        let server = RedisProcess { process, port };
        wait(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }

    fn new() -> Option<Self> {
        RedisProcess::begin(free_port().unwrap(), &[])
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn command(&self, words: &[&str]) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        run(async {
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            command.query_async::<redis::Value>(&mut connection).await.unwrap()
        });
    }
}

fn wait(is_so: impl FnMut() -> bool) {
    until("what the test waits for", is_so);
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A gateway's view of a store.
struct TestGateway {
    persistent: PersistentState,
    _store: Arc<Store>,
    _background: Option<Background>,
}

impl TestGateway {
    fn new(port: u16) -> Self {
        TestGateway::after(PersistentState::default(), port)
    }

    fn after(persistent: PersistentState, port: u16) -> Self {
        let spec = StoreSpec {
            memory: None,
            redis: Some(Located::new(format!("redis://127.0.0.1:{port}").into(), Default::default())),
            tls: None,
            timeout: Duration::from_millis(500),
            while_away: WhileAway::Local,
            replicas: std::num::NonZeroU32::MIN,
        };
        let compiled = spec.compile(&|_| unreachable!("no file is named"), &persistent, &mut Problems::default());
        let worked = compiled.flatten().expect("it is sound");
        let store = worked.state.clone();
        persistent.cache.resize(1 << 20);
        persistent.cache.set_tier(store.tier());
        let mut background = Background::default();
        background.follow(vec![worked.work.clone()]);
        TestGateway { persistent, _store: store, _background: Some(background) }
    }

    /// A gateway that the store has greeted.
    fn greeted(port: u16) -> Self {
        let gateway = TestGateway::new(port);
        wait(|| gateway.persistent.purge_log.heard().stamp.life != 0);
        gateway.wait_up();
        gateway
    }

    fn wait_up(&self) {
        wait(|| matches!(*self._store.state.borrow(), StoreState::Up(_)));
    }

    fn cache(&self) -> &crocodile_pear::unstable::cache::Store {
        &self.persistent.cache
    }

    fn put(&self, mark: PurgeMark, path: &str, body: &str) -> bool {
        let (headers, selector, copies) = (HeaderMap::new(), Box::default(), Default::default());
        let terms = ReuseTerms {
            born: crocodile_pear::unstable::http::date::Moment::now(),
            fresh: Duration::from_secs(600),
            ..ReuseTerms::default()
        };
        let (tags, body) = (Tags::new(["t", path]), SharedBody::from(Bytes::copy_from_slice(body.as_bytes())));
        let entry = Entry { status: StatusCode::OK, headers, selector, tags, terms, body, copies };
        let counters = &self.persistent.purge_log.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let before = (count(&counters.stored), count(&counters.dropped));
        let kept = self.cache().insert(mark, &key(path), Arc::new(entry));
        wait(|| !kept || (count(&counters.stored), count(&counters.dropped)) != before);
        count(&counters.stored) > before.0
    }

    /// The entry in the shared store, and whether it is stale.
    fn shared(&self, path: &str) -> Option<(String, bool)> {
        let found = run(self.cache().find_shared(&key(path), |_| true))?;
        let body = found.entry.body.pieces().unwrap_or_default().concat();
        Some((String::from_utf8(body).unwrap(), found.stale))
    }

    /// Whether it has it in its own memory, and then whether it is stale.
    fn own(&self, path: &str) -> Option<bool> {
        self.cache().find(&key(path), |_| true).map(|found| found.stale)
    }
}

fn key(path: &str) -> Key {
    Key::new(&format!("http://shop.example{path}"), b"GET secret")
}

fn fresh(body: &str) -> Option<(String, bool)> {
    Some((body.to_owned(), false))
}

#[test]
fn what_one_gateway_keeps_another_one_finds() {
    let Some(server) = RedisProcess::new() else { return };
    let [one, other] = [(); 2].map(|()| TestGateway::greeted(server.port));
    assert!(one.put(one.cache().mark(), "/1", "text"));
    assert_eq!(other.own("/1"), None);
    assert_eq!(other.shared("/1"), fresh("text"));
    assert_eq!(other.own("/1"), Some(false));
    assert_eq!(other.shared("/2"), None);
}

#[test]
fn a_purge_reaches_all_gateways_and_a_slow_one_does_not_undo_it() {
    let Some(server) = RedisProcess::new() else { return };
    let purges = [
        Purge::Tag("/1".into()),
        Purge::Url("http://shop.example/1".into()),
        Purge::Url("/1".into()),
        Purge::Prefix("http://shop.example/".into()),
        Purge::Prefix("/".into()),
        Purge::All,
    ];
    for purge in purges {
        for mode in [PurgeMode::Soft, PurgeMode::Hard] {
            let [one, other, third] = [(); 3].map(|()| TestGateway::greeted(server.port));
            assert!(one.put(one.cache().mark(), "/1", "old"));
            assert_eq!(other.shared("/1"), fresh("old"), "{purge:?}");
            // Has begun to fetch, and does not hear of the purge before it is done.
            let slow = TestGateway::greeted(server.port);
            let mark = slow.cache().mark();
            drop(slow._background);
            let slow = TestGateway { _background: None, ..slow };
            one.cache().purge(&purge, mode);
            let gone = if mode == PurgeMode::Soft { Some(true) } else { None };
            assert_eq!(one.own("/1"), gone, "{purge:?}");
            wait(|| other.own("/1") == gone);
            let purged = |found: Option<(String, bool)>| found.is_none_or(|(_, stale)| stale);
            assert!(purged(third.shared("/1")), "{purge:?} {mode:?}");
            // Kept in the memory of the slow one, which is as if it had answered before; but not given to others.
            let again = TestGateway::after(slow.persistent.clone(), server.port);
            again.cache().insert(mark, &key("/1"), Arc::new(entry_of("old")));
            assert!(purged(third.shared("/1")), "{purge:?} {mode:?}");
            wait(|| again.own("/1") != Some(false));
            // What is fetched after is.
            wait(|| other.persistent.purge_log.known() == one.persistent.purge_log.known());
            assert!(other.put(other.cache().mark(), "/1", "new"), "{purge:?}");
            assert_eq!(third.shared("/1"), fresh("new"), "{purge:?}");
        }
    }
}

fn entry_of(body: &str) -> Entry {
    let terms = ReuseTerms {
        born: crocodile_pear::unstable::http::date::Moment::now(),
        fresh: Duration::from_secs(600),
        ..ReuseTerms::default()
    };
    Entry {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        selector: Box::default(),
        tags: Tags::new(["t", "/1"]),
        terms,
        body: SharedBody::from(Bytes::copy_from_slice(body.as_bytes())),
        copies: Default::default(),
    }
}

#[test]
fn what_redis_has_lost_nobody_believes() {
    let Some(server) = RedisProcess::new() else { return };
    for lost in [&["FLUSHALL"][..], &["DEL", shared::PURGES]] {
        let [one, other] = [(); 2].map(|()| TestGateway::greeted(server.port));
        assert!(one.put(one.cache().mark(), "/1", "old"));
        server.command(lost);
        assert_eq!(other.shared("/1"), None);
        wait(|| one.own("/1") == Some(true));
        wait(|| one.persistent.purge_log.known() == other.persistent.purge_log.known());
        assert!(one.put(one.cache().mark(), "/1", "new"));
        assert_eq!(other.shared("/1"), fresh("new"));
    }
}

#[test]
fn a_damaged_value_is_a_miss() {
    let Some(server) = RedisProcess::new() else { return };
    let [one, other] = [(); 2].map(|()| TestGateway::greeted(server.port));
    assert!(one.put(one.cache().mark(), "/1", "text"));
    let place = shared::entries(&key("/1"));
    assert!(!place.contains("secret"));
    let variant = shared::variant(&entry_of(""));
    for damaged in ["", "1 2", "nonsense\n\n", "1 2 url names\nCP"] {
        server.command(&["HSET", &place, &variant, damaged]);
        assert_eq!(other.shared("/1"), None, "{damaged:?}");
    }
    server.command(&["DEL", &place]);
    server.command(&["SET", &place, "text"]);
    assert_eq!(other.shared("/1"), None);
}

#[test]
fn a_purge_while_redis_hangs_or_is_gone_is_made_good_and_nobody_waits() {
    let Some(mut server) = RedisProcess::new() else { return };
    let [one, other] = [(); 2].map(|()| TestGateway::greeted(server.port));
    assert!(one.put(one.cache().mark(), "/1", "old"));
    assert!(one.put(one.cache().mark(), "/2", "kept"));
    server.signal(Signal::STOP);
    let begun = Instant::now();
    // If each read waited for Redis, a thousand would take 500 seconds.
    (0..1_000).for_each(|_| assert_eq!(other.shared("/1"), None));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    one.cache().purge(&Purge::Tag("/1".into()), PurgeMode::Hard);
    // What has tags is not trusted while purges cannot be heard.
    wait(|| one.own("/2") == Some(true));
    server.signal(Signal::CONT);
    [&one, &other].into_iter().for_each(TestGateway::wait_up);
    wait(|| one.persistent.purge_log.first().is_none());
    assert_eq!(other.shared("/1"), None);
    // Nothing was missed, so it is as good as before.
    wait(|| one.own("/2") == Some(false));
    wait(|| other.shared("/2") == fresh("kept"));
    let port = server.port;
    drop(server);
    wait(|| one.own("/2") == Some(true));
    one.cache().purge(&Purge::Tag("/2".into()), PurgeMode::Hard);
    server = RedisProcess::begin(port, &[]).unwrap();
    [&one, &other].into_iter().for_each(TestGateway::wait_up);
    wait(|| one.persistent.purge_log.first().is_none());
    wait(|| one.persistent.purge_log.known() == other.persistent.purge_log.known());
    // The first is lost with the old connection.
    wait(|| other.put(other.cache().mark(), "/2", "new"));
    wait(|| one.shared("/2") == fresh("new"));
    drop(server);
}

#[test]
fn a_redis_that_evicts_undoes_no_purge() {
    let port = free_port().unwrap();
    let Some(_server) = RedisProcess::begin(port, &["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let [one, other] = [(); 2].map(|()| TestGateway::greeted(port));
    let body = "x".repeat(20_000);
    for round in 0..400 {
        let path = format!("/{}", round % 150);
        one.put(one.cache().mark(), &path, &format!("{round} {body}"));
        if round % 5 == 0 {
            one.cache().purge(&Purge::Tag(path.clone()), PurgeMode::Hard);
            wait(|| one.persistent.purge_log.first().is_none());
            assert_eq!(other.shared(&path), None, "round {round}");
        }
    }
}
