//! The connection pool of one server: HTTP/1.1 connections kept for the next call, HTTP/2 connections shared by many.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Upstream;
use super::connect::Offer;
use super::counters::Event;
use super::exchange::Origin;
use super::h2::{Home, Session, Span, StreamSlot};
use super::io::Io;
use super::resolve::Name;
use super::server::Server;
use crate::alarm::Alarm;
use crate::error::{Error, Kind};
use crate::record::Opening;
use crate::spec::Timeout;
use crate::threads::{self, THREADS};

/// How long a server that chose HTTP/1.1 is expected to choose it again. Meanwhile connections are opened in parallel;
/// otherwise calls wait for the first one, since over HTTP/2 it may serve them all.
const BELIEVED: Duration = Duration::from_secs(600);

/// Limits of the pool; each number is per server and core.
#[derive(Clone, Debug)]
pub struct Connections {
    /// The most open connections.
    pub open: Option<usize>,
    /// The most idle connections.
    pub idle: usize,
    /// The most calls that wait for a connection.
    pub waiting: usize,
    /// How long an idle connection is kept.
    pub keep: Duration,
    /// How long a connection is used in all; calls in flight are finished.
    pub lifetime: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Connections {
            open: None,
            // Enough to keep every connection of a fan-out of ten for a hundred clients at once.
            idle: 1024,
            waiting: 1024,
            // nginx as a server closes after 75 s: the side that closes first loses no request.
            keep: Duration::from_secs(60),
            // Long enough to cost nothing, short enough that connections follow an upstream that has moved.
            lifetime: Duration::from_secs(3600),
        }
    }
}

/// The connections of one server.
///
/// Every thread has a shard of its own, behind a lock that only this thread takes while it serves requests; the lock
/// is needed because the pool may be dropped, and its connections closed, on any thread. It is never held across
/// an await.
pub(super) struct Pool {
    shards: Box<[PoolShard]>,
    bounds: Connections,
    /// The host name that the connections lead to; its addresses may change.
    name: Option<Arc<Name>>,
}

/// Aligned, so that no two threads write to one cache line.
#[repr(align(128))]
struct PoolShard {
    state: Mutex<ShardState>,
    /// Notified when a shared connection has a free stream.
    freed: Arc<Notify>,
    /// One for each call that has a connection of its own. A connection is opened only when none is kept, so there are
    /// never more connections than permits.
    permits: Option<Arc<Semaphore>>,
    waiting: AtomicUsize,
}

#[derive(Default)]
struct ShardState {
    /// The newest at the back.
    kept: VecDeque<KeptConnection>,
    /// Each with the peer's address.
    shared: Vec<(Arc<Session>, Option<IpAddr>)>,
    /// The changes of the name when those addresses were last checked.
    changes: u32,
    /// The attempt to open a shared connection, while it runs.
    attempt: Option<Arc<ConnectAttempt>>,
    /// How many streams the server allows on a shared connection.
    most: Option<usize>,
    /// When the server last chose HTTP/1.1.
    single: Option<Instant>,
    /// The runtime whose task closes idle connections of this shard, if there is one.
    cleared_by: Option<runtime::Id>,
}

struct KeptConnection {
    wire: Wire,
    since: Instant,
    /// A socket is driven by the runtime that opened it, so it is used on that one only.
    runtime: runtime::Id,
}

/// What a call is sent on: a connection of its own, or a stream of a shared one.
pub(super) enum Lease {
    Own(OwnConnection),
    Shared(StreamSlot),
}

/// A connection that serves one call at a time.
pub(super) struct OwnConnection {
    pub(super) wire: Wire,
    thread: usize,
    /// Dropped after the connection is back in the pool.
    permit: Option<OwnedSemaphorePermit>,
    /// What opening it took, if that was for this call.
    pub(super) opening: Option<Box<Opening>>,
}

/// A connection, in use or idle.
pub(super) struct Wire {
    pub(super) io: Io,
    pub(super) alarm: Alarm,
    born: Instant,
    /// The changes of the name when its address was last known to be current.
    changes: u32,
}

