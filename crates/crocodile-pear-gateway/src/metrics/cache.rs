//! What caches keep, as metrics.

use std::fmt::Write;

use crocodile_pear::cache::Counters;

/// Writes the metrics of the store of the caches.
pub fn render(counters: &Counters, out: &mut String) {
    for (name, kind, help, read) in CACHE {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {}", read(counters));
    }
}

type Read = fn(&Counters) -> u64;

const CACHE: [(&str, &str, &str, Read); 9] = [
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
];
