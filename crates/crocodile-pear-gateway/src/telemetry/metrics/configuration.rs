//! Which program runs, and with which configuration.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::exposition::Exposition;

/// Counters of the loads of the configuration.
pub(super) struct Configurations {
    /// Read again, and in use.
    good: AtomicU64,
    /// Read again, and refused.
    bad: AtomicU64,
    /// Nanoseconds that all of these took.
    took: AtomicU64,
    /// When the one in use was read, in seconds since 1970.
    read: AtomicU64,
}

impl Default for Configurations {
    fn default() -> Self {
        Configurations {
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            took: AtomicU64::new(0),
            read: AtomicU64::new(now()),
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Configurations {
    /// Counts a configuration that was read again and is in use from now on.
    pub(super) fn count(&self, took: Duration) {
        self.count_time(took);
        self.good.fetch_add(1, Ordering::Relaxed);
        self.read.store(now(), Ordering::Relaxed);
    }

    /// Counts one that was read again and refused.
    pub(super) fn count_refused(&self, took: Duration) {
        self.count_time(took);
        self.bad.fetch_add(1, Ordering::Relaxed);
    }

    fn count_time(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took.fetch_add(took, Ordering::Relaxed);
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let version = env!("CARGO_PKG_VERSION");
        out.info("crocodile_pear_build_info", "The version that runs.").add(format_args!("version=\"{version}\""), 1);
        let Configurations { good, bad, took, read } = self;
        let mut family = out.counter("crocodile_pear_reloads_total", "Reloads of the configuration, by result.");
        family.add(format_args!("result=\"success\""), load(good));
        family.add(format_args!("result=\"failure\""), load(bad));
        let seconds = Duration::from_nanos(load(took)).as_secs_f64();
        let help = "Duration of reloads, until the new configuration was in use or was rejected.";
        out.summary("crocodile_pear_reload_duration_seconds", help).whole(load(good) + load(bad), seconds);
        let help = "When the configuration in use was read, in seconds since 1970.";
        out.gauge("crocodile_pear_configuration_read_timestamp_seconds", help).only(load(read));
    }
}