impl Pool {
    pub(super) fn new(bounds: Connections, name: Option<Arc<Name>>) -> Self {
        let permits = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let shard = |_| PoolShard {
            state: Mutex::default(),
            freed: Arc::default(),
            permits: bounds.open.map(permits),
            waiting: AtomicUsize::new(0),
        };
        Pool { shards: (0..THREADS).map(shard).collect(), bounds, name }
    }

    /// How often the addresses of the name have changed.
    fn changes(&self) -> u32 {
        self.name.as_ref().map_or(0, |name| name.changes())
    }

    /// Whether a connection leads to a current address, if it did after so many `changes`.
    fn leads(&self, io: &Io, changes: u32) -> bool {
        changes == self.changes() || io.peer().is_some_and(|peer| self.name.as_ref().is_none_or(|name| name.has(peer)))
    }

    /// A free stream of a shared connection to a current address.
    fn reserve(&self, state: &mut ShardState) -> Option<StreamSlot> {
        let changes = self.changes();
        if let Some(name) = self.name.as_ref().filter(|_| state.changes != changes) {
            state.changes = changes;
            state.shared.retain(|(_, peer)| peer.is_some_and(|peer| name.has(peer)));
        }
        state.reserve(self.bounds.lifetime)
    }

    /// A free stream of a shared connection, or the newest kept connection that is usable.
    pub(super) fn take(&self, cx: &mut Context<'_>, now: Instant) -> Option<Lease> {
        let thread = threads::index();
        let mut state = self.state(thread);
        if let Some(slot) = self.reserve(&mut state) {
            return Some(Lease::Shared(slot));
        }
        if state.kept.is_empty() {
            return None;
        }
        let permit = match &self.shards[thread].permits {
            Some(permits) => Some(permits.clone().try_acquire_owned().ok()?),
            None => None,
        };
        let kept = self.newest(&mut state, cx, now);
        drop(state);
        kept.map(|KeptConnection { wire, .. }| Lease::Own(OwnConnection { wire, thread, permit, opening: None }))
    }

    /// The newest kept connection.
    fn reuse(&self, thread: usize, cx: &mut Context<'_>) -> Option<KeptConnection> {
        self.newest(&mut self.state(thread), cx, Instant::now())
    }

    /// The newest of these connections that is idle, not too old, and leads to a current address.
    fn newest(&self, state: &mut ShardState, cx: &mut Context<'_>, now: Instant) -> Option<KeptConnection> {
        let runtime = Handle::try_current().ok()?.id();
        while let Some(mut kept) = state.kept.pop_back() {
            if now.saturating_duration_since(kept.since) >= self.bounds.keep {
                state.kept.clear();
                break;
            }
            let young = now.saturating_duration_since(kept.wire.born) < self.bounds.lifetime;
            let leads = self.leads(&kept.wire.io, kept.wire.changes);
            if young && leads && kept.runtime == runtime && kept.wire.io.at_rest(cx) {
                return Some(kept);
            }
        }
        None
    }

    /// Takes a connection back, or closes it if enough are kept.
    pub(super) fn put(self: &Arc<Self>, own: OwnConnection, now: Instant) {
        // The permit is dropped after the connection is back.
        let OwnConnection { mut wire, thread, permit: _permit, .. } = own;
        // Checked here too, so that a connection that is always busy also follows a name that has moved.
        if self.leads(&wire.io, wire.changes) {
            wire.changes = self.changes();
            self.keep(thread, wire, now);
        }
    }

    fn keep(self: &Arc<Self>, thread: usize, wire: Wire, now: Instant) {
        // Without a runtime no task could close it when it expires.
        let Ok(runtime) = Handle::try_current() else { return };
        let bounds = &self.bounds;
        if bounds.idle == 0 || bounds.keep.is_zero() || now.saturating_duration_since(wire.born) >= bounds.lifetime {
            return;
        }
        let id = runtime.id();
        let mut state = self.state(thread);
        if state.kept.len() == bounds.idle {
            state.kept.pop_front();
        }
        state.kept.push_back(KeptConnection { wire, since: now, runtime: id });
        if state.cleared_by.replace(id) != Some(id) {
            runtime.spawn(clear(Arc::downgrade(self), thread, id, bounds.keep.min(bounds.lifetime) / 2));
        }
    }

