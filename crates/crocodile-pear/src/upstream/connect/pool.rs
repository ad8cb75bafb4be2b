//! The connection pool of one server: HTTP/1.1 connections kept for the next call, HTTP/2 connections shared by many.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Connector;
use super::connections::Connections;
use super::counters::ConnectionCounters;
use super::h2_connection::{MOST_STREAMS, Session, StreamSlot};
use super::io::Io;
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::net::protocol::Protocol;
use crate::runtime::deadline_timer::{self, Alarm};
use crate::runtime::descriptors;
use crate::runtime::per_thread::PerThread;
use crate::runtime::thread_id;
use crate::telemetry::request_record::Opening;

/// How many connections are opened on at a time that no call waits for any more, for each core.
const OPENED_ON: usize = 8;

/// The connections of one server.
///
/// Every thread has a shard of its own, behind a lock that only this thread takes while it serves requests; the lock
/// is needed because the pool may be dropped, and its connections closed, on any thread. It is never held across
/// an await.
pub(crate) struct ConnectionPool {
    shards: PerThread<PoolShard>,
    pub(crate) connector: Connector,
    pub(crate) protocol: Protocol,
    pub(crate) bounds: ConnectionBounds,
    pub(crate) counters: Arc<ConnectionCounters>,
}

#[derive(Clone, Hash)]
pub(crate) struct ConnectionBounds {
    pub(crate) connections: Connections,
    /// How long an attempt to connect may take that several calls wait for.
    pub(crate) connect: Timeout,
    /// The largest head of an answer over HTTP/2.
    pub(crate) max_head: usize,
}

/// Aligned, so that no two threads write to one cache line.
#[repr(align(128))]
pub(crate) struct PoolShard {
    state: Mutex<ShardState>,
    /// Notified when a shared connection has a free stream.
    pub(crate) freed: Arc<Notify>,
    /// Notified when a connection comes back, if a call waits for one.
    pub(crate) back: Notify,
    /// A permit for each connection that is opened on without a call.
    pub(crate) opened_on: Arc<Semaphore>,
    /// A permit for each call that has a connection of its own. A connection is opened only when none is kept, so there are
    /// never more connections than permits.
    permits: Option<Arc<Semaphore>>,
    waiting: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct ShardState {
    /// The newest at the back.
    pub(crate) kept: VecDeque<KeptConnection>,
    /// The number of calls whose connections take long to open, and that use one that comes back.
    pub(crate) slow: usize,
    /// Each with the peer's address.
    pub(crate) shared: Vec<(Arc<Session>, Option<IpAddr>)>,
    /// The changes of the name when those addresses were last checked.
    changes: u32,
    /// The attempts to open a shared connection that run, and the newest of them.
    pub(crate) attempts: usize,
    pub(crate) attempt: Option<Joining>,
    /// How many streams the server allows on a shared connection.
    pub(crate) most: Option<usize>,
    /// When the server last chose HTTP/1.1.
    pub(crate) single: Option<Instant>,
    /// The task that closes idle connections of this shard, if there is one.
    clearing: Option<Clearing>,
}

/// A task that closes idle connections. It ends with its pool: a program may call one server after another, each once.
struct Clearing {
    runtime: runtime::Id,
    task: AbortHandle,
}

impl Drop for Clearing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) struct KeptConnection {
    pub(crate) wire: Wire,
    since: Instant,
    /// A socket is driven by the runtime that opened it, so it is used on that one only.
    runtime: runtime::Id,
}

/// The connection of a call: one of its own, or a stream of a shared one.
pub(crate) enum Lease {
    Own(OwnConnection),
    Shared(StreamSlot),
}

/// Where a connection came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionOrigin {
    Kept,
    Fresh,
}

/// A connection that serves one call at a time.
pub(crate) struct OwnConnection {
    pub(crate) wire: Wire,
    pub(crate) thread: usize,
    /// Dropped after the connection is back in the pool.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// The cost of opening it, if that was for this call.
    pub(crate) opening: Option<Box<Opening>>,
}

/// A connection, in use or idle.
pub(crate) struct Wire {
    pub(crate) io: Io,
    pub(crate) alarm: Alarm,
    pub(crate) born: Instant,
    /// The changes of the name when its address was last known to be current.
    pub(crate) changes: u32,
}

