//! State that outlives a reload: counters, caches, logs.

use std::sync::Arc;

use crocodile_pear::unstable::cache::Store;
use crocodile_pear::unstable::config::carried_state::Carried;

use crate::shared::purge_log::PurgeLog;
use crate::telemetry::analytics::Statistics;
use crate::telemetry::line_writer::Journals;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::recent::History;
use crate::telemetry::traces::SpanCounters;

/// The state that a gateway takes over from the one before it.
#[derive(Clone)]
pub struct PersistentState {
    pub metrics: Arc<Metrics>,
    /// Recent requests and figures.
    pub(crate) history: Arc<History>,
    /// The store of the caches. It takes no memory while there is no cache.
    pub cache: Arc<Store>,
    /// The statistics over minutes, hours and days.
    pub analytics: Arc<Statistics>,
    /// The state about the shared store.
    pub(crate) purge_log: Arc<PurgeLog>,
    /// The writers of log lines.
    pub(crate) journals: Arc<Journals>,
    pub(crate) spans: Arc<SpanCounters>,
    /// The state of everything that may not have changed.
    pub carried: Arc<Carried>,
}

impl Default for PersistentState {
    fn default() -> Self {
        // Its bound is set by the gateway that begins to serve.
        PersistentState {
            metrics: Arc::default(),
            history: Arc::default(),
            cache: Arc::new(Store::new(0)),
            analytics: Arc::default(),
            purge_log: Arc::default(),
            journals: Arc::default(),
            spans: Arc::default(),
            carried: Arc::default(),
        }
    }
}
