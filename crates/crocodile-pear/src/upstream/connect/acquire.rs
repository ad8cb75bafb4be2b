//! A connection for a call that found none: opened, or waited for.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, sleep_until};

use super::counters::ConnectionEvent;
use super::dial::LATE;
use super::h2_connection::{Driver, Session, SessionSpan, StreamLimits, StreamSlot};
use super::io::Io;
use super::pool::{
    ConnectAttempt, ConnectionOrigin, ConnectionPool, Joining, KeptConnection, Lease, OwnConnection, PoolShard,
    ShardState, Waited, Wire, full, within,
};
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::net::protocol::{Offer, Protocol};
use crate::runtime::deadline_timer::Alarm;
use crate::runtime::thread_id;
use crate::telemetry::request_record::Opening;

/// How long a server that chose HTTP/1.1 is expected to choose it again. Meanwhile connections are opened in parallel;
/// otherwise calls wait for the first one, since over HTTP/2 it may serve them all.
const BELIEVED: Duration = Duration::from_secs(600);

/// How long a call waits only for its own new connection. After that it takes whichever comes first: a server may not answer on new
/// connections, while those that are open work.
const OPENS_ALONE: Duration = Duration::from_millis(100);

/// Opens a connection, or waits for one.
pub(crate) async fn open(pool: &Arc<ConnectionPool>, limit: Timeout) -> Result<(Lease, ConnectionOrigin), Error> {
    let goal = Goal::of(pool);
    match pool.shares() {
        false => own(&goal, limit, None).await,
        true => shared(&goal, limit).await,
    }
}

/// The pool that a connection is for, and the shard it belongs to.
#[derive(Clone)]
struct Goal {
    pool: Arc<ConnectionPool>,
    thread: usize,
}

impl Goal {
    fn of(pool: &Arc<ConnectionPool>) -> Self {
        Goal { pool: pool.clone(), thread: thread_id::index() }
    }

    fn shard(&self) -> &PoolShard {
        self.pool.shard(self.thread)
    }

    fn state(&self) -> MutexGuard<'_, ShardState> {
        self.pool.state(self.thread)
    }

    async fn connect(&self, limit: Timeout, offer: Offer) -> Result<(Io, Opening), Error> {
        let opened = self.pool.connector.connect(limit, offer).await?;
        self.pool.counters.count(ConnectionEvent::Opened);
        Ok(opened)
    }

    /// A connection that is opened, or one that becomes free if that takes long.
    async fn connect_or_reuse(&self, limit: Timeout, changes: u32) -> Result<Reached, Error> {
        let goal = self.clone();
        let mut connecting = Box::pin(async move { goal.connect(limit, Offer::All).await });
        if let Some(connected) = within(Timeout::After(OPENS_ALONE), &mut connecting).await {
            return connected.map(Reached::Opened);
        }
        let _slow = SlowCall::begin(self);
        loop {
            if let Some(kept) = poll_fn(|cx| self.pool.reuse(self.thread, cx).into()).await {
                self.open_on(connecting, changes);
                return Ok(Reached::Kept(kept));
            }
            tokio::select! {
                biased;
                connected = &mut connecting => return connected.map(Reached::Opened),
                () = self.shard().back.notified() => {}
            }
        }
    }

    /// Goes on opening a connection for which its call does not wait any more, and keeps it for another. Too many of them are given
    /// up: calls come and go faster than a server that does not answer.
    fn open_on(&self, connecting: impl Future<Output = Result<(Io, Opening), Error>> + Send + 'static, changes: u32) {
        let Ok(permit) = self.pool.try_acquire(self.thread) else { return };
        let Ok(opened_on) = self.shard().opened_on.clone().try_acquire_owned() else { return };
        let Goal { pool, thread } = self.clone();
        tokio::spawn(async move {
            let _opened_on = opened_on;
            let Ok((io, _)) = connecting.await else { return };
            if !pool.shares() || !io.chose_h2() {
                let wire = Wire { io, alarm: Alarm::default(), born: Instant::now(), changes };
                pool.put(OwnConnection { wire, thread, permit, opening: None }, Instant::now());
            }
        });
    }

    /// A stream on a connection that turned out to speak HTTP/2. Another call may have found that out first: then its
    /// connection serves this call too, and this one is closed.
    async fn join(&self, io: Io) -> Result<StreamSlot, Error> {
        let shared = {
            let mut state = self.state();
            state.single = None;
            self.pool.reserve(&mut state)
        };
        match shared {
            Some(slot) => Ok(slot),
            None => self.share(io, Session::first).await?.ok_or_else(refused),
        }
    }

    /// Starts HTTP/2 on a connection and lists it for all calls of this shard. `take` sees it before any other call.
    async fn share<T>(&self, io: Io, take: impl FnOnce(&Arc<Session>) -> T) -> Result<T, Error> {
        let bounds = &self.pool.bounds;
        let peer = io.peer();
        let span = SessionSpan { idle: bounds.connections.keep, lifetime: bounds.connections.lifetime };
        let limits =
            StreamLimits { freed: self.shard().freed.clone(), most: self.state().most.filter(|most| *most > 0) };
        let (session, driver) = Session::open(io, bounds.max_head, span, limits).await?;
        if session.most() == 0 {
            // Calls would open one connection after the other for it.
            return Err(refused());
        }
        let (pool, own) = (Arc::downgrade(&self.pool), Arc::downgrade(&session));
        tokio::spawn(drive(driver, Listed { pool, thread: self.thread, session: own }));
        let taken = take(&session);
        let mut state = self.state();
        state.single = None;
        state.most = Some(session.most());
        state.shared.push((session, peer));
        Ok(taken)
    }
}