    fn state(&self, thread: usize) -> MutexGuard<'_, ShardState> {
        self.shards[thread].state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a shared connection no further calls.
    pub(super) fn retire(&self, thread: usize, session: &Session) {
        self.state(thread).shared.retain(|(shared, _)| !std::ptr::eq(&**shared, session));
        self.shards[thread].freed.notify_waiters();
    }

    /// Closes connections that were idle for too long or that the server has closed.
    fn tidy(&self, thread: usize, id: runtime::Id) -> Remaining {
        let bounds = &self.bounds;
        let mut state = self.state(thread);
        let mut nobody = Context::from_waker(Waker::noop());
        state.kept.retain_mut(|kept| {
            let young = kept.since.elapsed() < bounds.keep && kept.wire.born.elapsed() < bounds.lifetime;
            young && (kept.runtime != id || kept.wire.io.at_rest(&mut nobody))
        });
        if state.kept.is_empty() {
            state.cleared_by = None;
            return Remaining::Nothing;
        }
        Remaining::Some
    }

    /// Waits for a permit to use a connection; returns whether it had to wait.
    async fn acquire(&self, thread: usize, until: Timeout) -> Result<(Option<OwnedSemaphorePermit>, Waited), Error> {
        let shard = &self.shards[thread];
        let Some(permits) = &shard.permits else { return Ok((None, Waited::No)) };
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Ok((Some(permit), Waited::No));
        }
        let _waiting = shard.wait(self.bounds.waiting)?;
        let permit = within(until, permits.clone().acquire_owned()).await.and_then(Result::ok).ok_or_else(full)?;
        Ok((Some(permit), Waited::Yes))
    }
}

impl ShardState {
    /// A free stream. Sessions that accept no further calls are removed.
    fn reserve(&mut self, lifetime: Duration) -> Option<StreamSlot> {
        // The oldest first, so that connections opened for a peak become idle after it.
        let mut at = 0;
        while let Some((session, _)) = self.shared.get(at) {
            match session.ready(lifetime) {
                None => drop(self.shared.remove(at)),
                Some(sender) => match session.reserve(sender) {
                    None => at += 1,
                    slot => return slot,
                },
            }
        }
        None
    }
}

impl PoolShard {
    /// Joins the queue, unless it is full.
    fn wait(&self, most: usize) -> Result<Waiting<'_>, Error> {
        let shorter = |waiting| (waiting < most).then_some(waiting + 1);
        let joined = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
        joined.map(|_| Waiting(&self.waiting)).map_err(|_| full())
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    Yes,
    No,
}

enum Remaining {
    Some,
    Nothing,
}

/// Closes idle connections: one task per shard in use, which ends when the shard is empty.
async fn clear(pool: Weak<Pool>, thread: usize, id: runtime::Id, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        if let Remaining::Nothing = pool.tidy(thread, id) {
            return;
        }
    }
}

/// Opens a connection, or waits for one.
pub(super) async fn open(upstream: &Arc<Upstream>, at: usize, limit: Timeout) -> Result<(Lease, Origin), Error> {
    let goal = Goal { upstream: upstream.clone(), at, thread: threads::index() };
    match goal.server().shares() {
        false => own(&goal, limit, None).await,
        true => shared(&goal, limit).await,
    }
}

/// The server that a connection is for, and the shard it belongs to.
#[derive(Clone)]
struct Goal {
    upstream: Arc<Upstream>,
    /// Which of its servers.
    at: usize,
    thread: usize,
}

impl Goal {
    fn server(&self) -> &Server {
        &self.upstream.servers[self.at]
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.server().pool
    }

    fn shard(&self) -> &PoolShard {
        &self.pool().shards[self.thread]
    }

