//! The connections of a database: one bound over all cores, opened as they are needed, kept, and handed from one statement to the
//! next. A connection lives on the core that opened it; another core uses it when it has none of its own and may open none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::address::{Address, told};
use super::failure::{away, busy};
use super::query::{Prepared, Query};
use crate::error::Error;
use crate::limiter::LogLimiter;
use crate::threads::{self, THREADS};

/// How long no further connection is tried after one that failed: a server that comes back is not met by a storm.
const PAUSE: Duration = Duration::from_millis(100);

/// A statement of another core is served first if it has waited more than twice as long, and this longer: to hand a connection to
/// another core costs both of them.
const UNFAIR: Duration = Duration::from_millis(5);

/// What bounds the connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most connections.
    pub(super) most: usize,
    /// The most statements that wait for one.
    pub(super) waiting: usize,
    /// How long one may wait.
    pub(super) wait: Duration,
    /// How long connecting may take.
    pub(super) connect: Duration,
}

/// The connections of one database.
pub(super) struct Pool {
    pub(super) name: Arc<str>,
    pub(super) address: Address,
    /// The same without user and password, for operators.
    pub(super) shown: Arc<str>,
    bounds: Bounds,
    state: Mutex<State>,
    logged: LogLimiter,
}

/// Guarded by a lock, held for some nanoseconds.
struct State {
    /// Those that nobody uses, by the core that opened them; the last used is used next.
    idle: [Vec<Link>; THREADS],
    /// How many connections each core has opened.
    owned: [usize; THREADS],
    /// All of them.
    live: usize,
    /// The same with those that are being opened.
    open: usize,
    /// Who waits, by the core.
    queues: [VecDeque<Waiter>; THREADS],
    waiting: usize,
    /// When a connection may be tried again.
    pause: Option<Instant>,
}

struct Waiter {
    since: Instant,
    sender: oneshot::Sender<Lease>,
}

/// A connection.
pub(super) struct Link {
    pub(super) client: Client,
    core: usize,
    prepared: Vec<Option<Arc<Prepared>>>,
}

impl Link {
    /// What it knows of a statement.
    pub(super) fn prepared(&self, query: &Query) -> Option<Arc<Prepared>> {
        self.prepared.get(query.index).cloned().flatten()
    }

    /// Keeps what was prepared.
    pub(super) fn keep(&mut self, query: &Query, prepared: Arc<Prepared>) {
        if self.prepared.len() <= query.index {
            self.prepared.resize(query.index + 1, None);
        }
        self.prepared[query.index] = Some(prepared);
    }
}

/// The right to use one of the connections, or to open one. Given back when it is dropped.
pub(super) struct Lease {
    /// Nothing once it was given back.
    pool: Option<Arc<Pool>>,
    /// Nothing while it is still to be opened.
    link: Option<Link>,
}

impl Pool {
    pub(super) fn new(name: Arc<str>, address: Address, bounds: Bounds) -> Self {
        let state = State {
            idle: [const { Vec::new() }; THREADS],
            owned: [0; THREADS],
            live: 0,
            open: 0,
            queues: [const { VecDeque::new() }; THREADS],
            waiting: 0,
            pause: None,
        };
        let shown = address.to_string();
        let shown = shown.strip_prefix("postgres://").unwrap_or(&shown).into();
        Pool { name, address, shown, bounds, state: Mutex::new(state), logged: LogLimiter::default() }
    }