fn refused() -> Error {
    Error::new(Kind::Unreachable, "the upstream allows no stream on its connection")
}

/// Whether the server may be spoken to in HTTP/1.1, which an upgrade needs.
///
/// # Errors
/// `Unusable`, if the configuration requires HTTP/2.
pub(crate) fn check_http1(pool: &ConnectionPool) -> Result<(), Error> {
    match pool.protocol {
        Protocol::Auto | Protocol::Http1 => Ok(()),
        Protocol::Http2 => Err(Error::new(Kind::Unusable, "the upstream speaks HTTP/2 alone, which has no `Upgrade`")),
    }
}

/// Whether a new connection speaks HTTP/2.
///
/// # Errors
/// `Unreachable`, if HTTP/2 is required and the server did not choose it.
fn speaks_h2(pool: &ConnectionPool, io: &Io) -> Result<bool, Error> {
    let prior_knowledge = pool.protocol == Protocol::Http2 && !pool.connector.has_tls();
    match prior_knowledge || io.chose_h2() {
        false if pool.protocol == Protocol::Http2 => {
            Err(Error::new(Kind::Unreachable, "the upstream does not speak HTTP/2"))
        }
        speaks => Ok(speaks),
    }
}

/// A new HTTP/1.1 connection for a call that will change its protocol. No other call uses it.
pub(crate) async fn open_alone(pool: &Arc<ConnectionPool>, limit: Timeout) -> Result<(Lease, ConnectionOrigin), Error> {
    let goal = Goal::of(pool);
    check_http1(pool)?;
    let since = Instant::now();
    let (pool, thread) = (&goal.pool, goal.thread);
    let (permit, waited) = pool.acquire(thread, limit).await?;
    if waited == Waited::Yes {
        goal.pool.counters.count(ConnectionEvent::Queued);
    }
    if permit.is_some() {
        // Connections that are kept count among the open ones.
        drop(goal.state().kept.pop_front());
    }
    let changes = pool.changes();
    let (io, opening) = goal.connect(rest(limit, since), Offer::Http1).await?;
    let wire = Wire { io, alarm: Alarm::default(), born: Instant::now(), changes };
    Ok((Lease::Own(OwnConnection { wire, thread, permit, opening: Some(Box::new(opening)) }), ConnectionOrigin::Fresh))
}

