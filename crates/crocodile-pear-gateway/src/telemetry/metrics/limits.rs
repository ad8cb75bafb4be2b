//! Decisions of limits, by the route of the requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;

use super::exposition::{Exposition, label};
use super::requests::template;
use super::slot::{CORE, CORES};

/// Which limit at which route: the layer, the name of the limit, the route.
type LimitLabels = (&'static str, Box<str>, Box<str>);

/// The decisions of one limit, for one route, by core.
pub struct LimitCounters(Box<[Decisions]>);

/// Each core has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Decisions {
    allowed: AtomicU64,
    refused: AtomicU64,
    missing: AtomicU64,
    charged: AtomicU64,
    beyond: AtomicU64,
}

impl Default for LimitCounters {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(CORES);
        LimitCounters((0..cores).map(|_| Decisions::default()).collect())
    }
}

impl LimitCounters {
    /// The request may go on.
    pub fn allow(&self) {
        self.own().allowed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was refused.
    pub fn refuse(&self) {
        self.own().refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The limit does not apply to it, because its key is null.
    pub fn skip(&self) {
        self.own().missing.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a cost of so many units, of which these were beyond the limit.
    pub fn charge(&self, units: u64, beyond: u64) {
        self.own().charged.fetch_add(units, Ordering::Relaxed);
        self.own().beyond.fetch_add(beyond, Ordering::Relaxed);
    }

    fn own(&self) -> &Decisions {
        &self.0[CORE.get() % self.0.len()]
    }

    fn sum(&self, read: fn(&Decisions) -> &AtomicU64) -> u64 {
        self.0.iter().map(|own| read(own).load(Ordering::Relaxed)).sum()
    }

    fn results(&self) -> [(&'static str, u64); 3] {
        [
            ("allowed", self.sum(|own| &own.allowed)),
            ("refused", self.sum(|own| &own.refused)),
            ("missing", self.sum(|own| &own.missing)),
        ]
    }
}

/// The counters of all limits and routes. Each user keeps its own counters at hand, so that counting needs no search.
#[derive(Default)]
pub(super) struct LimitRegistry(Mutex<IndexMap<LimitLabels, Arc<LimitCounters>>>);

impl LimitRegistry {
    /// The counters of a limit of a layer for the requests of a route; `None` for those that no endpoint serves. A reload continues them.
    pub(super) fn of(&self, layer: &'static str, name: &str, route: Option<&str>) -> Arc<LimitCounters> {
        let place = (layer, name.into(), route.map(template).unwrap_or_default().into());
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that no configuration has any more.
        limits.retain(|_, counters| Arc::strong_count(counters) > 1);
        limits.entry(place).or_default().clone()
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "Requests that reached a limit, by result; `missing`: without the limit, because its `by` is null.";
        let mut family = out.counter("crocodile_pear_limit_requests_total", help);
        for ((layer, name, route), counters) in limits.iter() {
            let (name, route) = (label(name), label(route));
            for (result, count) in counters.results() {
                let labels =
                    format_args!("http_route=\"{route}\",layer=\"{layer}\",limit=\"{name}\",result=\"{result}\"");
                family.add(labels, count);
            }
        }
        let help = "Units that requests cost at limits with a `cost`.";
        costs(&limits, help, "crocodile_pear_limit_cost_total", |own| &own.charged, out);
        let help = "Units of these beyond the limit: answers that cost more than what was left.";
        costs(&limits, help, "crocodile_pear_limit_overshoot_total", |own| &own.beyond, out);
    }
}

fn costs(
    limits: &IndexMap<LimitLabels, Arc<LimitCounters>>,
    help: &str,
    name: &str,
    read: fn(&Decisions) -> &AtomicU64,
    out: &mut Exposition,
) {
    let mut family = out.counter(name, help);
    for ((layer, name, route), counters) in limits.iter() {
        let (name, route) = (label(name), label(route));
        if counters.sum(|own| &own.charged) > 0 {
            let labels = format_args!("http_route=\"{route}\",layer=\"{layer}\",limit=\"{name}\"");
            family.add(labels, counters.sum(read));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::*;

    #[test]
    fn a_reload_counts_on_and_a_limit_that_is_gone_is_forgotten() {
        let limits = LimitRegistry::default();
        let kept = limits.of("rate_limit", "default", Some("GET /kept"));
        kept.refuse();
        drop(limits.of("in_flight", "default", Some("GET /gone")));
        let again = limits.of("rate_limit", "default", Some("POST /kept"));
        again.allow();
        assert_eq!(kept.results(), [("allowed", 1), ("refused", 1), ("missing", 0)]);
        assert_eq!(limits.0.lock().expect("whole").len(), 1);
    }
}
