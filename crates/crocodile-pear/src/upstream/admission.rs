//! A place among the calls in flight: who has none waits for one, within a bound.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::clock::Clock;
use super::{Limit, Upstream};
use crate::error::{Error, Kind};

/// The calls that an upstream may have in flight, over all cores.
pub(super) struct Gate(Option<Semaphore>);

impl Gate {
    /// Lets so many calls through at once; all of them, if none is given.
    pub(super) fn new(most: Option<usize>) -> Self {
        Gate(most.map(|calls| Semaphore::new(calls.min(Semaphore::MAX_PERMITS))))
    }
}

/// A call's place among those in flight, given back when the answer is whole or given up.
pub(super) struct Admission {
    upstream: Arc<Upstream>,
    /// Which endpoint it loads.
    at: usize,
}

/// Waits for a place.
///
/// # Errors
/// `Busy`, when none became free in time.
pub(super) async fn admit(
    upstream: &Arc<Upstream>,
    at: usize,
    clock: &mut Clock,
    limit: Limit,
) -> Result<Admission, Error> {
    if let Gate(Some(gate)) = &upstream.gate {
        let permit = match gate.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                upstream.counters.count(|counters| &counters.queued);
                queue(gate, clock, limit).await
            }
        };
        // Given back by `Admission`, which borrows nothing.
        permit.ok_or_else(|| Error::new(Kind::Busy, "too many calls in flight"))?.forget();
    }
    upstream.counters.count(|counters| &counters.in_flight);
    let admission = Admission { upstream: upstream.clone(), at };
    admission.load(1);
    Ok(admission)
}

impl Admission {
    /// Loads another endpoint instead.
    pub(super) fn move_to(&mut self, at: usize) {
        self.load(-1);
        self.at = at;
        self.load(1);
    }

    /// Counted only where there is a choice to make by it.
    fn load(&self, more: i64) {
        if let [_, _, ..] = &*self.upstream.endpoints {
            self.upstream.endpoints[self.at].load.fetch_add(more, Ordering::Relaxed);
        }
    }
}

async fn queue<'a>(gate: &'a Semaphore, clock: &mut Clock, limit: Limit) -> Option<SemaphorePermit<'a>> {
    let since = Instant::now();
    let permit = match clock.within(limit) {
        Limit::Never => gate.acquire().await.ok(),
        // Boxed: few calls queue, all would carry the room.
        Limit::After(limit) => Box::pin(tokio::time::timeout(limit, gate.acquire())).await.ok()?.ok(),
    };
    clock.charge(since.elapsed());
    permit
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.load(-1);
        self.upstream.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Gate(Some(gate)) = &self.upstream.gate {
            gate.add_permits(1);
        }
    }
}
