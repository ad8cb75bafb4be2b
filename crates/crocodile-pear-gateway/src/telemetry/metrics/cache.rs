//! Contents of the caches, as metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crocodile_pear::unstable::cache::{CacheCounters, CacheOwner, OUTCOMES, Store};

use super::exposition::{Exposition, label};

/// The counts of the second tier of caches.
#[derive(Default)]
pub struct SharedCounters {
    /// Lookups that found an answer.
    pub hits: AtomicU64,
    /// Lookups that found none.
    pub misses: AtomicU64,
    /// Lookups that were not answered in time, or at all.
    pub failures: AtomicU64,
    /// Answers that were stored.
    pub stored: AtomicU64,
    /// Answers that were not: there was too much to do, or the store was away.
    pub dropped: AtomicU64,
}

/// Writes the metrics of the caches and of their store.
pub fn render(store: &Store, out: &mut Exposition) {
    let (counters, caches) = (store.counters(), store.traffics().all());
    for (name, help, place) in TRAFFIC {
        let mut family = out.counter(name, help);
        for (labels, traffic) in caches.iter().filter_map(|(here, traffic)| Some((place(here)?, traffic))) {
            for (result, count) in OUTCOMES.iter().zip(traffic.sums()) {
                family.add(format_args!("{labels},result=\"{result}\""), count);
            }
        }
    }
    for (name, kind, help, read) in CACHE {
        let mut family = if kind == "gauge" { out.gauge(name, help) } else { out.counter(name, help) };
        family.only(read(&counters));
    }
}

/// Writes the metrics of what caches of several gateways share.
pub fn render_shared(counters: &SharedCounters, out: &mut Exposition) {
    for (name, help, read) in SHARED {
        let count = read(counters).load(Ordering::Relaxed);
        out.counter(name, help).only(count);
    }
}

/// The label of a cache, if it stands at such a place.
type Label = fn(&CacheOwner) -> Option<String>;

const TRAFFIC: [(&str, &str, Label); 2] = [
    (
        "crocodile_pear_upstream_cache_requests_total",
        "Calls that reached the cache of an upstream, by result.",
        |here| match here {
            CacheOwner::Upstream(name) => Some(format!("upstream=\"{}\"", label(name))),
            CacheOwner::Endpoint(_) => None,
        },
    ),
    (
        "crocodile_pear_endpoint_cache_requests_total",
        "Requests that reached the cache of an endpoint, by result.",
        |here| match here {
            CacheOwner::Endpoint(route) => Some(format!("route=\"{}\"", label(route))),
            CacheOwner::Upstream(_) => None,
        },
    ),
];

type ReadShared = fn(&SharedCounters) -> &AtomicU64;

const SHARED: [(&str, &str, ReadShared); 5] = [
    ("crocodile_pear_cache_shared_hit_total", "Lookups in `store.redis` that found an answer.", |seen| &seen.hits),
    ("crocodile_pear_cache_shared_missed_total", "Lookups in `store.redis` that found no answer.", |seen| &seen.misses),
    (
        "crocodile_pear_cache_shared_failed_total",
        "Lookups in `store.redis` that were not answered in time, or while it was unavailable.",
        |seen| &seen.failures,
    ),
    ("crocodile_pear_cache_shared_stored_total", "Answers that were sent to `store.redis`.", |seen| &seen.stored),
    (
        "crocodile_pear_cache_shared_dropped_total",
        "Answers that were not sent to `store.redis` because it was unavailable or too slow.",
        |seen| &seen.dropped,
    ),
];

type CacheFigure = fn(&CacheCounters) -> u64;

const CACHE: [(&str, &str, &str, CacheFigure); 11] = [
    ("crocodile_pear_cache_entries", "gauge", "Answers that caches keep.", |seen| seen.entries),
    ("crocodile_pear_cache_bytes", "gauge", "Memory used by caches, with heads, keys and index.", |seen| seen.bytes),
    ("crocodile_pear_cache_max_bytes", "gauge", "Memory that caches may take (`store.memory`).", |seen| seen.bound),
    ("crocodile_pear_cache_lookups_hit_total", "counter", "Lookups that found an answer, fresh or stale.", |seen| {
        seen.hits
    }),
    ("crocodile_pear_cache_lookups_missed_total", "counter", "Lookups that found no answer.", |seen| seen.misses),
    ("crocodile_pear_cache_stored_total", "counter", "Answers that were stored.", |seen| seen.insertions),
    ("crocodile_pear_cache_evicted_total", "counter", "Answers evicted to make room for others.", |seen| {
        seen.evictions
    }),
    ("crocodile_pear_cache_purges_total", "counter", "Purges of any kind.", |seen| seen.purges),
    (
        "crocodile_pear_cache_refused_total",
        "counter",
        "Answers that were not stored as fresh because they are too large, were purged while they were fetched, or are older than the stored one.",
        |seen| seen.refused,
    ),
    (
        "crocodile_pear_cache_copies_made_total",
        "counter",
        "Compressed copies of stored bodies that were made.",
        |seen| seen.copies,
    ),
    ("crocodile_pear_cache_copies_used_total", "counter", "Answers that were sent with such a copy.", |seen| {
        seen.copied
    }),
];
