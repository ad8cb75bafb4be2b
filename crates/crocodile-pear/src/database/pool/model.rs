//! Statements on several cores use a server that the test simulates. At random it refuses connections, is silent, closes
//! connections, or changes how many it allows.
//!
//! The clock stands still while any task can run. These tests look for a statement that waits although a connection is idle or
//! may be opened: nobody would wake it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crocodile_pear_peers::{played::seeds, test_rng::TestRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::{Config, NoTls};

use super::{DatabasePool, OPENS_ALONE, PoolBounds, PooledConnection};
use crate::config::spec::{Located, Secret};
use crate::database::address::DatabaseAddress;
use crate::database::query::Access;
use crate::database::spec::Statements;
use crate::error::Kind;
use crate::runtime::thread_id;

/// The statements of one play. They begin within two seconds.
const STATEMENTS: usize = 60;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_millis(500);

/// How long it takes while the server is slow.
const SLOWLY: Duration = Duration::from_millis(300);

/// The server's answer to a new connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Serves,
    Slow,
    Refuses,
    Silent,
}

/// The simulated server.
#[derive(Clone)]
pub(super) struct PlayedServer(Arc<ServerState>);

struct ServerState {
    mood: Mutex<Mood>,
    /// The most connections that it allows, and how many are open.
    most: AtomicUsize,
    sessions: Arc<AtomicUsize>,
    dice: Mutex<TestRng>,
    open: Mutex<Vec<AbortHandle>>,
}

impl PlayedServer {
    fn new(seed: u64, most: usize) -> Self {
        PlayedServer(Arc::new(ServerState {
            mood: Mutex::new(Mood::Serves),
            most: AtomicUsize::new(most),
            sessions: Arc::default(),
            dice: Mutex::new(TestRng(seed)),
            open: Mutex::default(),
        }))
    }

    pub(super) async fn connect(&self, core: usize, generation: u32) -> Result<PooledConnection, String> {
        let state = &*self.0;
        let takes = state.dice.lock().expect("whole").number(20);
        sleep(Duration::from_millis(takes)).await;
        let mood = *state.mood.lock().expect("whole");
        match mood {
            Mood::Silent => sleep(CONNECT).await,
            Mood::Slow => sleep(SLOWLY).await,
            Mood::Serves | Mood::Refuses => {}
        }
        if matches!(mood, Mood::Refuses | Mood::Silent) || state.sessions.load(Relaxed) >= state.most.load(Relaxed) {
            return Err(format!("the server {mood:?}"));
        }
        let (ours, theirs) = duplex(1024);
        let session = Counted::new(&state.sessions);
        let served = tokio::spawn(serve(theirs, session)).abort_handle();
        state.open.lock().expect("whole").push(served);
        let connected = Config::new().user("u").connect_raw(ours, NoTls).await;
        let (client, connection) = connected.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(PooledConnection { client, core: core as u16, host: 0, named: true, generation, prepared: Vec::new() })
    }

    /// Changes its mood, or its bound, or closes some of its connections.
    fn change(&self, dice: &mut TestRng) {
        match dice.below(6) {
            0 => *self.0.mood.lock().expect("whole") = Mood::Refuses,
            1 => *self.0.mood.lock().expect("whole") = dice.of(&[Mood::Silent, Mood::Slow]),
            2 => self.0.most.store(dice.below(6), Relaxed),
            3 => {
                let mut open = self.0.open.lock().expect("whole");
                open.extract_if(.., |_| dice.rare(2)).for_each(|served| served.abort());
            }
            _ => self.recover(),
        }
    }

    fn recover(&self) {
        *self.0.mood.lock().expect("whole") = Mood::Serves;
        self.0.most.store(10, Relaxed);
    }
}

/// Counts a connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Greets, and reads until the client has gone.
async fn serve(mut stream: DuplexStream, session: Counted) {
    let mut bytes = [0; 1024];
    // Authenticated, and ready.
    let greeting = [&b"R\0\0\0\x08\0\0\0\0"[..], b"Z\0\0\0\x05I"].concat();
    if stream.read(&mut bytes).await.is_ok_and(|read| read > 0) && stream.write_all(&greeting).await.is_ok() {
        while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    }
    drop(session);
}

/// Runs a task as if it were on the thread of this core.
async fn on_core<T>(core: usize, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| thread_id::model::with(core, || task.as_mut().poll(cx))).await
}

fn any_bounds(dice: &mut TestRng) -> PoolBounds {
    let wait = Duration::from_millis(dice.of(&[50, 1_000, 5_000]));
    bounds(1 + dice.below(6), dice.of(&[0, 3, 100]), wait)
}

fn bounds(most: usize, waiting: usize, wait: Duration) -> PoolBounds {
    PoolBounds { most, waiting, wait, connect: CONNECT, statements: Statements::Named }
}

fn pool(bounds: PoolBounds, server: &PlayedServer) -> Arc<DatabasePool> {
    let url = Located::from(Secret::from("postgres://u@127.0.0.1/d".to_owned()));
    let address =
        DatabaseAddress::compile(&url, None, &|_| unreachable!(), &mut Default::default()).expect("an address");
    let pool = DatabasePool::new("main".into(), address, bounds, Access::ReadWrite);
    assert!(pool.played.set(server.clone()).is_ok());
    Arc::new(pool)
}

