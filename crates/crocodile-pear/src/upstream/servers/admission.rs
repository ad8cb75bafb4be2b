//! The limit of calls in flight (`in_flight`). Calls above the limit wait, for a bounded time. A call whose bytes
//! trickle, in either direction, gives its place to a waiting call: otherwise a few slow clients or answers would
//! hold every place.

use std::sync::atomic::Ordering;

use super::Servers;
use super::concurrency_limit::{Gate, queue};
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::upstream::call::clock::Clock;
use crate::upstream::connect::counters::Event;

/// How a call that trickles goes on.
pub(crate) enum Room {
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
    if let Gate(Some(gate)) = &*servers.gate {
        clock.hesitate();
        let permit = match gate.calls.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                servers.counters.count(Event::Queued);
                // Boxed: few calls queue, and the futures of all others stay small.
                Box::pin(queue(gate, clock, limit)).await
            }
        };
        // Given back with the admission, which cannot borrow it.
        permit.ok_or_else(|| Error::new(Kind::Busy, "too many calls in flight"))?.forget();
    }
    servers.counters.count(Event::Entered);
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
        servers.counters.count(Event::Left);
        if let Gate(Some(gate)) = &*servers.gate {
            let places = if self.aside { &gate.trickling } else { &gate.calls };
            places.add_permits(1);
        }
    }

    /// The call trickles: it makes room if others wait.
    pub(crate) fn step_aside(&mut self, servers: &Servers) -> Room {
        let Gate(Some(gate)) = &*servers.gate else { return Room::Enough };
        if gate.waiting.load(Ordering::Relaxed) == 0 || self.aside {
            return Room::Enough;
        }
        let Ok(place) = gate.trickling.try_acquire() else { return Room::None };
        place.forget();
        self.aside = true;
        gate.calls.add_permits(1);
        Room::Made
    }

    /// Counted only if there are several servers to choose from.
    fn load(&self, servers: &Servers, more: i64) {
        if let [_, _, ..] = &*servers.list {
            servers.list[self.at].figures.load.fetch_add(more, Ordering::Relaxed);
        }
    }
}
