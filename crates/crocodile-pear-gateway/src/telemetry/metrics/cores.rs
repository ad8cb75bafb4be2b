//! Counters of the cores that serve clients: their connections, and how late they are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crocodile_pear::unstable::telemetry::histogram::{BucketBounds, Histogram};
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use tokio::time::{Instant, sleep};

use super::exposition::Exposition;
use super::slot::{CORE, CORES};

const MS: u64 = 1_000_000;

/// A timer is up to a millisecond late by its grain.
const LATE: BucketBounds = &[2 * MS, 5 * MS, 10 * MS, 25 * MS, 100 * MS, 500 * MS, 2_500 * MS];

/// How often a core is asked. Between two questions it does whatever it does.
const OFTEN: Duration = Duration::from_millis(250);

/// The counters of all cores.
pub(super) struct CoreCounters {
    connections: Vec<Connections>,
    lag: Vec<Histogram>,
}

/// Connections of one core that were opened, and that have ended.
#[repr(align(64))]
#[derive(Default)]
struct Connections([AtomicU64; 2]);

impl Default for CoreCounters {
    fn default() -> Self {
        CoreCounters {
            connections: (0..CORES).map(|_| Connections::default()).collect(),
            lag: (0..CORES).map(|_| Histogram::new(LATE)).collect(),
        }
    }
}

impl CoreCounters {
    /// Counts a connection of a client that is open from now on.
    pub(super) fn count_opened(&self) {
        self.connections[CORE.get()].0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that has ended.
    pub(super) fn count_closed(&self) {
        self.connections[CORE.get()].0[1].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let sum = |at: usize| -> u64 { self.connections.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum() };
        let closed = sum(1);
        let opened = sum(0);
        out.counter("crocodile_pear_connections_opened_total", "Client connections opened.").only(opened);
        let open = opened.saturating_sub(closed);
        out.gauge("crocodile_pear_connections_open", "Open client connections.").only(open);
        let help = "How late a core runs a timer that is due, measured four times a second.";
        let mut family = out.histogram("crocodile_pear_core_lag_seconds", help);
        for (index, lag) in self.lag.iter().map(Histogram::snapshot).enumerate() {
            if lag.number() > 0 {
                family.times(&format!("core=\"{index}\""), &lag);
            }
        }
    }
}

/// A core that is so late has not run meanwhile.
const STOPPED: Duration = Duration::from_secs(1);

/// All cores stop together: one line for them.
static LIMITER: LogLimiter = LogLimiter::every(Duration::from_secs(10));

/// Measures how late the runtime of this core is, for as long as somebody counts.
pub(super) fn watch(counters: &Arc<CoreCounters>, index: usize) -> impl Future<Output = ()> + Send + 'static + use<> {
    let counters: Weak<CoreCounters> = Arc::downgrade(counters);
    async move {
        loop {
            let due = Instant::now() + OFTEN;
            sleep(OFTEN).await;
            let Some(counters) = counters.upgrade() else { return };
            let lag = due.elapsed();
            counters.lag[index % CORES].count(lag);
            if lag >= STOPPED && LIMITER.allows() {
                tracing::warn!(
                    core = index,
                    ?lag,
                    "the core did not run: the process or its machine was stopped, or had no CPU"
                );
            }
        }
    }
}