async fn own(
    goal: &Goal,
    limit: Timeout,
    attempt: Option<&ConnectAttempt>,
) -> Result<(Lease, ConnectionOrigin), Error> {
    let since = Instant::now();
    let (pool, thread) = (&goal.pool, goal.thread);
    let (permit, waited) = pool.acquire(thread, limit).await?;
    // Only the rest of the limit is for the server: the time in the queue was not its fault.
    let limit = rest(limit, since);
    let mut queued = waited == Waited::Yes;
    if let Some(turn) = pool.connector.turn() {
        // Boxed: few calls wait here, and all would carry the room.
        Box::pin(sleep_until(turn)).await;
        queued = true;
    }
    if queued {
        goal.pool.counters.count(ConnectionEvent::Queued);
        // The call that made room has most likely left its connection.
        let kept = poll_fn(|cx| pool.reuse(thread, cx).into()).await;
        if let Some(kept) = kept {
            return Ok(lease_kept(kept, thread, permit));
        }
    }
    // Read before the lookup, whose addresses can only be newer.
    let changes = pool.changes();
    let tried = attempt.and_then(|attempt| attempt.single.lock().unwrap_or_else(PoisonError::into_inner).take());
    let (io, opening) = match tried.filter(|(io, _)| pool.leads(io, changes.wrapping_sub(1))) {
        Some(opened) => opened,
        None => match goal.connect_or_reuse(limit, changes).await? {
            Reached::Opened(opened) => opened,
            Reached::Kept(kept) => return Ok(lease_kept(kept, thread, permit)),
        },
    };
    // HTTP/1.1 was expected, since the server chose it last time; it may choose otherwise each time.
    if pool.shares() && speaks_h2(pool, &io)? {
        drop(permit);
        // Boxed: few calls see a server change its protocol, and all would carry the room.
        let slot = Box::pin(within(rest(limit, since), goal.join(io))).await.ok_or_else(late)??;
        return Ok((Lease::Shared(slot), ConnectionOrigin::Fresh));
    }
    let wire = Wire { io, alarm: Alarm::default(), born: Instant::now(), changes };
    Ok((Lease::Own(OwnConnection { wire, thread, permit, opening: Some(Box::new(opening)) }), ConnectionOrigin::Fresh))
}

fn lease_kept(
    KeptConnection { wire, .. }: KeptConnection,
    thread: usize,
    permit: Option<OwnedSemaphorePermit>,
) -> (Lease, ConnectionOrigin) {
    (Lease::Own(OwnConnection { wire, thread, permit, opening: None }), ConnectionOrigin::Kept)
}

/// A connection for a call that opens one.
enum Reached {
    Opened((Io, Opening)),
    Kept(KeptConnection),
}

/// Counts a call while its connection takes long to open.
struct SlowCall<'a>(&'a Goal);

impl<'a> SlowCall<'a> {
    fn begin(goal: &'a Goal) -> Self {
        goal.state().slow += 1;
        SlowCall(goal)
    }
}

impl Drop for SlowCall<'_> {
    fn drop(&mut self) {
        self.0.state().slow -= 1;
    }
}

/// Where connections may be shared, calls without one wait together for an attempt: as many as its connection can serve.
async fn shared(goal: &Goal, limit: Timeout) -> Result<(Lease, ConnectionOrigin), Error> {
    let since = Instant::now();
    let mut waiting = None;
    let mut tried = None;
    loop {
        match next(goal) {
            AcquireStep::Slot(slot) => return Ok((Lease::Shared(slot), ConnectionOrigin::Fresh)),
            AcquireStep::Own => return own(goal, rest(limit, since), tried.as_deref()).await,
            AcquireStep::Attempt(attempt, done) => {
                let slot = within(rest(limit, since), attempted(goal, done)).await.ok_or_else(late)?;
                if let Some(slot) = slot {
                    return Ok((Lease::Shared(slot), ConnectionOrigin::Fresh));
                }
                attempt.outcome.get().cloned().unwrap_or(Ok(()))?;
                tried = Some(attempt);
            }
            AcquireStep::Full(freed) => {
                if waiting.is_none() {
                    goal.pool.counters.count(ConnectionEvent::Queued);
                    waiting = Some(goal.shard().wait(goal.pool.bounds.connections.waiting)?);
                }
                within(rest(limit, since), freed).await.ok_or_else(full)?;
            }
        }
    }
}

/// Waits for the end of an attempt. If that takes long, a stream that becomes free is used instead.
async fn attempted(goal: &Goal, done: OwnedNotified) -> Option<StreamSlot> {
    let mut done = pin!(done);
    if within(Timeout::After(OPENS_ALONE), &mut done).await.is_some() {
        return None;
    }
    loop {
        let freed = goal.shard().freed.notified();
        let slot = goal.pool.reserve(&mut goal.state());
        if slot.is_some() {
            return slot;
        }
        tokio::select! {
            biased;
            () = &mut done => return None,
            () = freed => {}
        }
    }
}

