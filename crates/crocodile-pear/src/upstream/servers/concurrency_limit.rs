//! The places of calls in flight, and the queue for them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::config::spec::Timeout;
use crate::upstream::call::clock::Clock;

/// The limit of an upstream's calls in flight, over all cores.
pub(crate) struct InFlightLimit(pub(crate) Option<InFlightPlaces>);

/// The places of calls in flight.
pub(crate) struct InFlightPlaces {
    pub(crate) calls: Semaphore,
    /// The places for calls that trickle, as many again; they make room for calls that wait.
    pub(crate) trickling: Semaphore,
    /// How many calls wait.
    pub(crate) waiting: AtomicUsize,
}

impl InFlightLimit {
    /// At most `most` calls at once; `None` for no limit.
    pub(crate) fn new(most: Option<usize>) -> Self {
        let limit = |calls: usize| {
            let places = || Semaphore::new(calls.min(Semaphore::MAX_PERMITS));
            InFlightPlaces { calls: places(), trickling: places(), waiting: AtomicUsize::new(0) }
        };
        InFlightLimit(most.map(limit))
    }

    /// Whether calls may have to wait for it.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.is_some()
    }
}

/// Counts a call that waits, for as long as it does.
struct WaitingCall<'a>(&'a AtomicUsize);

impl<'a> WaitingCall<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        WaitingCall(count)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for a place, as long as the call may.
pub(crate) async fn queue<'a>(
    in_flight: &'a InFlightPlaces,
    clock: &mut Clock,
    limit: Timeout,
) -> Option<SemaphorePermit<'a>> {
    let since = Instant::now();
    let _waiting = WaitingCall::new(&in_flight.waiting);
    let permit = match clock.within(limit) {
        Timeout::Never => in_flight.calls.acquire().await.ok(),
        Timeout::After(limit) => tokio::time::timeout(limit, in_flight.calls.acquire()).await.ok()?.ok(),
    };
    clock.charge(since.elapsed());
    permit
}
