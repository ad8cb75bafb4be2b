//! The limit of calls in flight (`in_flight`). Calls above the limit wait, for a bounded time. A call whose bytes
//! trickle, in either direction, gives its place to a waiting call: otherwise a few slow clients or answers would
//! hold every place.

use std::sync::atomic::Ordering;

use super::Servers;
use super::concurrency_limit::{InFlightLimit, queue};
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::upstream::call::clock::Clock;
use crate::upstream::connect::counters::ConnectionEvent;

/// How a call that trickles goes on.
pub(crate) enum TrickleAdmission {
    /// No call waits for its place.
    Enough,
    /// The call has given its place to another call, and continues.
    Made,
    /// Too many calls trickle: this one must end.
    None,
}

/// A call that counts as in flight, and as load of its server. Its owner must give it back explicitly: the owner
/// already holds the upstream, and a second reference would cost every call.
#[must_use]
pub(crate) struct Admission {
    /// The server to whose load it counts.
    at: usize,
    /// Whether it has given its place to another call.
    aside: bool,
}

/// Waits until the call may be in flight.
///
/// # Errors
/// `Busy`, if the limit is still reached when the time is over.
pub(crate) async fn admit(servers: &Servers, at: usize, clock: &mut Clock, limit: Timeout) -> Result<Admission, Error> {
    if let InFlightLimit(Some(in_flight)) = &*servers.in_flight {
        clock.hesitate();
        let permit = match in_flight.calls.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                servers.counters.count(ConnectionEvent::Queued);
                // Boxed: few calls queue, and the futures of all others stay small.
                Box::pin(queue(in_flight, clock, limit)).await
            }
        };
        // Given back with the admission, which cannot borrow it.
        permit.ok_or_else(|| Error::new(Kind::Busy, "too many calls in flight"))?.forget();
    }
    servers.counters.count(ConnectionEvent::Entered);
    let admission = Admission { at, aside: false };
    admission.load(servers, 1);
    Ok(admission)
}

impl Admission {
    /// Counts as load of another server from now on.
    pub(crate) fn move_to(&mut self, at: usize, servers: &Servers) {
        self.load(servers, -1);
        self.at = at;
        self.load(servers, 1);
    }

    /// The call is over.
    pub(crate) fn give_back(self, servers: &Servers) {
        self.load(servers, -1);
        servers.counters.count(ConnectionEvent::Left);
        if let InFlightLimit(Some(in_flight)) = &*servers.in_flight {
            let places = if self.aside { &in_flight.trickling } else { &in_flight.calls };
            places.add_permits(1);
        }
    }

    /// The call trickles: it makes room if others wait.
    pub(crate) fn step_aside(&mut self, servers: &Servers) -> TrickleAdmission {
        let InFlightLimit(Some(in_flight)) = &*servers.in_flight else { return TrickleAdmission::Enough };
        if in_flight.waiting.load(Ordering::Relaxed) == 0 || self.aside {
            return TrickleAdmission::Enough;
        }
        let Ok(place) = in_flight.trickling.try_acquire() else { return TrickleAdmission::None };
        place.forget();
        self.aside = true;
        in_flight.calls.add_permits(1);
        TrickleAdmission::Made
    }

    /// Counted only if there are several servers to choose from.
    fn load(&self, servers: &Servers, more: i64) {
        if let [_, _, ..] = &*servers.list {
            servers.list[self.at].figures.load.fetch_add(more, Ordering::Relaxed);
        }
    }
}
