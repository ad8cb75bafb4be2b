//! The connections of a database: one bound over all cores, opened as they are needed, kept, and handed from one statement to the
//! next. A connection lives on the core that opened it; another core uses it when it has none of its own and may open none.

#[cfg(test)]
mod model;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Client;

use super::address::{Connected, DatabaseAddress, error_text};
use super::failure::{away, busy};
use super::query::{Access, PreparedStatement, Query};
use super::spec::Statements;
use super::wire::Naming;
use crate::error::Error;
use crate::runtime::thread_id::{self, THREADS};
use crate::telemetry::log_limiter::LogLimiter;

/// How long no further connection is tried after one that failed: a server that comes back is not met by a storm.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a statement waits only for its own new connection. After that it takes whichever comes first: a server may not answer on
/// new connections, while those that are open work.
const OPENS_ALONE: Duration = Duration::from_millis(100);

/// How often connections are opened anew to find the server that accepts writes: each statement would open some.
const RENEW: Duration = Duration::from_secs(5);

/// A statement of another core is served first if it has waited more than twice as long, and this longer: to hand a connection to
/// another core costs both of them.
const UNFAIR: Duration = Duration::from_millis(5);

/// The bounds of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolBounds {
    /// The most connections.
    pub(super) most: usize,
    /// The most statements that wait for one.
    pub(super) waiting: usize,
    /// How long one may wait.
    pub(super) wait: Duration,
    /// How long connecting to one host may take.
    pub(super) connect: Duration,
    /// How statements are sent.
    pub(super) statements: Statements,
}

/// The connections of one database.
pub(super) struct DatabasePool {
    pub(super) name: Arc<str>,
    pub(super) address: DatabaseAddress,
    /// The same without user and password, for operators.
    pub(super) shown: Arc<str>,
    bounds: PoolBounds,
    access: Access,
    state: Mutex<PoolState>,
    /// How many wait, and how many of these cannot share a connection: read without the lock.
    waiting: AtomicUsize,
    waiting_alone: AtomicUsize,
    /// Attempts to connect that have failed.
    failed: AtomicU64,
    /// Connections of before the last change of this are not used again, and how often it may change.
    generation: AtomicU32,
    renewed: LogLimiter,
    /// Whether a pooler was met: connections with names are not used again.
    pooled: AtomicBool,
    /// Whether no configuration has it any more: no connection is used again.
    retired: AtomicBool,
    logged: LogLimiter,
    /// The server of a test.
    #[cfg(test)]
    played: std::sync::OnceLock<model::PlayedServer>,
}

/// Guarded by a lock, held for some nanoseconds.
struct PoolState {
    /// Idle connections, by the core that opened them; the last used is used next.
    idle: [Vec<PooledConnection>; THREADS],
    /// How many connections each core has, with those that it opens.
    owned: [usize; THREADS],
    live: usize,
    /// The same with those that are being opened.
    open: usize,
    /// The waiting statements, by core.
    queues: [VecDeque<LeaseWaiter>; THREADS],
    /// The statements for which a connection is being opened. They need no right to open another, and came before the others.
    openers: VecDeque<LeaseWaiter>,
    /// The cores with waiting statements, and those with idle connections: a bit each.
    queued: u64,
    resting: u64,
    /// When a connection may be tried again.
    pause: Option<Instant>,
    /// The last of these times for which an attempt is planned.
    retry: Option<Instant>,
}

struct LeaseWaiter {
    since: Instant,
    sender: oneshot::Sender<DatabaseLease>,
}

struct PooledConnection {
    client: Client,
    /// The core that opened it. Small numbers: a connection is moved about by value.
    core: u16,
    /// Where it leads, among the hosts of the address.
    host: u16,
    /// Whether its statements have names.
    named: bool,
    /// That of the pool when it was opened.
    generation: u32,
    /// By the place of a statement, with its number.
    prepared: Vec<Option<(u64, Arc<PreparedStatement>)>>,
}

impl PooledConnection {
    fn core(&self) -> usize {
        usize::from(self.core)
    }

