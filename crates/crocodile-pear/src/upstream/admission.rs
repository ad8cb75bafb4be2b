//! The limit of calls in flight (`in_flight`): calls above it wait, for a bounded time. One whose bytes trickle, in either
//! direction, makes room for them: a few slow clients or answers would hold every place.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Upstream;
use super::clock::Clock;
use super::counters::Event;
use crate::error::{Error, Kind};
use crate::spec::Timeout;

/// The limit of an upstream's calls in flight, over all cores.
pub(super) struct Gate(Option<Limit>);

struct Limit {
    calls: Semaphore,
    /// As many again may trickle; they make room for those that wait.
    trickling: Semaphore,
    /// How many calls wait.
    waiting: AtomicUsize,
}

impl Gate {
    /// At most `most` calls at once; `None` for no limit.
    pub(super) fn new(most: Option<usize>) -> Self {
        let limit = |calls: usize| {
            let places = || Semaphore::new(calls.min(Semaphore::MAX_PERMITS));
            Limit { calls: places(), trickling: places(), waiting: AtomicUsize::new(0) }
        };
        Gate(most.map(limit))
    }

    /// Whether calls may have to wait for it.
    pub(super) fn is_limited(&self) -> bool {
        self.0.is_some()
    }
}

/// What becomes of a call that trickles.
pub(super) enum Room {
    /// Nobody waits for its place.
    Enough,
    /// It has made room, and goes on.
    Made,
    /// There are too many that trickle.
    None,
}

/// A call counted as in flight, and as load of its server. It has to be given back by hand: its owner holds the
/// upstream already, and a second reference would cost every call.
#[must_use]
pub(super) struct Admission {
    /// The server whose load it counts to.
    at: usize,
    /// Whether it has made room for others.
    aside: bool,
}

/// Waits until the call may be in flight.
///
/// # Errors
/// `Busy`, if the limit is still reached when the time is over.
pub(super) async fn admit(
    upstream: &Upstream,
    at: usize,
    clock: &mut Clock,
    limit: Timeout,
) -> Result<Admission, Error> {
    if let Gate(Some(gate)) = &upstream.gate {
        clock.hesitate();
        let permit = match gate.calls.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                upstream.counters.count(Event::Queued);
                // Boxed: few calls queue, and the futures of all others stay small.
                Box::pin(queue(gate, clock, limit)).await
            }
        };
        // Given back with the admission, which cannot borrow it.
        permit.ok_or_else(|| Error::new(Kind::Busy, "too many calls in flight"))?.forget();
    }
    upstream.counters.count(Event::Entered);
    let admission = Admission { at, aside: false };
    admission.load(upstream, 1);
    Ok(admission)
}

impl Admission {
    /// Counts as load of another server from now on.
    pub(super) fn move_to(&mut self, at: usize, upstream: &Upstream) {
        self.load(upstream, -1);
        self.at = at;
        self.load(upstream, 1);
    }

    /// The call is over.
    pub(super) fn give_back(self, upstream: &Upstream) {
        self.load(upstream, -1);
        upstream.counters.count(Event::Left);
        if let Gate(Some(gate)) = &upstream.gate {
            let places = if self.aside { &gate.trickling } else { &gate.calls };
            places.add_permits(1);
        }
    }

    /// The call trickles: it makes room if others wait.
    pub(super) fn step_aside(&mut self, upstream: &Upstream) -> Room {
        let Gate(Some(gate)) = &upstream.gate else { return Room::Enough };
        if gate.waiting.load(Ordering::Relaxed) == 0 || self.aside {
            return Room::Enough;
        }
        let Ok(place) = gate.trickling.try_acquire() else { return Room::None };
        place.forget();
        self.aside = true;
        gate.calls.add_permits(1);
        Room::Made
    }

    /// Counted only where there are several servers to choose from.
    fn load(&self, upstream: &Upstream, more: i64) {
        if let [_, _, ..] = &*upstream.servers {
            upstream.servers[self.at].load.fetch_add(more, Ordering::Relaxed);
        }
    }
}

/// Counts a call that waits, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn queue<'a>(gate: &'a Limit, clock: &mut Clock, limit: Timeout) -> Option<SemaphorePermit<'a>> {
    let since = Instant::now();
    let _waiting = Waiting::new(&gate.waiting);
    let permit = match clock.within(limit) {
        Timeout::Never => gate.calls.acquire().await.ok(),
        Timeout::After(limit) => tokio::time::timeout(limit, gate.calls.acquire()).await.ok()?.ok(),
    };
    clock.charge(since.elapsed());
    permit
}
