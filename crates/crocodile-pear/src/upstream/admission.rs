//! The limit of calls in flight (`in_flight`): calls above it wait, for a bounded time.

use std::sync::atomic::Ordering;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Upstream;
use super::clock::Clock;
use super::counters::Event;
use crate::error::{Error, Kind};
use crate::spec::Timeout;

/// The limit of an upstream's calls in flight, over all cores.
pub(super) struct Gate(Option<Semaphore>);

impl Gate {
    /// At most `most` calls at once; `None` for no limit.
    pub(super) fn new(most: Option<usize>) -> Self {
        Gate(most.map(|calls| Semaphore::new(calls.min(Semaphore::MAX_PERMITS))))
    }
}

/// A call counted as in flight, and as load of its server. It has to be given back by hand: its owner holds the
/// upstream already, and a second reference would cost every call.
#[must_use]
pub(super) struct Admission {
    /// The server whose load it counts to.
    at: usize,
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
        let permit = match gate.try_acquire() {
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
    let admission = Admission { at };
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
            gate.add_permits(1);
        }
    }

    /// Counted only where there are several servers to choose from.
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