    fn prepared(&self, query: &Query) -> Option<Arc<PreparedStatement>> {
        let (number, prepared) = self.prepared.get(query.known.index)?.as_ref()?;
        (*number == query.known.number).then(|| prepared.clone())
    }

    fn keep(&mut self, query: &Query, prepared: Arc<PreparedStatement>) {
        let index = query.known.index;
        if self.prepared.len() <= index {
            self.prepared.resize(index + 1, None);
        }
        self.prepared[index] = Some((query.known.number, prepared));
    }
}

/// The right to use one of the connections, or to open one. Given back when it is dropped.
pub(super) struct DatabaseLease {
    /// The pool; `None` once the lease was given back.
    pool: Option<Arc<DatabasePool>>,
    /// The connection; `None` while it is still to be opened.
    link: Option<PooledConnection>,
    /// The core that has opened it, or will.
    core: usize,
}

impl DatabasePool {
    pub(super) fn new(name: Arc<str>, address: DatabaseAddress, bounds: PoolBounds, access: Access) -> Self {
        let state = PoolState {
            idle: [const { Vec::new() }; THREADS],
            owned: [0; THREADS],
            live: 0,
            open: 0,
            queues: [const { VecDeque::new() }; THREADS],
            openers: VecDeque::new(),
            queued: 0,
            resting: 0,
            pause: None,
            retry: None,
        };
        let shown = address.to_string();
        let shown = shown.strip_prefix("postgres://").unwrap_or(&shown).into();
        DatabasePool {
            name,
            address,
            shown,
            bounds,
            access,
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            waiting_alone: AtomicUsize::new(0),
            failed: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            renewed: LogLimiter::every(RENEW),
            pooled: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            logged: LogLimiter::default(),
            #[cfg(test)]
            played: std::sync::OnceLock::new(),
        }
    }

