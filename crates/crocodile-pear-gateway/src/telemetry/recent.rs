//! Recent requests and figures for the operators' page: requests that are kept to be looked at, and figures by the second and by the route.
//!
//! Each core has its own part, behind a lock that only a reader takes too. Once a second a core adds its figures to those of all.

mod hour;
mod kept;
mod latency;
mod served;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::runtime::thread_id::{self, THREADS};
use indexmap::IndexSet;

use crate::telemetry::request_end::RequestEnd;

use hour::Hour;
pub use hour::Second;
use kept::KeptRequests;
pub use served::{RouteNumber, ServedRequest, UNSERVED};

/// Failures whose reasons are kept.
const FAILURES: usize = 128;

/// Seconds of a slot: what is told of a route is of its last slots, of which the latest is not over.
const SLOT: u64 = 10;
const SLOTS: usize = 6;

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct FailedRequest {
    /// When, since the gateway began.
    pub at: Duration,
    /// The request's id.
    pub id: Box<str>,
    pub route: Option<Arc<str>>,
    /// The reason, as in the log.
    pub error: Error,
}

/// The part of a core.
#[derive(Default)]
struct HistoryShard {
    /// The second, and the slot of ten, that its figures are of.
    second: u64,
    slot: u64,
    now: Second,
    routes: Vec<Second>,
    /// Routes that have figures of this slot.
    touched: Vec<RouteNumber>,
    kept: KeptRequests,
}

#[derive(Clone, Default)]
pub struct RouteFigures {
    /// Requests since the gateway began.
    pub all: u64,
    /// The number of requests that failed.
    pub all_failed: u64,
    /// The last minute.
    pub minute: Second,
}

#[derive(Default)]
struct RouteTotals {
    all: u64,
    all_failed: u64,
    slots: VecDeque<(u64, Second)>,
}

/// Recent requests and figures.
pub struct History {
    began: tokio::time::Instant,
    wall: SystemTime,
    shards: Box<[Mutex<HistoryShard>]>,
    names: Mutex<IndexSet<Arc<str>>>,
    totals: Mutex<Vec<RouteTotals>>,
    hour: Mutex<Hour>,
    failures: Mutex<VecDeque<FailedRequest>>,
    failed: AtomicU64,
}