    fn state(&self) -> MutexGuard<'_, ShardState> {
        self.pool().state(self.thread)
    }

    async fn connect(&self, limit: Timeout, offer: Offer) -> Result<(Io, Opening), Error> {
        let opened = self.server().connector.connect(limit, offer).await?;
        self.upstream.counters.count(Event::Opened);
        Ok(opened)
    }
}

/// A fresh HTTP/1.1 connection for a call that is to change its protocol: no other call uses it, before or after.
pub(super) async fn open_alone(upstream: &Arc<Upstream>, at: usize, limit: Timeout) -> Result<(Lease, Origin), Error> {
    let goal = Goal { upstream: upstream.clone(), at, thread: threads::index() };
    goal.server().check_http1()?;
    let since = Instant::now();
    let (pool, thread) = (goal.pool(), goal.thread);
    let (permit, waited) = pool.acquire(thread, limit).await?;
    if waited == Waited::Yes {
        goal.upstream.counters.count(Event::Queued);
    }
    if permit.is_some() {
        // Connections that are kept count among the open ones.
        drop(goal.state().kept.pop_front());
    }
    let changes = pool.changes();
    let (io, opening) = goal.connect(rest(limit, since), Offer::Http1).await?;
    let wire = Wire { io, alarm: Alarm::default(), born: Instant::now(), changes };
    Ok((Lease::Own(OwnConnection { wire, thread, permit, opening: Some(Box::new(opening)) }), Origin::Fresh))
}

async fn own(goal: &Goal, limit: Timeout, attempt: Option<&ConnectAttempt>) -> Result<(Lease, Origin), Error> {
    let since = Instant::now();
    let (pool, thread) = (goal.pool(), goal.thread);
    let (permit, waited) = pool.acquire(thread, limit).await?;
    if waited == Waited::Yes {
        goal.upstream.counters.count(Event::Queued);
        // The call that made room has most likely left its connection.
        let kept = std::future::poll_fn(|cx| pool.reuse(thread, cx).into()).await;
        if let Some(KeptConnection { wire, .. }) = kept {
            return Ok((Lease::Own(OwnConnection { wire, thread, permit, opening: None }), Origin::Kept));
        }
    }
    // Read before the lookup, whose addresses can only be newer.
    let changes = pool.changes();
    let tried = attempt.and_then(|attempt| attempt.single.lock().unwrap_or_else(PoisonError::into_inner).take());
    let (io, opening) = match tried.filter(|(io, _)| pool.leads(io, changes.wrapping_sub(1))) {
        Some(opened) => opened,
        None => goal.connect(rest(limit, since), Offer::All).await?,
    };
    let wire = Wire { io, alarm: Alarm::default(), born: Instant::now(), changes };
    Ok((Lease::Own(OwnConnection { wire, thread, permit, opening: Some(Box::new(opening)) }), Origin::Fresh))
}

/// Where connections may be shared, calls without one wait for one attempt together.
async fn shared(goal: &Goal, limit: Timeout) -> Result<(Lease, Origin), Error> {
    let since = Instant::now();
    let late = || Error::new(Kind::Timeout, "connecting timed out");
    let mut waiting = None;
    let mut tried = None;
    loop {
        match next(goal) {
            Next::Slot(slot) => return Ok((Lease::Shared(slot), Origin::Fresh)),
            Next::Own => return own(goal, rest(limit, since), tried.as_deref()).await,
            Next::Attempt(attempt, done) => {
                within(rest(limit, since), done).await.ok_or_else(late)?;
                attempt.outcome.get().cloned().unwrap_or(Ok(()))?;
                tried = Some(attempt);
            }
            Next::Full(freed) => {
                if waiting.is_none() {
                    goal.upstream.counters.count(Event::Queued);
                    waiting = Some(goal.shard().wait(goal.pool().bounds.waiting)?);
                }
                within(rest(limit, since), freed).await.ok_or_else(full)?;
            }
        }
    }
}

