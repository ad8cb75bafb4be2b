//! Metrics of the sources of events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use indexmap::IndexMap;

use super::exposition::{Exposition, label};

/// The counters of one source of events.
#[derive(Default)]
pub struct EventCounters {
    up: AtomicU64,
    messages: AtomicU64,
    failures: AtomicU64,
    lost: AtomicU64,
}

impl EventCounters {
    /// Says that it is listened to.
    pub fn set_up(&self) {
        self.up.store(1, Ordering::Relaxed);
    }

    /// Counts a connection that was lost: it is not listened to.
    pub fn count_lost(&self) {
        self.up.store(0, Ordering::Relaxed);
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_message(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message that was not understood.
    pub fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of all sources and channels. Each user keeps its own counters at hand, so that counting needs no search.
#[derive(Default)]
pub(super) struct EventRegistry(Mutex<IndexMap<(String, String), Weak<EventCounters>>>);

impl EventRegistry {
    /// The counters of the messages of a source of events. A reload continues them.
    pub(super) fn of(&self, source: &str, channel: &str) -> Arc<EventCounters> {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|_, counters| counters.strong_count() > 0);
        let key = (source.to_owned(), channel.to_owned());
        if let Some(counters) = events.get(&key).and_then(Weak::upgrade) {
            return counters;
        }
        let counters = Arc::default();
        events.insert(key, Arc::downgrade(&counters));
        counters
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let events = events.iter().filter_map(|(names, counters)| Some((names, counters.upgrade()?)));
        let events: Vec<_> = events.collect();
        if events.is_empty() {
            return;
        }
        for (metric, kind, help, read) in EVENTS {
            let mut family = if kind == "gauge" { out.gauge(metric, help) } else { out.counter(metric, help) };
            for ((source, channel), counters) in &events {
                let (source, channel, value) = (label(source), label(channel), read(counters));
                family.add(format_args!("source=\"{source}\",channel=\"{channel}\""), value);
            }
        }
    }
}

type ReadEvents = fn(&EventCounters) -> u64;

const EVENTS: [(&str, &str, &str, ReadEvents); 4] = [
    ("crocodile_pear_events_up", "gauge", "1 if the source of events is listened to.", |seen| {
        seen.up.load(Ordering::Relaxed)
    }),
    ("crocodile_pear_events_received_total", "counter", "Events received.", |seen| {
        seen.messages.load(Ordering::Relaxed)
    }),
    (
        "crocodile_pear_events_failed_total",
        "counter",
        "Events that the expression `purge` could not use; everything with tags became stale.",
        |seen| seen.failures.load(Ordering::Relaxed),
    ),
    (
        "crocodile_pear_events_connections_lost_total",
        "counter",
        "Connections to the source of events that were lost.",
        |seen| seen.lost.load(Ordering::Relaxed),
    ),
];