/// Runs a statement. It begins at a random time, and its client may leave before it ends.
async fn statement(seed: u64, pool: Arc<DatabasePool>, used: Arc<AtomicUsize>) {
    let mut dice = TestRng(seed);
    sleep(Duration::from_millis(dice.number(2_000))).await;
    let leaves = if dice.rare(5) { dice.number(300) } else { 60_000 };
    let began = Instant::now();
    let run = async {
        let leased = pool.lease().await;
        // An attempt that has begun may end later than one may wait.
        let longest = pool.bounds.wait + CONNECT * 3 + Duration::from_millis(100);
        assert!(began.elapsed() <= longest, "{:?} of {:?}", began.elapsed(), pool.bounds.wait);
        let lease = match leased {
            Ok(lease) => lease,
            Err(error) => return assert!(matches!(error.kind(), Kind::Busy | Kind::Unavailable), "{error:?}"),
        };
        let counted = Counted::new(&used);
        assert!(used.load(Relaxed) <= pool.bounds.most, "more connections than there may be");
        let longest = if dice.rare(6) { 2_000 } else { 60 };
        sleep(Duration::from_millis(dice.number(longest))).await;
        drop(counted);
        if dice.rare(8) {
            lease.discard();
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(leaves), run).await;
}

/// Checks the counts, and that nobody waits for nothing.
fn check(seed: u64, pool: &DatabasePool) {
    let state = pool.lock();
    let idle: usize = state.idle.iter().map(Vec::len).sum();
    let [waiting, opening] = [state.queues.iter().flatten().collect(), state.openers.iter().collect()]
        .map(|waiters: Vec<_>| waiters.iter().filter(|waiter| !waiter.sender.is_closed()).count());
    let owned: usize = state.owned.iter().sum();
    let shown = format!(
        "seed {seed}: {waiting} wait, {opening} open one and wait, {idle} idle, {} live, {} open, {owned} owned, {} at most, pauses: {}",
        state.live,
        state.open,
        pool.bounds.most,
        state.pauses()
    );
    assert!(idle <= state.live && state.live <= state.open && state.open <= pool.bounds.most, "{shown}");
    assert_eq!(owned, state.open, "{shown}");
    for (core, links) in state.idle.iter().enumerate() {
        assert_eq!(links.is_empty(), state.resting & 1 << core == 0, "{shown}");
    }
    assert!(waiting + opening == 0 || idle == 0, "a connection is idle, {shown}");
    assert!(waiting == 0 || state.open == pool.bounds.most || state.open > state.live, "nobody opens one, {shown}");
}

async fn play(seed: u64) {
    let mut dice = TestRng(seed);
    let most = dice.of(&[1, 3, 10]);
    let server = PlayedServer::new(dice.roll(), most);
    let pool = pool(any_bounds(&mut dice), &server);
    let used = Arc::default();
    let mut statements = JoinSet::new();
    for _ in 0..STATEMENTS {
        let (core, seed) = (dice.below(3), dice.roll());
        statements.spawn(on_core(core, statement(seed, pool.clone(), Arc::clone(&used))));
    }
    let mut next = Instant::now();
    while !statements.is_empty() {
        next += Duration::from_millis(7);
        sleep_until(next).await;
        if dice.rare(20) {
            server.change(&mut dice);
        }
        // What has the same time has had its turn.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        check(seed, &pool);
        while let Some(ended) = statements.try_join_next() {
            ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    // What is still being opened ends, too.
    sleep(CONNECT * 4).await;
    let (in_use, idle, waiting) = pool.counts();
    let state = pool.lock();
    assert_eq!((in_use, waiting, state.open, state.queued), (0, 0, idle, 0), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn no_statement_waits_while_a_connection_is_idle_or_may_be_opened() {
    for seed in seeds(30) {
        play(seed).await;
    }
}

/// A connection is in use, and the server does not answer on a second one.
#[tokio::test(start_paused = true)]
async fn a_statement_takes_a_connection_that_becomes_free_while_its_own_is_not_open() {
    // The time when it becomes free, and the core of the second statement.
    for (free, core) in [(20, 0), (20, 1), (200, 0), (200, 1)] {
        let server = PlayedServer::new(1, 10);
        let pool = pool(bounds(2, 0, Duration::from_secs(5)), &server);
        let first = on_core(0, pool.lease()).await.expect("a connection");
        *server.0.mood.lock().expect("whole") = Mood::Silent;
        let began = Instant::now();
        let second = on_core(core, pool.lease());
        let (second, ()) = tokio::join!(second, async {
            sleep(Duration::from_millis(free)).await;
            drop(first);
        });
        let took = began.elapsed();
        assert!(second.is_ok_and(|lease| lease.core == 0), "free after {free} ms, core {core}");
        let longest = OPENS_ALONE.max(Duration::from_millis(free)) + Duration::from_millis(5);
        assert!(took <= longest, "free after {free} ms, core {core}: {took:?}");
    }
}

/// Opening a connection takes longer than a statement may wait for a free one.
#[tokio::test(start_paused = true)]
async fn a_statement_whose_connection_opens_slowly_gets_it() {
    let server = PlayedServer::new(1, 10);
    *server.0.mood.lock().expect("whole") = Mood::Slow;
    let pool = pool(bounds(2, 0, Duration::from_millis(50)), &server);
    let (first, second) = tokio::join!(pool.lease(), pool.lease());
    assert!(first.is_ok() && second.is_ok());
    // The client has left: the next statement gets the connection.
    let pool = self::pool(pool.bounds, &server);
    let left = tokio::time::timeout(SLOWLY / 2, pool.lease()).await;
    assert!(left.is_err());
    *server.0.mood.lock().expect("whole") = Mood::Refuses;
    sleep(SLOWLY).await;
    assert!(pool.lease().await.is_ok());
}