impl ConnectionPool {
    pub(crate) fn new(
        connector: Connector,
        protocol: Protocol,
        bounds: ConnectionBounds,
        counters: Arc<ConnectionCounters>,
    ) -> Self {
        ConnectionPool { shards: PerThread::default(), connector, protocol, bounds, counters }
    }

    pub(crate) fn shard(&self, thread: usize) -> &PoolShard {
        self.shards.of(thread, || {
            let permits = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
            PoolShard {
                state: Mutex::default(),
                freed: Arc::default(),
                back: Notify::new(),
                opened_on: Arc::new(Semaphore::new(OPENED_ON)),
                permits: self.bounds.connections.open.map(permits),
                waiting: AtomicUsize::new(0),
            }
        })
    }

    /// Whether calls may share connections, over HTTP/2.
    pub(crate) fn shares(&self) -> bool {
        match self.protocol {
            Protocol::Auto => self.connector.has_tls(),
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        }
    }

    /// How often the addresses of the name have changed.
    pub(crate) fn changes(&self) -> u32 {
        self.connector.name().map_or(0, |name| name.changes())
    }

    /// Whether a connection leads to a current address, if it did when `changes` was read.
    pub(crate) fn leads(&self, io: &Io, changes: u32) -> bool {
        changes == self.changes()
            || io.peer().is_some_and(|peer| self.connector.name().is_none_or(|name| name.has(peer)))
    }

    /// A free stream of a shared connection to a current address.
    pub(crate) fn reserve(&self, state: &mut ShardState) -> Option<StreamSlot> {
        let changes = self.changes();
        if let Some(name) = self.connector.name().filter(|_| state.changes != changes) {
            state.changes = changes;
            state.shared.retain(|(_, peer)| peer.is_some_and(|peer| name.has(peer)));
        }
        state.reserve(self.bounds.connections.lifetime)
    }

    /// A free stream of a shared connection, or the newest kept connection that is usable.
    pub(crate) fn take(&self, cx: &mut Context<'_>, now: Instant) -> Option<Lease> {
        let thread = thread_id::index();
        let mut state = self.state(thread);
        if let Some(slot) = self.reserve(&mut state) {
            return Some(Lease::Shared(slot));
        }
        if state.kept.is_empty() {
            return None;
        }
        let permit = self.try_acquire(thread).ok()?;
        let kept = self.newest(&mut state, cx, now);
        drop(state);
        kept.map(|KeptConnection { wire, .. }| Lease::Own(OwnConnection { wire, thread, permit, opening: None }))
    }

    /// The newest kept connection.
    pub(crate) fn reuse(&self, thread: usize, cx: &mut Context<'_>) -> Option<KeptConnection> {
        self.newest(&mut self.state(thread), cx, Instant::now())
    }

    /// The newest of these connections that is idle, not too old, and leads to a current address.
    fn newest(&self, state: &mut ShardState, cx: &mut Context<'_>, now: Instant) -> Option<KeptConnection> {
        let runtime = Handle::try_current().ok()?.id();
        while let Some(mut kept) = state.kept.pop_back() {
            if now.saturating_duration_since(kept.since) >= self.bounds.connections.keep {
                state.kept.clear();
                break;
            }
            let young = now.saturating_duration_since(kept.wire.born) < self.bounds.connections.lifetime;
            let leads = self.leads(&kept.wire.io, kept.wire.changes);
            if young && leads && kept.runtime == runtime && kept.wire.io.at_rest(cx) {
                return Some(kept);
            }
        }
        None
    }

    /// Takes a connection back, or closes it if enough are kept.
    pub(crate) fn put(self: &Arc<Self>, own: OwnConnection, now: Instant) {
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
        let bounds = &self.bounds.connections;
        if descriptors::are_scarce() {
            return;
        }
        if bounds.idle == 0 || bounds.keep.is_zero() || now.saturating_duration_since(wire.born) >= bounds.lifetime {
            return;
        }
        let id = runtime.id();
        let mut state = self.state(thread);
        if state.kept.len() == bounds.idle {
            state.kept.pop_front();
        }
        state.kept.push_back(KeptConnection { wire, since: now, runtime: id });
        if state.slow > 0 {
            self.shard(thread).back.notify_one();
        }
        if state.clearing.as_ref().is_none_or(|clearing| clearing.runtime != id) {
            let task = clear(Arc::downgrade(self), thread, id, bounds.keep.min(bounds.lifetime) / 2);
            state.clearing = Some(Clearing { runtime: id, task: runtime.spawn(task).abort_handle() });
        }
    }

