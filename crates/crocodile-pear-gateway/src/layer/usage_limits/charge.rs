//! Units that are taken after an answer has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crocodile_pear::unstable::jq::Value;
use crocodile_pear::unstable::request::context::Scope;
use http::StatusCode;

use super::allowance::Allowance;
use super::limit::Limit;
use super::shared::{self, LimitUsage};
use crate::layer::limit_key::LimitKey;
use crate::shared::redis_tier::Store;
use crate::telemetry::metrics::LimitCounters;

#[derive(Clone, Default)]
pub struct Charges(Vec<Arc<Charge>>);

/// The amount that is taken of one limit. If it is never settled, because there was no answer, it is one unit.
pub struct Charge {
    limit: Arc<Limit>,
    key: LimitKey,
    allowance: Allowance,
    counters: Arc<LimitCounters>,
    /// The store shared with other gateways.
    store: Option<Arc<Store>>,
    settled: AtomicBool,
}

impl Charges {
    /// Adds one.
    pub fn push(&mut self, charge: Charge) {
        self.0.push(Arc::new(charge));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Charge> {
        self.0.iter().map(|charge| &**charge)
    }

    pub fn settle(&self, units: &[u64]) {
        self.iter().zip(units).for_each(|(charge, units)| charge.settle(*units));
    }
}

impl Charge {
    pub fn new(
        (limit, key, allowance): (&Arc<Limit>, LimitKey, Allowance),
        counters: &Arc<LimitCounters>,
        store: Option<&Arc<Store>>,
    ) -> Self {
        let (limit, counters, store) = (limit.clone(), counters.clone(), store.cloned());
        Charge { limit, key, allowance, counters, store, settled: AtomicBool::new(false) }
    }

    /// The units for an answer with this body; nothing if its limit cannot tell.
    pub fn cost(&self, scope: &Scope, status: StatusCode, item: Value) -> Option<u64> {
        self.limit.cost.as_ref()?.of_answer(scope, status, item)
    }

    fn settle(&self, units: u64) {
        if self.settled.swap(true, Ordering::Relaxed) || units == 0 {
            return;
        }
        let (limit, key, allowance) = (self.limit.clone(), self.key.clone(), self.allowance);
        let counters = self.counters.clone();
        let here = move |allowance: Allowance| {
            let table = &limit.table;
            let beyond = table.charge(table.hash(&key), allowance.now(table), allowance.pace, units);
            counters.charge(units, beyond);
        };
        let Some(store) = self.store.clone() else { return here(allowance) };
        let (limit, key, counters) = (self.limit.clone(), self.key.clone(), self.counters.clone());
        let there = async move {
            let usage = LimitUsage { identity: &limit.identity, key: &key, allowance, units };
            match shared::charge(&store, &usage).await {
                Ok(beyond) => counters.charge(units, beyond),
                // Each gateway has its part of the limit then.
                Err(_) => here(allowance.share(store.replicas)),
            }
        };
        // Where the process ends, nobody counts any more.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(there));
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.settle(1);
    }
}
