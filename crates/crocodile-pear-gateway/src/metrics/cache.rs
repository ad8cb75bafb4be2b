//! What caches keep, as metrics.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crocodile_pear::cache::Counters;

use crate::ledger::SharedCounters;

/// Writes the metrics of the store of the caches.
pub fn render(counters: &Counters, out: &mut String) {
    for (name, kind, help, read) in CACHE {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {}", read(counters));
    }
}

/// Writes the metrics of what caches of several gateways share.
pub fn render_shared(counters: &SharedCounters, out: &mut String) {
    for (name, help, read) in SHARED {
        let count = read(counters).load(Ordering::Relaxed);
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
    }
}

type ReadShared = fn(&SharedCounters) -> &AtomicU64;

const SHARED: [(&str, &str, ReadShared); 5] = [
    ("crocodile_pear_cache_shared_hit_total", "Lookups in `store.redis` that found an answer.", |seen| &seen.hits),
    ("crocodile_pear_cache_shared_missed_total", "Lookups in `store.redis` that found no answer.", |seen| &seen.misses),
    (
        "crocodile_pear_cache_shared_failed_total",
        "Lookups in `store.redis` that were not answered in time, or while it was away.",
        |seen| &seen.failures,
    ),
    ("crocodile_pear_cache_shared_stored_total", "Answers that were sent to `store.redis`.", |seen| &seen.stored),
    (
        "crocodile_pear_cache_shared_dropped_total",
        "Answers that were not sent to `store.redis` because it was away or behind.",
        |seen| &seen.dropped,
    ),
];

type Read = fn(&Counters) -> u64;

const CACHE: [(&str, &str, &str, Read); 11] = [
    ("crocodile_pear_cache_entries", "gauge", "Answers that caches keep.", |seen| seen.entries),
    ("crocodile_pear_cache_bytes", "gauge", "Memory that caches take, with heads, keys and index.", |seen| seen.bytes),
    ("crocodile_pear_cache_max_bytes", "gauge", "Memory that caches may take (`store.memory`).", |seen| seen.bound),
    ("crocodile_pear_cache_lookups_hit_total", "counter", "Lookups that found an answer, fresh or stale.", |seen| {
        seen.hits
    }),
    ("crocodile_pear_cache_lookups_missed_total", "counter", "Lookups that found no answer.", |seen| seen.misses),
    ("crocodile_pear_cache_stored_total", "counter", "Answers that were stored.", |seen| seen.insertions),
    ("crocodile_pear_cache_evicted_total", "counter", "Answers that made room for others.", |seen| seen.evictions),
    ("crocodile_pear_cache_purges_total", "counter", "Purges, whatever they were about.", |seen| seen.purges),
    (
        "crocodile_pear_cache_refused_total",
        "counter",
        "Answers that were not stored because they are too large or were purged while they were fetched.",
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
