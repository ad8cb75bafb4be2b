//! Reads that share a connection: sent one after the other, without waiting for the previous answer. The server
//! handles many of them in one turn, which saves both sides system calls and process switches.
//!
//! Only short reads of one row share a connection, and only those of one core. If the reads before it get no answer,
//! a read leaves and runs alone on another connection. The server is asked to cancel only when no other read is left
//! on the connection, so it never cancels another client's read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_postgres::Client;

use super::pool::{Lease, Pool};
use super::query::{Prepared, Query};
use super::stop;
use crate::error::Error;
use crate::runtime::thread_id::{self, THREADS};

/// So many reads share a connection, also while others are free: to wake one more process of the server costs more than to wait for
/// these. Measured with 10, 64 and 1,000 clients: more is no faster.
const SEATS: usize = 16;

/// If a statement waits that cannot share, a connection is given back after this number of reads.
const TURN: usize = SEATS;

/// How long the reads before may give no answer, until a read runs on another connection.
const PATIENCE: Duration = Duration::from_millis(100);

/// The connections that are shared, by the core.
pub(super) struct Lines([Arc<Core>; THREADS]);

/// Locked by its own core only, where each core has a thread.
#[derive(Default)]
struct Core(Mutex<CoreLines>);

#[derive(Default)]
struct CoreLines {
    lines: Vec<Arc<Line>>,
    /// Reads that find no room. They wait for a connection too, and take what comes first.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    query: Arc<Query>,
    sender: oneshot::Sender<Seat>,
}

/// A connection that is shared. It goes back when the last read has left it.
struct Line {
    /// The lease of the connection; `None` once it went back.
    lease: Option<Lease>,
    core: Arc<Core>,
    /// How many are on it. This and the next are changed under the lock.
    seats: AtomicUsize,
    /// How many have been.
    taken: AtomicUsize,
    /// Whether no further read may join: something runs on it whose end nobody awaits, or it is broken.
    closed: AtomicBool,
    broken: AtomicBool,
    sent: AtomicUsize,
    ended: AtomicUsize,
}

/// A place on a shared connection.
pub(super) struct Seat {
    line: Arc<Line>,
    /// How many were sent before, once it is sent.
    place: Option<usize>,
    ended: bool,
}

/// Where a read runs.
pub(super) enum ReadPlace {
    Alone(Lease),
    Shared(Seat),
}

impl Default for Lines {
    fn default() -> Self {
        Lines(std::array::from_fn(|_| Arc::default()))
    }
}

impl Lines {
    /// A place for a read: on a shared connection, on a free one, or whichever comes first.
    ///
    /// # Errors
    /// The errors of a lease.
    pub(super) async fn place(&self, pool: &Arc<Pool>, query: &Arc<Query>) -> Result<ReadPlace, Error> {
        let core = &self.0[thread_id::index()];
        if query.is_long() {
            return pool.lease().await.map(ReadPlace::Alone);
        }
        if let Some(seat) = core.join(query, pool) {
            return Ok(ReadPlace::Shared(seat));
        }
        if let Some(lease) = pool.spare().await? {
            return Ok(ReadPlace::Alone(lease));
        }
        // Boxed: few wait, and all would carry the room.
        Box::pin(core.wait(pool, query)).await
    }

    /// Shares a connection on which a read is about to run.
    pub(super) fn open(&self, lease: Lease) -> ReadPlace {
        let index = thread_id::index();
        if !lease.is_of(index) {
            // It is needed elsewhere.
            return ReadPlace::Alone(lease);
        }
        let core = &self.0[index];
        let line = Arc::new(Line {
            lease: Some(lease),
            core: core.clone(),
            seats: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            sent: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        });
        let mut shared = core.lock();
        let seat = Line::seat(&line);
        shared.lines.push(line.clone());
        let refused = shared.seat_waiting(&line);
        drop(shared);
        drop(refused);
        ReadPlace::Shared(seat)
    }
}

impl Core {
    fn join(&self, query: &Query, pool: &Pool) -> Option<Seat> {
        // First come, first served.
        if pool.somebody_waits_alone() {
            return None;
        }
        let shared = self.lock();
        let usable = |line: &&Arc<Line>| line.seats.load(Relaxed) < SEATS && line.knows(query) && line.is_open();
        let line = shared.lines.iter().filter(usable).min_by_key(|line| line.seats.load(Relaxed))?;
        Some(Line::seat(line))
    }

