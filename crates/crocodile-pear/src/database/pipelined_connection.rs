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

use super::pool::{DatabaseLease, DatabasePool, SlowOpening, Spare};
use super::query::{PreparedStatement, Query};
use super::stop;
use crate::error::Error;
use crate::runtime::per_thread::PerThread;
use crate::runtime::thread_id;

/// So many reads share a connection, also while others are free: to wake one more process of the server costs more than to wait for
/// these. Measured with 10, 64 and 1,000 clients: more is no faster.
const SEATS: usize = 16;

/// If a statement waits that cannot share, a connection is given back after this number of reads.
const TURN: usize = SEATS;

/// How long the reads before may give no answer, until a read runs on another connection.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct SharedConnections(PerThread<Arc<Core>>);

/// Locked by its own core only, where each core has a thread.
#[derive(Default)]
struct Core(Mutex<CoreLines>);

#[derive(Default)]
struct CoreLines {
    connections: Vec<Arc<SharedConnection>>,
    /// Reads that find no room. They wait for a connection too, and take what comes first.
    waiting: VecDeque<SeatWaiter>,
}

struct SeatWaiter {
    query: Arc<Query>,
    sender: oneshot::Sender<Seat>,
}

/// A connection that is shared. It goes back when the last read has left it.
struct SharedConnection {
    /// The lease of the connection; `None` once it went back.
    lease: Option<DatabaseLease>,
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
    connection: Arc<SharedConnection>,
    /// How many were sent before, once it is sent.
    place: Option<usize>,
    ended: bool,
}

/// Where a read runs.
pub(super) enum ReadPlace {
    Alone(DatabaseLease),
    Shared(Seat),
}

impl SharedConnections {
    /// A place for a read: on a shared connection, on a free one, or whichever comes first.
    ///
    /// # Errors
    /// The errors of a lease.
    pub(super) async fn place(&self, pool: &Arc<DatabasePool>, query: &Arc<Query>) -> Result<ReadPlace, Error> {
        let core = self.0.own();
        if query.is_long() {
            return pool.lease().await.map(ReadPlace::Alone);
        }
        if let Some(seat) = core.join(query, pool) {
            return Ok(ReadPlace::Shared(seat));
        }
        let opening = match pool.spare().await? {
            Spare::Lease(lease) => return Ok(ReadPlace::Alone(lease)),
            Spare::Opening(opening) => Some(opening),
            Spare::None => None,
        };
        // Boxed: few wait, and all would carry the room.
        Box::pin(core.wait(pool, query, opening)).await
    }

    /// Shares a connection on which a read is about to run.
    pub(super) fn open(&self, lease: DatabaseLease) -> ReadPlace {
        let index = thread_id::index();
        if !lease.is_of(index) {
            // It is needed elsewhere.
            return ReadPlace::Alone(lease);
        }
        let core = self.0.own();
        let connection = Arc::new(SharedConnection {
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
        let seat = SharedConnection::seat(&connection);
        shared.connections.push(connection.clone());
        let refused = shared.seat_waiting(&connection);
        drop(shared);
        drop(refused);
        ReadPlace::Shared(seat)
    }
}

impl Core {
    fn join(&self, query: &Query, pool: &DatabasePool) -> Option<Seat> {
        // First come, first served.
        if pool.somebody_waits_alone() {
            return None;
        }
        let shared = self.lock();
        let usable = |connection: &&Arc<SharedConnection>| {
            connection.seats.load(Relaxed) < SEATS && connection.knows(query) && connection.is_open()
        };
        let connection =
            shared.connections.iter().filter(usable).min_by_key(|connection| connection.seats.load(Relaxed))?;
        Some(SharedConnection::seat(connection))
    }

    async fn wait(
        &self,
        pool: &Arc<DatabasePool>,
        query: &Arc<Query>,
        opening: Option<SlowOpening>,
    ) -> Result<ReadPlace, Error> {
        let (known, receiver) = self.lock().enqueue(query);
        tokio::select! {
            biased;
            Ok(seat) = receiver => Ok(ReadPlace::Shared(seat)),
            lease = pool.lease_for_read(known, opening) => lease.map(ReadPlace::Alone),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CoreLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CoreLines {
    /// Whether a connection knows the statement, and what comes if there is a place on one.
    fn enqueue(&mut self, query: &Arc<Query>) -> (bool, oneshot::Receiver<Seat>) {
        let known = self.connections.iter().any(|connection| connection.knows(query));
        let (sender, receiver) = oneshot::channel();
        let left = |waiter: &SeatWaiter| waiter.sender.is_closed();
        while self.waiting.front().is_some_and(left) {
            self.waiting.pop_front();
        }
        // Before it grows: waiting reads are bounded, those that have left are not.
        if self.waiting.len() == self.waiting.capacity() {
            self.waiting.retain(|waiter| !left(waiter));
        }
        self.waiting.push_back(SeatWaiter { query: query.clone(), sender });
        (known, receiver)
    }

    /// Gives the free places of a connection to waiting reads. Returns those that were not taken; they are dropped outside
    /// the lock.
    #[must_use]
    fn seat_waiting(&mut self, connection: &Arc<SharedConnection>) -> Vec<Seat> {
        let mut refused = Vec::new();
        while connection.seats.load(Relaxed) < SEATS
            && let Some(at) = self.waiting.iter().take(SEATS).position(|waiter| connection.knows(&waiter.query))
            && let Some(waiter) = self.waiting.remove(at)
        {
            if !waiter.sender.is_closed() {
                refused.extend(waiter.sender.send(SharedConnection::seat(connection)).err());
            }
        }
        refused
    }
}

impl SharedConnection {
    /// Adds a place, under the lock.
    fn seat(connection: &Arc<Self>) -> Seat {
        connection.seats.fetch_add(1, Relaxed);
        connection.taken.fetch_add(1, Relaxed);
        Seat { connection: connection.clone(), place: None, ended: false }
    }

    fn lease(&self) -> &DatabaseLease {
        self.lease.as_ref().expect("it goes back when the connection is dropped")
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

impl Drop for SharedConnection {
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
        self.connection.lease().client()
    }

    /// The connection's knowledge of a prepared statement.
    pub(super) fn prepared(&self, query: &Query) -> Option<Arc<PreparedStatement>> {
        self.connection.lease().prepared(query)
    }

    /// Counts it as sent; answers whether nothing is before it.
    pub(super) fn send(&mut self) -> bool {
        let place = self.connection.sent.fetch_add(1, Relaxed);
        self.place = Some(place);
        self.connection.ended.load(Relaxed) == place
    }

    /// Waits until those before it have given no sign for too long.
    pub(super) async fn stuck(&self) {
        let mut ended = self.connection.ended.load(Relaxed);
        loop {
            tokio::time::sleep(PATIENCE).await;
            let now = self.connection.ended.load(Relaxed);
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
        self.connection.ended.fetch_add(1, Relaxed);
        if broken {
            self.connection.broken.store(true, Relaxed);
            self.connection.closed.store(true, Relaxed);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let connection = &self.connection;
        if self.place.is_some() && !self.ended {
            connection.closed.store(true, Relaxed);
        }
        let mut shared = connection.core.lock();
        connection.seats.fetch_sub(1, Relaxed);
        let refused = if !shared.waiting.is_empty() && connection.is_open() {
            shared.seat_waiting(connection)
        } else {
            Vec::new()
        };
        if connection.seats.load(Relaxed) == 0 || connection.closed.load(Relaxed) {
            shared.connections.retain(|other| !Arc::ptr_eq(other, connection));
        }
        drop(shared);
        drop(refused);
    }
}
