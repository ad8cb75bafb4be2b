//! A place among the calls in flight: who has none waits for one, within a bound.

use std::sync::atomic::Ordering;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Upstream;
use super::clock::Clock;
use super::counters::Event;
use crate::error::{Error, Kind};
use crate::spec::Timeout;

/// The calls that an upstream may have in flight, over all cores.
pub(super) struct Gate(Option<Semaphore>);

impl Gate {
    /// Lets so many calls through at once; all of them, if none is given.
    pub(super) fn new(most: Option<usize>) -> Self {
        Gate(most.map(|calls| Semaphore::new(calls.min(Semaphore::MAX_PERMITS))))
    }
}

/// A call's place among those in flight, and on its server. Who has it gives it back: it is a part of what holds the
/// upstream already, and every call would pay for holding it twice.
#[must_use]
pub(super) struct Admission {
    /// Which server it loads.
    at: usize,
}

/// Waits for a place.
///
/// # Errors
/// `Busy`, when none became free in time.
pub(super) async fn admit(
    upstream: &Upstream,
    at: usize,
    clock: &mut Clock,
    limit: Timeout,
) -> Result<Admission, Error> {
    if let Gate(Some(gate)) = &upstream.gate {
        let permit = match gate.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                upstream.counters.count(Event::Queued);
                // Boxed: few calls queue, all would carry the room.
                Box::pin(queue(gate, clock, limit)).await
            }
        };
        // Given back with the admission, which borrows nothing.
        permit.ok_or_else(|| Error::new(Kind::Busy, "too many calls in flight"))?.forget();
    }
    upstream.counters.count(Event::Entered);
    let admission = Admission { at };
    admission.load(upstream, 1);
    Ok(admission)
}

impl Admission {
    /// Loads another server instead.
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
            gate.add_permits(1);
        }
    }

    /// Counted only where there is a choice to make by it.
    fn load(&self, upstream: &Upstream, more: i64) {
        if let [_, _, ..] = &*upstream.servers {
            upstream.servers[self.at].load.fetch_add(more, Ordering::Relaxed);
        }
    }
}

async fn queue<'a>(gate: &'a Semaphore, clock: &mut Clock, limit: Timeout) -> Option<SemaphorePermit<'a>> {
    let since = Instant::now();
    let permit = match clock.within(limit) {
        Timeout::Never => gate.acquire().await.ok(),
        Timeout::After(limit) => tokio::time::timeout(limit, gate.acquire()).await.ok()?.ok(),
    };
    clock.charge(since.elapsed());
    permit
}
