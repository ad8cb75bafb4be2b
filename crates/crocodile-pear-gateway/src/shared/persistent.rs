//! What outlives a reload: what was counted, and what is kept.

use std::sync::Arc;

use crocodile_pear::cache::Store;
use crocodile_pear::config::carried_state::Carried;

use crate::shared::purge_log::Ledger;
use crate::telemetry::analytics::Analytics;
use crate::telemetry::line_writer::Journals;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::recent::History;
use crate::telemetry::traces::SpanCounters;

/// What a gateway has of the one before it.
#[derive(Clone)]
pub struct Lasting {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What happened lately.
    pub(crate) history: Arc<History>,
    /// What caches keep. It takes no memory while there is no cache.
    pub cache: Arc<Store>,
    /// What is counted over minutes, hours and days.
    pub analytics: Arc<Analytics>,
    /// What is known of the store that is shared.
    pub(crate) ledger: Arc<Ledger>,
    /// What lines are written to.
    pub(crate) journals: Arc<Journals>,
    /// What became of spans.
    pub(crate) spans: Arc<SpanCounters>,
    /// The state of everything that may not have changed.
    pub carried: Arc<Carried>,
}

impl Default for Lasting {
    fn default() -> Self {
        // Its bound is set by the gateway that begins to serve.
        Lasting {
            metrics: Arc::default(),
            history: Arc::default(),
            cache: Arc::new(Store::new(0)),
            analytics: Arc::default(),
            ledger: Arc::default(),
            journals: Arc::default(),
            spans: Arc::default(),
            carried: Arc::default(),
        }
    }
}