    pub(crate) fn state(&self, thread: usize) -> MutexGuard<'_, ShardState> {
        self.shard(thread).state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a shared connection no further calls.
    pub(crate) fn retire(&self, thread: usize, session: &Session) {
        self.state(thread).shared.retain(|(shared, _)| !std::ptr::eq(&**shared, session));
        self.shard(thread).freed.notify_waiters();
    }

    /// Closes connections that were idle for too long or that the server has closed.
    fn tidy(&self, thread: usize, id: runtime::Id) -> Remaining {
        let bounds = &self.bounds.connections;
        let mut state = self.state(thread);
        let mut nobody = Context::from_waker(Waker::noop());
        state.kept.retain_mut(|kept| {
            let young = kept.since.elapsed() < bounds.keep && kept.wire.born.elapsed() < bounds.lifetime;
            young && (kept.runtime != id || kept.wire.io.at_rest(&mut nobody))
        });
        if state.kept.is_empty() {
            state.clearing = None;
            return Remaining::Nothing;
        }
        Remaining::Some
    }

    /// A permit to use a connection, if there is one; `None` where there is no bound.
    pub(crate) fn try_acquire(&self, thread: usize) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
        self.shard(thread).permits.as_ref().map(|permits| permits.clone().try_acquire_owned()).transpose()
    }

    /// Waits for a permit to use a connection; returns whether it had to wait.
    pub(crate) async fn acquire(
        &self,
        thread: usize,
        until: Timeout,
    ) -> Result<(Option<OwnedSemaphorePermit>, Waited), Error> {
        let shard = self.shard(thread);
        let Some(permits) = &shard.permits else { return Ok((None, Waited::No)) };
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Ok((Some(permit), Waited::No));
        }
        let _waiting = shard.wait(self.bounds.connections.waiting)?;
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
            if session.is_full() {
                at += 1;
                continue;
            }
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
    pub(crate) fn wait(&self, most: usize) -> Result<QueuePlace<'_>, Error> {
        let shorter = |waiting| (waiting < most).then_some(waiting + 1);
        let joined = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
        joined.map(|_| QueuePlace(&self.waiting)).map_err(|_| full())
    }
}

pub(crate) struct QueuePlace<'a>(&'a AtomicUsize);

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Yes,
    No,
}

enum Remaining {
    Some,
    Nothing,
}

/// Closes idle connections: one task per shard in use, which ends when the shard is empty.
async fn clear(pool: Weak<ConnectionPool>, thread: usize, id: runtime::Id, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        if let Remaining::Nothing = pool.tidy(thread, id) {
            return;
        }
    }
}

/// An attempt that further calls may wait for.
pub(crate) struct Joining {
    pub(crate) attempt: Arc<ConnectAttempt>,
    /// How many of them its connection can serve.
    pub(crate) room: usize,
}

impl Joining {
    /// An attempt that its first call already waits for. `streams` is how many streams the server allows, if that is
    /// known.
    pub(crate) fn new(streams: Option<usize>) -> Self {
        // A server that allows none may still allow some later.
        let room = streams.filter(|streams| *streams > 0).map_or(usize::MAX, |streams| streams.min(MOST_STREAMS) - 1);
        Joining { attempt: Arc::default(), room }
    }

    /// The attempt, if it has room for one more.
    pub(crate) fn join(&mut self) -> Option<Arc<ConnectAttempt>> {
        self.room = self.room.checked_sub(1)?;
        Some(self.attempt.clone())
    }
}

/// An attempt to open a connection for as many of the calls that wait as it can serve.
#[derive(Default)]
pub(crate) struct ConnectAttempt {
    pub(crate) outcome: OnceLock<Result<(), Error>>,
    /// The connection, if it speaks HTTP/1.1: it goes to one of the calls that wait.
    pub(crate) single: Mutex<Option<(Io, Opening)>>,
    pub(crate) done: Arc<Notify>,
}

/// No connection is free.
pub(crate) fn full() -> Error {
    Error::new(Kind::Busy, "all connections to the upstream are in use")
}

/// `None`, if it takes longer than `limit`.
pub(crate) async fn within<T>(limit: Timeout, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Timeout::Never => Some(future.await),
        Timeout::After(limit) => deadline_timer::within(limit, future).await,
    }
}