fn late() -> Error {
    Error::new(Kind::Timeout, LATE)
}

/// The next step of a call that has no connection.
enum AcquireStep {
    Slot(StreamSlot),
    /// Opens one for itself.
    Own,
    /// Waits for the attempt.
    Attempt(Arc<ConnectAttempt>, OwnedNotified),
    /// Waits for a free stream.
    Full(OwnedNotified),
}

fn next(goal: &Goal) -> AcquireStep {
    let bounds = &goal.pool.bounds.connections;
    let mut state = goal.state();
    if let Some(slot) = goal.pool.reserve(&mut state) {
        return AcquireStep::Slot(slot);
    }
    if state.single.is_some_and(|since| since.elapsed() < BELIEVED) {
        return AcquireStep::Own;
    }
    if let Some(attempt) = state.attempt.as_mut().and_then(Joining::join) {
        let done = attempt.done.clone().notified_owned();
        return AcquireStep::Attempt(attempt, done);
    }
    if bounds.open.is_some_and(|most| state.shared.len() + state.attempts >= most) {
        return AcquireStep::Full(goal.shard().freed.clone().notified_owned());
    }
    // The server may allow another number by now.
    state.most = state.shared.last().map_or(state.most, |(session, _)| Some(session.most()));
    // Beside the attempts that already run: none of them has room for this call.
    let joining = Joining::new(state.most);
    let attempt = joining.attempt.clone();
    let done = attempt.done.clone().notified_owned();
    state.attempt = Some(joining);
    state.attempts += 1;
    let connecting = Connecting { goal: goal.clone(), attempt: attempt.clone() };
    // A task of its own: it serves all calls that wait, and the call that started it may be dropped.
    tokio::spawn(connecting.run());
    AcquireStep::Attempt(attempt, done)
}

struct Connecting {
    goal: Goal,
    attempt: Arc<ConnectAttempt>,
}

impl Connecting {
    async fn run(self) {
        // The limit covers the whole attempt: one that never ended would block all later ones.
        let outcome = within(self.goal.pool.bounds.connect, self.reach()).await;
        let outcome = outcome.unwrap_or_else(|| Err(late()));
        // Set once, here.
        let _ = self.attempt.outcome.set(outcome);
    }

    async fn reach(&self) -> Result<(), Error> {
        let goal = &self.goal;
        let (io, opening) = goal.connect(goal.pool.bounds.connect, Offer::All).await?;
        if !speaks_h2(&goal.pool, &io)? {
            goal.state().single = Some(Instant::now());
            *self.attempt.single.lock().unwrap_or_else(PoisonError::into_inner) = Some((io, opening));
            return Ok(());
        }
        goal.share(io, |_| ()).await
    }
}

impl Drop for Connecting {
    /// Also when the runtime shuts down: no call may wait for an attempt that is gone.
    fn drop(&mut self) {
        let mut state = self.goal.state();
        state.attempts -= 1;
        // There may be a newer one.
        state.attempt.take_if(|joining| Arc::ptr_eq(&joining.attempt, &self.attempt));
        drop(state);
        self.attempt.done.notify_waiters();
        self.goal.shard().freed.notify_waiters();
    }
}

/// A session in the list of its pool, until this is dropped: also when the runtime shuts down.
struct Listed {
    pool: Weak<ConnectionPool>,
    thread: usize,
    session: Weak<Session>,
}

impl Drop for Listed {
    /// No further call begins there; calls that wait for a stream look elsewhere.
    fn drop(&mut self) {
        if let (Some(session), Some(pool)) = (self.session.upgrade(), self.pool.upgrade()) {
            pool.retire(self.thread, &session);
        }
    }
}

/// Drives a session to the end of its last call.
async fn drive(mut driver: Driver, listed: Listed) {
    driver.until_over().await;
    drop(listed);
    driver.until_end().await;
}

fn rest(limit: Timeout, since: Instant) -> Timeout {
    match limit {
        Timeout::Never => Timeout::Never,
        Timeout::After(limit) => Timeout::After(limit.saturating_sub(since.elapsed())),
    }
}