    /// A connection for one statement.
    ///
    /// # Errors
    /// `Busy`, if none is free in time; `Unavailable`, if none can be opened.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, Error> {
        loop {
            let lease = match self.take(threads::index())? {
                Taken::Now(lease) => lease,
                Taken::Later(receiver) => Box::pin(self.wait(receiver)).await?,
            };
            if lease.link.is_some() {
                return Ok(lease);
            }
            // Boxed, here and above: few statements wait or open, and all would carry the room.
            match Box::pin(self.open(lease)).await {
                // Others are open, and will be free.
                Err(_) if self.lock().live > 0 => {}
                opened => return opened,
            }
        }
    }

    async fn wait(&self, receiver: oneshot::Receiver<Lease>) -> Result<Lease, Error> {
        let _waiting = Waiting(self);
        match tokio::time::timeout(self.bounds.wait, receiver).await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(_)) => Err(away()),
            Err(_) => Err(busy()),
        }
    }

    fn take(self: &Arc<Self>, core: usize) -> Result<Taken, Error> {
        let mut dead = Vec::new();
        let mut state = self.lock();
        let taken = loop {
            match state.find(core, self.bounds.most) {
                Found::Link(link) if link.client.is_closed() => {
                    state.lose(link.core);
                    state.open -= 1;
                    dead.push(link);
                }
                Found::Link(link) if link.core != core && state.owned[link.core] > state.owned[core] + 1 => {
                    // It is opened anew where it is needed.
                    state.lose(link.core);
                    dead.push(link);
                    break Taken::Now(self.right());
                }
                Found::Link(link) => break Taken::Now(Lease { pool: Some(self.clone()), link: Some(link) }),
                Found::Room if state.live == 0 && state.pauses() => return Err(away()),
                Found::Room if !state.pauses() => {
                    state.open += 1;
                    break Taken::Now(self.right());
                }
                _ if state.waiting >= self.bounds.waiting => return Err(busy()),
                _ => {
                    let (sender, receiver) = oneshot::channel();
                    // Who waited in vain stands at the front.
                    while state.queues[core].front().is_some_and(|waiter| waiter.sender.is_closed()) {
                        state.queues[core].pop_front();
                    }
                    state.waiting += 1;
                    state.queues[core].push_back(Waiter { since: Instant::now(), sender });
                    break Taken::Later(receiver);
                }
            }
        };
        drop(state);
        Ok(taken)
    }

    /// How many connections are in use, how many are not, and how many statements wait for one.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let state = self.lock();
        let idle: usize = state.idle.iter().map(Vec::len).sum();
        (state.live.saturating_sub(idle), idle, state.waiting)
    }

    /// The right to open a connection.
    fn right(self: &Arc<Self>) -> Lease {
        Lease { pool: Some(self.clone()), link: None }
    }

    async fn open(self: &Arc<Self>, mut lease: Lease) -> Result<Lease, Error> {
        let connect = tokio::time::timeout(self.bounds.connect, self.address.connect());
        let reason = match connect.await {
            Ok(Ok((client, connection))) => {
                tokio::spawn(async move {
                    // Why it ended, the statements on it are told.
                    let _ = connection.await;
                });
                let core = threads::index();
                let mut state = self.lock();
                state.owned[core] += 1;
                state.live += 1;
                state.pause = None;
                drop(state);
                lease.link = Some(Link { client, core, prepared: Vec::new() });
                return Ok(lease);
            }
            Ok(Err(error)) => told(&error),
            Err(_) => format!("it did not answer within {:?}", self.bounds.connect),
        };
        let mut state = self.lock();
        state.pause = Some(Instant::now() + PAUSE);
        // Nobody will give them one.
        if state.live == 0 {
            state.queues.iter_mut().for_each(VecDeque::clear);
        }
        drop(state);
        if self.logged.allows() {
            tracing::warn!(database = %self.name, address = %self.address, reason, "cannot connect to the database");
        }
        Err(away())
    }

    /// Gives a connection, or the right to open one, to who waits for it; else it is kept.
    fn give(self: &Arc<Self>, link: Option<Link>) {
        let mut lease = Lease { pool: Some(self.clone()), link };
        loop {
            let mut state = self.lock();
            let core = lease.link.as_ref().map_or_else(threads::index, |link| link.core);
            // While no connection may be tried, the right to open one is of no use.
            let waiter = if lease.link.is_none() && state.pauses() { None } else { state.next(core) };
            let Some(waiter) = waiter else {
                match lease.link.take() {
                    Some(link) => state.idle[link.core].push(link),
                    None => state.open -= 1,
                }
                // There is nothing to give back any more.
                lease.pool = None;
                return;
            };
            drop(state);
            match waiter.sender.send(lease) {
                Ok(()) => return,
                // Who waited has left.
                Err(back) => lease = back,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Taken {
    Now(Lease),
    Later(oneshot::Receiver<Lease>),
}

enum Found {
    Link(Link),
    Room,
    Nothing,
}

impl State {
    /// One of this core's own, room for another, or one of another core's.
    fn find(&mut self, core: usize, most: usize) -> Found {
        if let Some(link) = self.idle[core].pop() {
            return Found::Link(link);
        }
        if self.open < most {
            return Found::Room;
        }
        let other = (0..THREADS).filter(|at| !self.idle[*at].is_empty()).max_by_key(|at| self.owned[*at]);
        other.and_then(|at| self.idle[at].pop()).map_or(Found::Nothing, Found::Link)
    }

    /// A connection is gone.
    fn lose(&mut self, core: usize) {
        self.owned[core] -= 1;
        self.live -= 1;
    }

    /// Whether no connection may be tried yet.
    fn pauses(&self) -> bool {
        self.pause.is_some_and(|until| Instant::now() < until)
    }

    /// Who is served next by a connection of this core: the first of its own, unless another has waited much longer.
    fn next(&mut self, core: usize) -> Option<Waiter> {
        if self.waiting == 0 {
            return None;
        }
        let first = |at: usize| self.queues[at].front().map(|waiter| waiter.since);
        let other = (0..THREADS).filter(|at| *at != core).filter_map(|at| Some((first(at)?, at))).min();
        let unfair = |own: Instant, since: Instant| own > since && since.elapsed() > 2 * own.elapsed() + UNFAIR;
        let at = match (first(core), other) {
            (Some(own), Some((since, at))) if unfair(own, since) => at,
            (Some(_), _) => core,
            (None, Some((_, at))) => at,
            (None, None) => return None,
        };
        self.queues[at].pop_front()
    }
}

/// Counts a statement that waits, for as long as it does.
struct Waiting<'a>(&'a Pool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Lease {
    /// The connection.
    pub(super) fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("it is open since it was leased")
    }

    /// Where it connects.
    pub(super) fn address(&self) -> Option<&Address> {
        self.pool.as_ref().map(|pool| &pool.address)
    }

    /// The connection is of no use any more.
    pub(super) fn discard(mut self) {
        self.lose();
    }

    fn lose(&mut self) {
        if let (Some(link), Some(pool)) = (self.link.take(), &self.pool) {
            pool.lock().lose(link.core);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.link.as_ref().is_some_and(|link| link.client.is_closed()) {
            self.lose();
        }
        if let Some(pool) = self.pool.take() {
            pool.give(self.link.take());
        }
    }
}