    /// A connection for one statement.
    ///
    /// # Errors
    /// `Busy`, if none is free in time; `Unavailable`, if none can be opened.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<DatabaseLease, Error> {
        self.lease_for(ConnectionUse::Alone, None).await
    }

    /// The same for a read that may also get a place beside others. Nobody gives up a shared connection for it, unless its statement is
    /// not known there, or this core has less than its part.
    ///
    /// # Errors
    /// The same.
    pub(super) async fn lease_for_read(
        self: &Arc<Self>,
        known: bool,
        opening: Option<SlowOpening>,
    ) -> Result<DatabaseLease, Error> {
        let shares = known && self.lock().has_part(thread_id::index(), self.bounds.most);
        self.lease_for(if shares { ConnectionUse::Read } else { ConnectionUse::Alone }, opening).await
    }

    /// A connection, if there is one without a wait.
    ///
    /// # Errors
    /// `Unavailable`, if there is no connection and none can be opened.
    pub(super) async fn spare(self: &Arc<Self>) -> Result<Spare, Error> {
        match self.take(thread_id::index(), Patience::None)? {
            Acquired::Now(lease) if lease.link.is_some() => Ok(Spare::Lease(lease)),
            Acquired::Now(right) => Box::pin(self.open(right)).await,
            Acquired::Later(_) | Acquired::Not => Ok(Spare::None),
        }
    }

    /// Whether a statement waits that cannot share a connection.
    pub(super) fn somebody_waits_alone(&self) -> bool {
        self.waiting_alone.load(Relaxed) > 0
    }

    /// `opening` is the connection that is opened for the statement already.
    async fn lease_for(
        self: &Arc<Self>,
        need: ConnectionUse,
        mut opening: Option<SlowOpening>,
    ) -> Result<DatabaseLease, Error> {
        let mut until = None;
        loop {
            let patience = if opening.is_some() { Patience::Opens } else { Patience::Queue };
            let lease = match self.take(thread_id::index(), patience)? {
                Acquired::Now(lease) => lease,
                Acquired::Later(receiver) => {
                    let until = *until.get_or_insert_with(|| Instant::now() + self.bounds.wait);
                    match Box::pin(self.wait(receiver, need, until, opening.take())).await? {
                        Some(lease) => lease,
                        None => continue,
                    }
                }
                Acquired::Not => return Err(busy()),
            };
            if lease.link.is_some() {
                return Ok(lease);
            }
            // Boxed, here and above: few statements wait or open, and all would carry the room.
            match Box::pin(self.open(lease)).await? {
                Spare::Lease(lease) => return Ok(lease),
                Spare::Opening(opened) => opening = Some(opened),
                Spare::None => {}
            }
        }
    }

    /// A connection of another core is opened anew here, if this core has too few.
    fn moved(&self, mut lease: DatabaseLease) -> DatabaseLease {
        let core = thread_id::index();
        let Some(link) = lease.link.take_if(|link| link.core() != core) else { return lease };
        let mut state = self.lock();
        if state.is_needed(core, &link) {
            state.move_to(core, &link);
            lease.core = core;
        } else {
            lease.link = Some(link);
        }
        lease
    }

    /// Waits for a connection that somebody gives, or for the one that is being opened for the statement: `None` if that has failed, but
    /// others are open.
    async fn wait(
        &self,
        receiver: oneshot::Receiver<DatabaseLease>,
        need: ConnectionUse,
        until: Instant,
        opening: Option<SlowOpening>,
    ) -> Result<Option<DatabaseLease>, Error> {
        let _waiting = WaitingStatement::begin(self, need);
        if let Some(opening) = opening {
            return tokio::select! {
                biased;
                Ok(lease) = receiver => Ok(Some(lease)),
                opened = opening => self.unless_others_are_open(opened),
            };
        }
        match timeout_at(until, receiver).await {
            Ok(Ok(lease)) => Ok(Some(self.moved(lease))),
            Ok(Err(_)) => Err(away()),
            Err(_) => Err(busy()),
        }
    }

    fn take(self: &Arc<Self>, core: usize, patience: Patience) -> Result<Acquired, Error> {
        let mut dead = Vec::new();
        let opens = patience == Patience::Opens;
        let most = if opens { 0 } else { self.bounds.most };
        let mut state = self.lock();
        let taken = loop {
            match state.find(core, most) {
                FoundConnection::Link(link) if link.client.is_closed() => {
                    state.live -= 1;
                    state.owned[link.core()] -= 1;
                    state.open -= 1;
                    dead.push(link);
                }
                FoundConnection::Link(link) if !opens && state.is_needed(core, &link) => {
                    state.move_to(core, &link);
                    dead.push(link);
                    break Acquired::Now(self.leased(core, None));
                }
                FoundConnection::Link(link) => break Acquired::Now(self.leased(link.core(), Some(link))),
                FoundConnection::Room if state.live == 0 && state.pauses() => return Err(away()),
                FoundConnection::Room if patience == Patience::None && state.has_part(core, self.bounds.most) => {
                    break Acquired::Not;
                }
                FoundConnection::Room if !state.pauses() => {
                    state.reserve(core);
                    break Acquired::Now(self.leased(core, None));
                }
                _ if patience == Patience::None => break Acquired::Not,
                _ if !opens && self.waiting.load(Relaxed) >= self.bounds.waiting => return Err(busy()),
                _ => {
                    let (sender, receiver) = oneshot::channel();
                    let waiter = LeaseWaiter { since: Instant::now(), sender };
                    match opens {
                        true => enqueue(&mut state.openers, waiter),
                        false => state.enqueue(core, waiter),
                    }
                    break Acquired::Later(receiver);
                }
            }
        };
        let retry = state.plan_retry(core, self.bounds.most);
        drop(state);
        self.retry(retry, core);
        Ok(taken)
    }

    /// Gives the right to open a connection to a waiting statement when that is allowed again.
    fn retry(self: &Arc<Self>, at: Option<Instant>, core: usize) {
        let Some(at) = at else { return };
        let lease = self.leased(core, None);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep_until(at).await;
                drop(lease);
            });
        }
    }

    /// Attempts to connect that have failed.
    pub(super) fn attempts_failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Whether a statement that began then has waited for as long as one may.
    pub(super) fn has_waited(&self, began: Instant) -> bool {
        began.elapsed() >= self.bounds.wait
    }

    /// Whether there is no connection at all.
    pub(super) fn has_none(&self) -> bool {
        self.lock().live == 0
    }

    /// Whether the last attempt to connect has failed, and there is no connection.
    pub(super) fn is_away(&self) -> bool {
        let state = self.lock();
        state.live == 0 && state.pause.is_some()
    }

    /// How many connections are in use, how many are not, and how many statements wait for one.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let state = self.lock();
        let idle: usize = state.idle.iter().map(Vec::len).sum();
        (state.live.saturating_sub(idle), idle, self.waiting.load(Relaxed))
    }

    fn leased(self: &Arc<Self>, core: usize, link: Option<PooledConnection>) -> DatabaseLease {
        DatabaseLease { pool: Some(self.clone()), link, core }
    }

    async fn open(self: &Arc<Self>, lease: DatabaseLease) -> Result<Spare, Error> {
        let (sender, mut opened) = oneshot::channel();
        let pool = self.clone();
        tokio::spawn(async move {
            let _ = sender.send(pool.open_leased(lease).await);
        });
        match timeout(OPENS_ALONE, &mut opened).await {
            Ok(opened) => Ok(self.unless_others_are_open(opened)?.map_or(Spare::None, Spare::Lease)),
            Err(_) => Ok(Spare::Opening(opened)),
        }
    }

    /// If a connection could not be opened, a statement waits for the others.
    fn unless_others_are_open(
        &self,
        opened: Result<Result<DatabaseLease, Error>, RecvError>,
    ) -> Result<Option<DatabaseLease>, Error> {
        match opened.unwrap_or_else(|_| Err(away())) {
            Err(_) if self.lock().live > 0 => Ok(None),
            opened => opened.map(Some),
        }
    }

    async fn open_leased(self: &Arc<Self>, mut lease: DatabaseLease) -> Result<DatabaseLease, Error> {
        let reason = match self.connect(lease.core).await {
            Ok(link) => {
                let mut state = self.lock();
                state.live += 1;
                state.pause = None;
                // Statements that have waited for the end of the pause open one after the other.
                let next = state.needs_more(self.bounds.most).then(|| {
                    state.reserve(lease.core);
                    self.leased(lease.core, None)
                });
                drop(state);
                drop(next);
                lease.link = Some(link);
                return Ok(lease);
            }
            Err(reason) => reason,
        };
        self.failed.fetch_add(1, Relaxed);
        let mut state = self.lock();
        state.pause = Some(Instant::now() + PAUSE);
        // Those of other cores too: otherwise statements would wait for them without end.
        let dead = state.take_dead();
        state.release();
        drop(state);
        drop(dead);
        if self.logged.allows() {
            tracing::warn!(database = %self.name, address = %self.address, reason, "cannot connect to the database");
        }
        Err(away())
    }

    async fn connect(&self, core: usize) -> Result<PooledConnection, String> {
        let generation = self.generation.load(Relaxed);
        #[cfg(test)]
        if let Some(server) = self.played.get() {
            return server.connect(core, generation).await;
        }
        let Connected { client, connection, pooled, naming, host } = self.address.connect(self.bounds.connect).await?;
        tokio::spawn(async move {
            // The statements on it get the reason.
            let _ = connection.await;
        });
        if pooled {
            self.meet_pooler();
        }
        let named = match self.bounds.statements {
            Statements::Named => true,
            Statements::Unnamed => false,
            Statements::Auto => !self.pooled.load(Relaxed),
        };
        // What is set for a session of a pooler would be set for other clients.
        let each = pooled && self.access == Access::ReadOnly;
        if self.access == Access::ReadOnly && !pooled {
            let session = client.batch_execute("set session characteristics as transaction read only");
            session.await.map_err(|error| error_text(&error))?;
        }
        match (each, named) {
            (true, _) => naming.set(Naming::UnnamedReads),
            (false, false) => naming.set(Naming::Unnamed),
            (false, true) => {}
        }
        let named = named && !each;
        let (core, host) = (core as u16, host as u16);
        Ok(PooledConnection { client, core, host, named, generation, prepared: Vec::new() })
    }

    /// How statements are sent, as written.
    pub(super) fn statements(&self) -> Statements {
        self.bounds.statements
    }

    /// A pooler is in front of the server: from now on statements have no names, unless they must.
    pub(super) fn meet_pooler(&self) {
        if self.know_pooler() {
            self.tell_pooler();
        }
    }

    /// Does the same before anything is logged; returns whether that is new.
    pub(super) fn know_pooler(&self) -> bool {
        if self.bounds.statements != Statements::Auto || self.pooled.swap(true, Relaxed) {
            return false;
        }
        let mut state = self.lock();
        let named = state.take_idle(|link| link.named);
        drop(state);
        drop(named);
        true
    }

    /// Logs that a pooler was met.
    pub(super) fn tell_pooler(&self) {
        let (database, address) = (&*self.name, &*self.shown);
        tracing::info!(
            database,
            address,
            "a connection pooler is in front of the database; statements are sent unnamed"
        );
    }

    /// Whether a pooler was met.
    pub(super) fn is_pooled(&self) -> bool {
        self.pooled.load(Relaxed)
    }

    /// Changes when all connections are opened anew.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// The server is not the one that it was: all connections are opened anew, unless that was just done. Returns
    /// whether they are, or were since this generation.
    pub(super) fn renew(&self, known: u32) -> bool {
        if self.generation() != known {
            return true;
        }
        let renews = self.renewed.allows();
        if renews {
            self.generation.fetch_add(1, Relaxed);
            let idle = self.lock().take_idle(|_| true);
            drop(idle);
        }
        renews
    }

    /// The configuration that serves does not have it: connections are closed when nothing runs on them.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
        let idle = self.lock().take_idle(|_| true);
        drop(idle);
    }

    /// Whether a connection is not used again: nobody will, or its statements have names.
    fn is_past(&self, link: &PooledConnection) -> bool {
        if self.retired.load(Relaxed) || link.generation != self.generation.load(Relaxed) {
            return true;
        }
        link.named && self.bounds.statements == Statements::Auto && self.pooled.load(Relaxed)
    }

    /// Gives a connection, or the right to open one, to a waiting statement; otherwise it becomes idle.
    fn give(self: &Arc<Self>, link: Option<PooledConnection>, core: usize) {
        let mut lease = self.leased(core, link);
        loop {
            let mut state = self.lock();
            let opener = lease.link.as_ref().and_then(|_| state.openers.pop_front());
            let waiter = match opener {
                Some(opener) => Some((core, opener)),
                // While no connection may be opened, the right to open one is useless.
                None if lease.link.is_none() && state.pauses() => None,
                None => state.next(core),
            };
            let Some((at, waiter)) = waiter else {
                match lease.link.take() {
                    Some(link) => state.rest(link),
                    None => {
                        state.owned[lease.core] -= 1;
                        state.open -= 1;
                    }
                }
                // There is nothing to give back any more.
                lease.pool = None;
                let retry = state.plan_retry(core, self.bounds.most);
                drop(state);
                return self.retry(retry, core);
            };
            if lease.link.is_none() {
                // The owner of the right opens it.
                state.owned[lease.core] -= 1;
                state.owned[at] += 1;
                lease.core = at;
            }
            drop(state);
            match waiter.sender.send(lease) {
                Ok(()) => return,
                // The waiting statement has left.
                Err(back) => lease = back,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::large_enum_variant, reason = "a lease is taken apart at once")]
enum Acquired {
    Now(DatabaseLease),
    Later(oneshot::Receiver<DatabaseLease>),
    Not,
}

/// Whether a statement waits if no connection is free.
#[derive(Clone, Copy, PartialEq)]
enum Patience {
    None,
    Queue,
    /// Waits, and a connection is being opened for it.
    Opens,
}

/// The connection that a statement gets without a wait for others.
#[expect(clippy::large_enum_variant, reason = "a lease is taken apart at once")]
pub(super) enum Spare {
    Lease(DatabaseLease),
    Opening(SlowOpening),
    None,
}

/// A connection that is being opened. If nobody receives it, it is given to another statement.
pub(super) type SlowOpening = oneshot::Receiver<Result<DatabaseLease, Error>>;

/// For what a connection is wanted.
#[derive(Clone, Copy, PartialEq)]
enum ConnectionUse {
    Alone,
    Read,
}

enum FoundConnection {
    Link(PooledConnection),
    Room,
    Nothing,
}

impl PoolState {
    /// Finds a connection of this core's own, room for another, or a connection of another core. While none may be opened, an idle one of
    /// another core comes before the room: nobody gives it to a statement that waits.
    fn find(&mut self, core: usize, most: usize) -> FoundConnection {
        if let Some(link) = self.wake(core) {
            return FoundConnection::Link(link);
        }
        if self.open < most && (self.resting == 0 || !self.pauses()) {
            return FoundConnection::Room;
        }
        let other = cores(self.resting).max_by_key(|at| self.owned[*at]);
        other.and_then(|at| self.wake(at)).map_or(FoundConnection::Nothing, FoundConnection::Link)
    }

    /// Reserves the right to open a connection.
    fn reserve(&mut self, core: usize) {
        self.open += 1;
        self.owned[core] += 1;
    }

    /// Whether statements wait, and there may be more connections.
    fn needs_more(&self, most: usize) -> bool {
        self.queued != 0 && self.open < most
    }

    /// Reserves the right to open a connection when that is allowed again, if statements wait. Returns that time. Each pause is followed by
    /// one attempt, however many statements wait.
    fn plan_retry(&mut self, core: usize, most: usize) -> Option<Instant> {
        if !self.needs_more(most) || self.retry == self.pause || !self.pauses() {
            return None;
        }
        self.reserve(core);
        self.retry = self.pause;
        self.pause
    }

    /// Adds an idle connection.
    fn rest(&mut self, link: PooledConnection) {
        self.resting |= 1 << link.core();
        self.idle[link.core()].push(link);
    }

    fn wake(&mut self, core: usize) -> Option<PooledConnection> {
        let link = self.idle[core].pop();
        if self.idle[core].is_empty() {
            self.resting &= !(1 << core);
        }
        link
    }

    fn enqueue(&mut self, core: usize, waiter: LeaseWaiter) {
        self.forget_left(core);
        enqueue(&mut self.queues[core], waiter);
        self.queued |= 1 << core;
    }

    /// Whether a connection should move to this core: it has fewer than the one that opened it, and may open one.
    fn is_needed(&self, core: usize, link: &PooledConnection) -> bool {
        link.core() != core && self.owned[link.core()] > self.owned[core] + 1 && !self.pauses()
    }

    /// Another core opens a connection instead of this one.
    fn move_to(&mut self, core: usize, link: &PooledConnection) {
        self.live -= 1;
        self.owned[link.core()] -= 1;
        self.owned[core] += 1;
    }

    /// Takes the idle connections that are closed.
    fn take_dead(&mut self) -> Vec<PooledConnection> {
        self.take_idle(|link| link.client.is_closed())
    }

    fn take_idle(&mut self, is_one: impl Fn(&PooledConnection) -> bool) -> Vec<PooledConnection> {
        let mut dead = Vec::new();
        for core in cores(self.resting) {
            dead.extend(self.idle[core].extract_if(.., |link| is_one(link)));
            if self.idle[core].is_empty() {
                self.resting &= !(1 << core);
            }
        }
        for link in &dead {
            self.live -= 1;
            self.owned[link.core()] -= 1;
            self.open -= 1;
        }
        dead
    }

    /// Releases the statements that would wait without end: there is no connection, and none may be opened.
    fn release(&mut self) {
        if self.live == 0 && self.pauses() {
            self.queues.iter_mut().for_each(VecDeque::clear);
            self.queued = 0;
        }
    }

    /// Whether no connection may be tried yet.
    fn pauses(&self) -> bool {
        self.pause.is_some_and(|until| Instant::now() < until)
    }

    /// Whether this core has its part of the connections, among the cores that have some.
    fn has_part(&self, core: usize, most: usize) -> bool {
        let others = self.owned.iter().enumerate().filter(|(at, owned)| *at != core && **owned > 0).count();
        self.owned[core] >= most.div_ceil(others + 1)
    }

    /// Removes waiting statements from the front of a queue that have left, or were served elsewhere.
    fn forget_left(&mut self, core: usize) {
        let queue = &mut self.queues[core];
        while queue.front().is_some_and(|waiter| waiter.sender.is_closed()) {
            queue.pop_front();
        }
        if queue.is_empty() {
            self.queued &= !(1 << core);
        }
    }

    /// The statement that gets the next connection of this core: the first of its own, unless another has waited much
    /// longer.
    fn next(&mut self, core: usize) -> Option<(usize, LeaseWaiter)> {
        cores(self.queued).for_each(|at| self.forget_left(at));
        let first = |at: usize| self.queues[at].front().map(|waiter| waiter.since);
        let other = cores(self.queued & !(1 << core)).filter_map(|at| Some((first(at)?, at))).min();
        let unfair = |own: Instant, since: Instant| own > since && since.elapsed() > 2 * own.elapsed() + UNFAIR;
        let at = match (first(core), other) {
            (Some(own), Some((since, at))) if unfair(own, since) => at,
            (Some(_), _) => core,
            (None, Some((_, at))) => at,
            (None, None) => return None,
        };
        let waiter = self.queues[at].pop_front().map(|waiter| (at, waiter));
        if self.queues[at].is_empty() {
            self.queued &= !(1 << at);
        }
        waiter
    }
}

/// Adds a waiting statement. Before a queue grows, those that have left are removed.
fn enqueue(queue: &mut VecDeque<LeaseWaiter>, waiter: LeaseWaiter) {
    if queue.len() == queue.capacity() {
        queue.retain(|waiter| !waiter.sender.is_closed());
    }
    queue.push_back(waiter);
}

/// The cores whose bits are set.
fn cores(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = bits.checked_ilog2()? as usize;
        bits &= !(1 << at);
        Some(at)
    })
}