impl Default for History {
    fn default() -> Self {
        History {
            began: tokio::time::Instant::now(),
            wall: SystemTime::now(),
            shards: (0..THREADS).map(|_| Mutex::default()).collect(),
            names: Mutex::new(IndexSet::from(["".into()])),
            totals: Mutex::default(),
            hour: Mutex::default(),
            failures: Mutex::default(),
            failed: AtomicU64::new(0),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl History {
    /// The number of a route, which it keeps over reloads.
    pub fn route(&self, name: Option<&Arc<str>>) -> RouteNumber {
        let Some(name) = name else { return UNSERVED };
        let (index, _) = lock(&self.names).insert_full(name.clone());
        RouteNumber(u32::try_from(index).unwrap_or_default())
    }

    /// The name of a route; empty where no endpoint served.
    pub fn name(&self, route: RouteNumber) -> Arc<str> {
        lock(&self.names).get_index(route.index()).cloned().unwrap_or_else(|| "".into())
    }

    /// Time since the gateway began.
    fn at(&self, moment: tokio::time::Instant) -> Duration {
        moment.saturating_duration_since(self.began)
    }

    /// Time since the gateway began.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// When the gateway began.
    pub fn began(&self) -> SystemTime {
        self.wall
    }

    /// Notes a request, for the core that this thread is. What is kept of it is made only if it is kept: failed and slow ones
    /// are, of the others no more than anybody can look at.
    pub fn add(&self, route: RouteNumber, ended: &RequestEnd<'_>) {
        let at = self.at(ended.scope.timeline().began() + ended.total);
        let mut shard = lock(&self.shards[thread_id::index()]);
        if at.as_secs() != shard.second {
            self.flush(&mut shard, at.as_secs());
        }
        shard.count(route, ended);
        if shard.kept.wants(at, route, ended) {
            shard.kept.add(Arc::new(ServedRequest::new(ended, at, route)));
        }
    }

    /// Notes why a request failed.
    pub fn explain(&self, failure: FailedRequest) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = lock(&self.failures);
        failures.truncate(FAILURES - 1);
        failures.push_front(failure);
    }

    /// The latest failures, latest first.
    pub fn failures(&self) -> Vec<FailedRequest> {
        lock(&self.failures).iter().cloned().collect()
    }

    /// Adds the figures of a core to those of all, and begins another second.
    fn flush(&self, shard: &mut HistoryShard, second: u64) {
        if shard.now.requests > 0 {
            lock(&self.hour).add(shard.second, &shard.now);
            shard.now.clear();
        }
        shard.second = second;
        let slot = second / SLOT;
        if slot == shard.slot {
            return;
        }
        let mut totals = lock(&self.totals);
        for route in std::mem::take(&mut shard.touched) {
            let figures = &mut shard.routes[route.index()];
            if totals.len() <= route.index() {
                totals.resize_with(route.index() + 1, RouteTotals::default);
            }
            totals[route.index()].add(shard.slot, figures);
            figures.clear();
        }
        shard.slot = slot;
    }

    /// Takes in what cores have that serve nothing now.
    fn settle(&self) {
        let second = self.now().as_secs();
        for shard in &self.shards {
            let mut shard = lock(shard);
            if shard.second < second {
                self.flush(&mut shard, second);
            }
        }
    }

    /// The figures of the last `seconds` whole seconds, oldest first, `step` seconds together.
    pub fn seconds(&self, seconds: u64, step: u64) -> Vec<Second> {
        self.settle();
        let now = self.now().as_secs();
        lock(&self.hour).sum(now, seconds, step)
    }

    /// The figures of all routes that were asked for: by number.
    pub fn routes(&self) -> Vec<(RouteNumber, RouteFigures)> {
        self.settle();
        let slot = self.now().as_secs() / SLOT;
        let mut figures: Vec<RouteFigures> = lock(&self.totals).iter().map(|totals| totals.figures(slot)).collect();
        for shard in &self.shards {
            let shard = lock(shard);
            for route in &shard.touched {
                let fresh = &shard.routes[route.index()];
                if figures.len() <= route.index() {
                    figures.resize_with(route.index() + 1, RouteFigures::default);
                }
                let figures = &mut figures[route.index()];
                figures.minute.add(fresh);
                figures.all += fresh.requests;
                figures.all_failed += fresh.failed;
            }
        }
        let numbered = figures.into_iter().enumerate().filter(|(_, figures)| figures.all > 0);
        numbered.map(|(index, figures)| (RouteNumber(u32::try_from(index).unwrap_or_default()), figures)).collect()
    }

    /// The latest requests, latest first.
    pub fn recent(&self, route: Option<RouteNumber>, most: usize) -> Vec<Arc<ServedRequest>> {
        self.collect(|kept, found| kept.recent(route, most, found), |one| std::cmp::Reverse(one.at), most)
    }

    /// The slowest of the last hour, slowest first.
    pub fn slowest(&self, route: Option<RouteNumber>, most: usize) -> Vec<Arc<ServedRequest>> {
        let since = self.now().saturating_sub(kept::SPAN);
        let slowest = |kept: &KeptRequests, found: &mut Vec<_>| kept.slowest(route, since, found);
        self.collect(slowest, |one| std::cmp::Reverse(one.total), most)
    }

    /// The latest that failed, latest first.
    pub fn failed(&self, route: Option<RouteNumber>, most: usize) -> Vec<Arc<ServedRequest>> {
        self.collect(|kept, found| kept.failed(route, found), |one| std::cmp::Reverse(one.at), most)
    }

    /// The request with this id, if it is still kept.
    pub fn find(&self, id: &str) -> Option<Arc<ServedRequest>> {
        self.shards.iter().find_map(|shard| lock(shard).kept.find(id))
    }

    /// The memory that it takes, about.
    pub fn weight(&self) -> usize {
        let shard = |shard: &HistoryShard| shard.kept.weight() + shard.routes.len() * Second::WEIGHT;
        let shards: usize = self.shards.iter().map(|one| shard(&lock(one))).sum();
        let slots: usize = lock(&self.totals).iter().map(|totals| totals.slots.len()).sum();
        shards + slots * Second::WEIGHT + lock(&self.hour).weight()
    }

    fn collect<K: Ord>(
        &self,
        read: impl Fn(&KeptRequests, &mut Vec<Arc<ServedRequest>>),
        key: impl Fn(&ServedRequest) -> K,
        most: usize,
    ) -> Vec<Arc<ServedRequest>> {
        let mut found = Vec::new();
        self.shards.iter().for_each(|shard| read(&lock(shard).kept, &mut found));
        found.sort_by_key(|one| key(one));
        found.truncate(most);
        found
    }
}

impl HistoryShard {
    fn count(&mut self, route: RouteNumber, ended: &RequestEnd<'_>) {
        let (total, failed) = (ended.total, ended.failed());
        self.now.count(total, failed);
        let index = route.index();
        if self.routes.len() <= index {
            self.routes.resize_with(index + 1, Second::default);
        }
        let figures = &mut self.routes[index];
        if figures.requests == 0 {
            self.touched.push(route);
        }
        figures.count(total, failed);
    }
}

impl RouteTotals {
    fn add(&mut self, slot: u64, figures: &Second) {
        self.all += figures.requests;
        self.all_failed += figures.failed;
        match self.slots.back_mut() {
            Some((last, sum)) if *last == slot => sum.add(figures),
            _ => self.slots.push_back((slot, figures.clone())),
        }
        while self.slots.len() > SLOTS {
            self.slots.pop_front();
        }
    }

    /// The whole slots of the last minute; what cores have of the current one comes to that.
    fn figures(&self, slot: u64) -> RouteFigures {
        let mut minute = Second::default();
        let late = self.slots.iter().filter(|(at, _)| *at + SLOTS as u64 > slot);
        late.for_each(|(_, figures)| minute.add(figures));
        RouteFigures { all: self.all, all_failed: self.all_failed, minute }
    }
}
