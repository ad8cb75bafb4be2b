//! How the orders of certificates ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use indexmap::IndexMap;

use super::exposition::{Exposition, label};

/// How the orders of one certificate ended.
#[derive(Debug, Default)]
pub struct OrderCounters {
    issued: AtomicU64,
    failed: AtomicU64,
    /// When it is renewed, in seconds since 1970.
    renewal: AtomicU64,
}

impl OrderCounters {
    /// Counts one that ended with a certificate.
    pub fn count_issued(&self) {
        self.issued.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that failed.
    pub fn count_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Says when the certificate is renewed.
    pub fn set_renewal(&self, at: SystemTime) {
        self.renewal.store(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(), Ordering::Relaxed);
    }

    fn results(&self) -> [(&'static str, u64); 2] {
        [("issued", self.issued.load(Ordering::Relaxed)), ("failed", self.failed.load(Ordering::Relaxed))]
    }
}

/// The counters of all certificates, by name.
#[derive(Default)]
pub(super) struct OrderRegistry(Mutex<IndexMap<String, Arc<OrderCounters>>>);

impl OrderRegistry {
    /// The counters of the orders of the certificate for this name. A reload continues them.
    pub(super) fn of(&self, name: &str) -> Arc<OrderCounters> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.entry(name.to_owned()).or_default().clone()
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        const ORDERS: &str = "crocodile_pear_acme_orders_total";
        const RENEWAL: &str = "crocodile_pear_acme_renewal_timestamp_seconds";
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut family = out.counter(ORDERS, "Orders of certificates, by result.");
        for (name, counters) in orders.iter() {
            for (result, count) in counters.results() {
                family.add(format_args!("name=\"{}\",result=\"{result}\"", label(name)), count);
            }
        }
        let mut family = out.gauge(RENEWAL, NEXT_RENEWAL);
        for (name, counters) in orders.iter() {
            let renewal = counters.renewal.load(Ordering::Relaxed);
            family.add(format_args!("name=\"{}\"", label(name)), renewal);
        }
    }
}

const NEXT_RENEWAL: &str = "When an ordered certificate is renewed, in seconds since 1970; 0 while there is none.";