/// Counts a statement that waits, for as long as it does.
struct WaitingStatement<'a>(&'a DatabasePool, ConnectionUse);

impl<'a> WaitingStatement<'a> {
    fn begin(pool: &'a DatabasePool, need: ConnectionUse) -> Self {
        pool.waiting.fetch_add(1, Relaxed);
        pool.waiting_alone.fetch_add(usize::from(need == ConnectionUse::Alone), Relaxed);
        WaitingStatement(pool, need)
    }
}

impl Drop for WaitingStatement<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        self.0.waiting_alone.fetch_sub(usize::from(self.1 == ConnectionUse::Alone), Relaxed);
    }
}

impl DatabaseLease {
    fn link(&self) -> &PooledConnection {
        self.link.as_ref().expect("it is open since it was leased")
    }

    /// The connection.
    pub(super) fn client(&self) -> &Client {
        &self.link().client
    }

    /// Where it leads, among the hosts of the address.
    pub(super) fn host(&self) -> usize {
        usize::from(self.link().host)
    }

    /// Whether it was opened by this core.
    pub(super) fn is_of(&self, core: usize) -> bool {
        self.link().core() == core
    }

    /// The connection's knowledge of a prepared statement.
    pub(super) fn prepared(&self, query: &Query) -> Option<Arc<PreparedStatement>> {
        self.link().prepared(query)
    }

    pub(super) fn keep(&mut self, query: &Query, prepared: Arc<PreparedStatement>) {
        self.link.iter_mut().for_each(|link| link.keep(query, prepared.clone()));
    }

    /// Among which it is.
    pub(super) fn pool(&self) -> &Arc<DatabasePool> {
        self.pool.as_ref().expect("it has not been given back")
    }

    /// The connection cannot be used again.
    pub(super) fn discard(mut self) {
        self.lose();
    }

    /// Only the right to open another one is left.
    fn lose(&mut self) {
        if let (Some(_), Some(pool)) = (self.link.take(), &self.pool) {
            let mut state = pool.lock();
            state.live -= 1;
            state.release();
        }
    }
}

impl Drop for DatabaseLease {
    fn drop(&mut self) {
        let past = |link: &PooledConnection| {
            link.client.is_closed() || self.pool.as_ref().is_some_and(|pool| pool.is_past(link))
        };
        if self.link.as_ref().is_some_and(past) {
            self.lose();
        }
        if let Some(pool) = self.pool.take() {
            pool.give(self.link.take(), self.core);
        }
    }
}
