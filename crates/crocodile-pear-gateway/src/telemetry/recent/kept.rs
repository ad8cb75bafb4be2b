//! The requests of one core that are kept: the latest, and the slowest and the latest failed of each route.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::served::{RouteNumber, ServedRequest};
use crate::telemetry::request_end::RequestEnd;

/// The slowest are those of this time.
pub const SPAN: Duration = Duration::from_secs(3_600);

/// The latest requests that are kept of a core, however small they are.
const LATEST: usize = 512;

/// The number of latest requests that a core keeps of a tenth of a second: further ones would be
/// overwritten before anybody has seen them, and would push other data out of the core's caches.
const OFTEN: u32 = 16;

/// The number of slow and of failed requests that are kept per route.
const EACH: usize = 4;

/// The memory of the latest, and of the others, on each core.
const BYTES: usize = 1 << 20;

#[derive(Default)]
pub struct KeptRequests {
    latest: Ring,
    routes: Vec<OfRoute>,
    /// The bytes of all that routes keep.
    bytes: usize,
    /// The route that makes room next.
    hand: usize,
    /// The tenth of a second in which so many were kept.
    lately: (u64, u32),
}

/// Requests, the latest at the end.
#[derive(Default)]
struct Ring {
    all: VecDeque<(usize, Arc<ServedRequest>)>,
    bytes: usize,
}

/// The kept requests of a route.
#[derive(Default)]
struct OfRoute {
    slowest: Vec<(usize, Arc<ServedRequest>)>,
    failed: VecDeque<(usize, Arc<ServedRequest>)>,
    /// Faster ones are not kept before `until`.
    floor: Duration,
    until: Duration,
}

impl KeptRequests {
    /// Whether a request is kept.
    pub fn wants(&mut self, at: Duration, route: RouteNumber, ended: &RequestEnd<'_>) -> bool {
        let tenth = at.as_secs() * 10 + u64::from(at.subsec_millis() / 100);
        if self.lately.0 != tenth {
            self.lately = (tenth, 0);
        }
        self.lately.1 += 1;
        let of = self.routes.get(route.index());
        self.lately.1 <= OFTEN || ended.failed() || of.is_none_or(|of| of.is_slow(at, ended.total))
    }

    /// Keeps a request as the latest; and as one of the slowest or failed ones of its route, if it is.
    pub fn add(&mut self, served: Arc<ServedRequest>) {
        let size = served.size();
        let index = served.route.index();
        if self.routes.len() <= index {
            self.routes.resize_with(index + 1, OfRoute::default);
        }
        let route = &mut self.routes[index];
        let before = route.bytes_changed(size, &served);
        if let Some((added, removed)) = before {
            self.bytes = (self.bytes + added).saturating_sub(removed);
            self.make_room(index);
        }
        self.latest.push(size, served);
    }

    /// Where routes keep too much, those whose turn it is keep less.
    fn make_room(&mut self, but: usize) {
        let mut tried = 0;
        while self.bytes > BYTES && tried <= self.routes.len() {
            self.hand = (self.hand + 1) % self.routes.len();
            let alone = tried == self.routes.len();
            if self.hand != but || alone {
                self.bytes = self.bytes.saturating_sub(self.routes[self.hand].drop_one());
            }
            tried += 1;
        }
    }

    /// The memory that it takes, about. What is one of the latest and slow or failed too counts twice.
    pub fn weight(&self) -> usize {
        self.bytes + self.latest.bytes
    }

    /// The latest.
    pub fn recent(&self, route: Option<RouteNumber>, most: usize, found: &mut Vec<Arc<ServedRequest>>) {
        let wanted = self.latest.all.iter().rev().map(|(_, served)| served);
        let wanted = wanted.filter(|served| route.is_none_or(|route| served.route == route));
        found.extend(wanted.take(most).cloned());
    }

    /// The slowest since then.
    pub fn slowest(&self, route: Option<RouteNumber>, since: Duration, found: &mut Vec<Arc<ServedRequest>>) {
        let late = |served: &&Arc<ServedRequest>| served.at >= since;
        found.extend(self.of(route).flat_map(|of| &of.slowest).map(|(_, served)| served).filter(late).cloned());
    }

    /// The latest failed ones.
    pub fn failed(&self, route: Option<RouteNumber>, found: &mut Vec<Arc<ServedRequest>>) {
        found.extend(self.of(route).flat_map(|of| &of.failed).map(|(_, served)| served.clone()));
    }

    fn of(&self, route: Option<RouteNumber>) -> impl Iterator<Item = &OfRoute> {
        let one = route.map(RouteNumber::index);
        let numbered = self.routes.iter().enumerate();
        numbered.filter(move |(index, _)| one.is_none_or(|one| one == *index)).map(|(_, of)| of)
    }

    pub fn find(&self, id: &str) -> Option<Arc<ServedRequest>> {
        let slow = self.routes.iter().flat_map(|of| of.slowest.iter().chain(&of.failed));
        let all = self.latest.all.iter().rev().chain(slow);
        all.map(|(_, served)| served).find(|served| *served.id == *id).cloned()
    }
}

impl Ring {
    fn push(&mut self, size: usize, served: Arc<ServedRequest>) {
        self.bytes += size;
        self.all.push_back((size, served));
        while self.all.len() > LATEST || self.bytes > BYTES {
            let Some((size, _)) = self.all.pop_front() else { return };
            self.bytes -= size;
        }
    }
}

impl OfRoute {
    /// Keeps a request if it is slow or failed; the bytes that came and went.
    fn bytes_changed(&mut self, size: usize, served: &Arc<ServedRequest>) -> Option<(usize, usize)> {
        let (mut added, mut removed) = (0, 0);
        if served.failed {
            self.failed.push_back((size, served.clone()));
            added += size;
            if self.failed.len() > EACH {
                removed += self.failed.pop_front().map_or(0, |(size, _)| size);
            }
        }
        if self.is_slow(served.at, served.total) {
            added += size;
            removed += self.insert(size, served);
        }
        (added > 0).then_some((added, removed))
    }

    /// Whether a request is one of the slowest.
    fn is_slow(&self, at: Duration, total: Duration) -> bool {
        total > self.floor || at > self.until
    }

    /// Keeps one of the slowest; the bytes of those that are old or fast by now.
    fn insert(&mut self, size: usize, served: &Arc<ServedRequest>) -> usize {
        let since = served.at.saturating_sub(SPAN);
        let mut removed = 0;
        self.slowest.retain(|(size, kept)| {
            removed += if kept.at >= since { 0 } else { *size };
            kept.at >= since
        });
        self.slowest.push((size, served.clone()));
        self.slowest.sort_by_key(|(_, kept)| std::cmp::Reverse(kept.total));
        if self.slowest.len() > EACH {
            removed += self.slowest.pop().map_or(0, |(size, _)| size);
        }
        if self.slowest.len() == EACH {
            self.floor = self.slowest.last().map(|(_, kept)| kept.total).unwrap_or_default();
            let oldest = self.slowest.iter().map(|(_, kept)| kept.at).min().unwrap_or_default();
            self.until = oldest + SPAN;
        }
        removed
    }

    /// Drops the oldest failed one or the fastest of the slow ones, whichever there are more of; its bytes.
    fn drop_one(&mut self) -> usize {
        let dropped = match self.failed.len() >= self.slowest.len() {
            true => self.failed.pop_front(),
            false => self.slowest.pop(),
        };
        dropped.map_or(0, |(size, _)| size)
    }
}