/// What a call without a connection does next.
enum Next {
    Slot(StreamSlot),
    /// Opens one for itself.
    Own,
    /// Waits for the attempt.
    Attempt(Arc<ConnectAttempt>, OwnedNotified),
    /// Waits for a free stream.
    Full(OwnedNotified),
}

fn next(goal: &Goal) -> Next {
    let bounds = &goal.pool().bounds;
    let mut state = goal.state();
    if let Some(slot) = goal.pool().reserve(&mut state) {
        return Next::Slot(slot);
    }
    if state.single.is_some_and(|since| since.elapsed() < BELIEVED) {
        return Next::Own;
    }
    if let Some(attempt) = &state.attempt {
        return Next::Attempt(attempt.clone(), attempt.done.clone().notified_owned());
    }
    if bounds.open.is_some_and(|most| state.shared.len() >= most) {
        return Next::Full(goal.shard().freed.clone().notified_owned());
    }
    let attempt = Arc::<ConnectAttempt>::default();
    let done = attempt.done.clone().notified_owned();
    state.attempt = Some(attempt.clone());
    let connecting = Connecting { goal: goal.clone(), attempt: attempt.clone() };
    // A task of its own: it serves all calls that wait, and the call that started it may be dropped.
    tokio::spawn(connecting.run());
    Next::Attempt(attempt, done)
}

/// An attempt to open a connection for all calls that wait.
#[derive(Default)]
struct ConnectAttempt {
    outcome: OnceLock<Result<(), Error>>,
    /// The connection, if it speaks HTTP/1.1: it goes to one of the calls that wait.
    single: Mutex<Option<(Io, Opening)>>,
    done: Arc<Notify>,
}

struct Connecting {
    goal: Goal,
    attempt: Arc<ConnectAttempt>,
}

impl Connecting {
    async fn run(self) {
        // The limit covers the whole attempt: one that never ended would block all later ones.
        let outcome = within(self.goal.upstream.timeouts.connect, self.reach()).await;
        let outcome = outcome.unwrap_or_else(|| Err(Error::new(Kind::Timeout, "connecting timed out")));
        // Set once, here.
        let _ = self.attempt.outcome.set(outcome);
    }

    async fn reach(&self) -> Result<(), Error> {
        let goal = &self.goal;
        let (pool, upstream) = (goal.pool(), &goal.upstream);
        let (io, opening) = goal.connect(upstream.timeouts.connect, Offer::All).await?;
        if !goal.server().speaks_h2(&io)? {
            goal.state().single = Some(Instant::now());
            *self.attempt.single.lock().unwrap_or_else(PoisonError::into_inner) = Some((io, opening));
            return Ok(());
        }
        let peer = io.peer();
        let span = Span { idle: pool.bounds.keep, lifetime: pool.bounds.lifetime };
        let (freed, most) = (goal.shard().freed.clone(), goal.state().most);
        let home = Home { pool: Arc::downgrade(pool), thread: goal.thread, freed, most };
        let session = Session::open(io, upstream.max_head, span, home).await?;
        let mut state = goal.state();
        state.single = None;
        state.most = Some(session.most());
        state.shared.push((session, peer));
        Ok(())
    }
}

impl Drop for Connecting {
    /// Also when the runtime shuts down: no call may wait for an attempt that is gone.
    fn drop(&mut self) {
        self.goal.state().attempt = None;
        self.attempt.done.notify_waiters();
        self.goal.shard().freed.notify_waiters();
    }
}

fn full() -> Error {
    Error::new(Kind::Busy, "all connections to the upstream are in use")
}

/// The rest of a limit.
fn rest(limit: Timeout, since: Instant) -> Timeout {
    match limit {
        Timeout::Never => Timeout::Never,
        Timeout::After(limit) => Timeout::After(limit.saturating_sub(since.elapsed())),
    }
}

/// `None`, if it takes longer than `limit`.
async fn within<T>(limit: Timeout, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Timeout::Never => Some(future.await),
        Timeout::After(limit) => tokio::time::timeout(limit, future).await.ok(),
    }
}