    async fn wait(&self, pool: &Arc<Pool>, query: &Arc<Query>) -> Result<ReadPlace, Error> {
        let (known, receiver) = self.lock().enqueue(query);
        tokio::select! {
            biased;
            Ok(seat) = receiver => Ok(ReadPlace::Shared(seat)),
            lease = pool.lease_for_read(known) => lease.map(ReadPlace::Alone),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CoreLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CoreLines {
    /// Whether a line knows the statement, and what comes if there is a place on one.
    fn enqueue(&mut self, query: &Arc<Query>) -> (bool, oneshot::Receiver<Seat>) {
        let known = self.lines.iter().any(|line| line.knows(query));
        let (sender, receiver) = oneshot::channel();
        let left = |waiter: &Waiter| waiter.sender.is_closed();
        while self.waiting.front().is_some_and(left) {
            self.waiting.pop_front();
        }
        // Before it grows: waiting reads are bounded, those that have left are not.
        if self.waiting.len() == self.waiting.capacity() {
            self.waiting.retain(|waiter| !left(waiter));
        }
        self.waiting.push_back(Waiter { query: query.clone(), sender });
        (known, receiver)
    }

    /// Gives the free places of a line to waiting reads. Returns those that were not taken; they are dropped outside
    /// the lock.
    #[must_use]
    fn seat_waiting(&mut self, line: &Arc<Line>) -> Vec<Seat> {
        let mut refused = Vec::new();
        while line.seats.load(Relaxed) < SEATS
            && let Some(at) = self.waiting.iter().take(SEATS).position(|waiter| line.knows(&waiter.query))
            && let Some(waiter) = self.waiting.remove(at)
        {
            if !waiter.sender.is_closed() {
                refused.extend(waiter.sender.send(Line::seat(line)).err());
            }
        }
        refused
    }
}

impl Line {
    /// Adds a place, under the lock.
    fn seat(line: &Arc<Self>) -> Seat {
        line.seats.fetch_add(1, Relaxed);
        line.taken.fetch_add(1, Relaxed);
        Seat { line: line.clone(), place: None, ended: false }
    }

    fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("it goes back when the line is dropped")
    }

    fn knows(&self, query: &Query) -> bool {
        self.lease().prepared(query).is_some()
    }

    /// Whether a further read may come.
    fn is_open(&self) -> bool {
        let pool = self.lease().pool();
        let waits = self.taken.load(Relaxed) >= TURN && pool.somebody_waits_alone();
        !waits && !self.closed.load(Relaxed) && !self.lease().client().is_closed()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        if self.broken.load(Relaxed) {
            lease.discard();
        } else if self.closed.load(Relaxed) {
            stop::begin(lease, false);
        }
    }
}

impl Seat {
    pub(super) fn client(&self) -> &Client {
        self.line.lease().client()
    }

    /// The connection's knowledge of a prepared statement.
    pub(super) fn prepared(&self, query: &Query) -> Option<Arc<Prepared>> {
        self.line.lease().prepared(query)
    }

    /// Counts it as sent; answers whether nothing is before it.
    pub(super) fn send(&mut self) -> bool {
        let place = self.line.sent.fetch_add(1, Relaxed);
        self.place = Some(place);
        self.line.ended.load(Relaxed) == place
    }

    /// Waits until those before it have given no sign for too long.
    pub(super) async fn stuck(&self) {
        let mut ended = self.line.ended.load(Relaxed);
        loop {
            tokio::time::sleep(PATIENCE).await;
            let now = self.line.ended.load(Relaxed);
            // Where all before it have ended, it is this one that takes long.
            if self.place == Some(now) {
                return std::future::pending().await;
            }
            if std::mem::replace(&mut ended, now) == now {
                return;
            }
        }
    }

    /// Ends the use of this place.
    pub(super) fn end(mut self, broken: bool) {
        self.ended = true;
        self.line.ended.fetch_add(1, Relaxed);
        if broken {
            self.line.broken.store(true, Relaxed);
            self.line.closed.store(true, Relaxed);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let line = &self.line;
        if self.place.is_some() && !self.ended {
            line.closed.store(true, Relaxed);
        }
        let mut shared = line.core.lock();
        line.seats.fetch_sub(1, Relaxed);
        let refused = if !shared.waiting.is_empty() && line.is_open() { shared.seat_waiting(line) } else { Vec::new() };
        if line.seats.load(Relaxed) == 0 || line.closed.load(Relaxed) {
            shared.lines.retain(|other| !Arc::ptr_eq(other, line));
        }
        drop(shared);
        drop(refused);
    }
}
