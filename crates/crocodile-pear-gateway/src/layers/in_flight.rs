//! `in_flight`: limits how many requests of each consumer are served at the same time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{ExpressionSpec, Field, Located, only};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use http::StatusCode;

use crate::http::response;
use crate::layer::limit_key::{By, LimitKey, Missing};
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};
use crate::telemetry::metrics::{LimitCounters, Metrics, RefusedBy};

spec! {
    /// The maximum number of concurrent requests, counted from the head of a request to the last byte of its answer.
    /// Further requests get 429. Short form: the number.
    pub struct InFlight {
        /// The maximum number of concurrent requests.
        pub limit: NonZeroU32,
        /// The expression by whose value requests are counted: `$client.address`, `$claims.sub`. By default all requests
        /// are counted together.
        pub by: Option<ExpressionSpec>,
        /// The handling of a request whose `by` is null. Such requests are counted in
        /// `crocodile_pear_limit_requests_total` with the result `missing`.
        pub missing: Missing = Missing::Allow,
    }
    short(number)
}

fn number(limit: Located<String>, problems: &mut Problems) -> Option<InFlight> {
    only([("limit", limit)], problems)
}

impl Spec for InFlight {
    type Ready = InFlightLimit;

    const AT_DOCUMENT: Option<Field> =
        Some(Field::new("in_flight", "The maximum number of concurrent requests, over all endpoints together."));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "in_flight",
        "The maximum number of its concurrent requests. Replaces the top-level limit; `off` for no limit.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<InFlightLimit>> {
        let by = By::compile(self.by.as_ref(), cx)?;
        // The number is not a part of it: a new limit counts the requests that are there.
        let written = self.by.as_ref().map(|by| by.0.as_str());
        let slots = cx.carry.part(("in_flight", cx.place, written)).state(Slots::new);
        let most = self.limit.get();
        Some(Arc::new(InFlightLimit { by, missing: self.missing, most, slots, metrics: cx.metrics() }))
    }

    fn around(ready: &Arc<InFlightLimit>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let counters = ready.metrics.limit("in_flight", "default", at.route.map(|route| &**route));
        Some(Arc::new(InFlightGate { limit: ready.clone(), counters }))
    }
}

/// Many, so that cores rarely need the same one.
const SHARDS: usize = 64;

/// The limit for each key.
pub struct InFlightLimit {
    by: By,
    missing: Missing,
    most: u32,
    slots: Arc<Slots>,
    metrics: Arc<Metrics>,
}

/// Applies the limit to the requests of one route.
struct InFlightGate {
    limit: Arc<InFlightLimit>,
    counters: Arc<LimitCounters>,
}

/// The number of requests in flight for each key. Keys without requests are not kept.
struct Slots {
    key: RandomState,
    shards: Vec<Mutex<HashMap<u64, u32>>>,
}

/// The slot of a request. It is freed with the request's scope, after the answer has ended.
struct InFlightSlot {
    slots: Arc<Slots>,
    key: u64,
}

/// The slot as an extension of the request.
#[derive(Clone)]
struct HeldSlot(#[allow(dead_code, reason = "held until it is dropped")] Arc<InFlightSlot>);

impl Slots {
    fn new() -> Self {
        Slots { key: RandomState::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn take(self: &Arc<Self>, key: &LimitKey, most: u32) -> Option<InFlightSlot> {
        let key = self.key.hash_one(key);
        let mut shard = self.shard(key);
        let taken = shard.entry(key).or_default();
        if *taken >= most {
            return None;
        }
        *taken += 1;
        drop(shard);
        Some(InFlightSlot { slots: self.clone(), key })
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.shards[key as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        let mut shard = self.slots.shard(self.key);
        match shard.get_mut(&self.key) {
            Some(taken) if *taken > 1 => *taken -= 1,
            _ => drop(shard.remove(&self.key)),
        }
    }
}

impl Layer for InFlightGate {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let key = match (self.limit.by.key(scope), self.limit.missing) {
            (LimitKey::None, Missing::Allow) => {
                self.counters.skip();
                return Verdict::Pass;
            }
            (LimitKey::None, Missing::Reject) => {
                self.counters.refuse();
                self.limit.metrics.count_refused(RefusedBy::InFlight);
                let detail = "the request does not say as whom it is counted";
                return Verdict::Answer(response::refuse(StatusCode::FORBIDDEN, detail));
            }
            (LimitKey::None, Missing::Limit) => LimitKey::Missing,
            (key, _) => key,
        };
        match self.limit.slots.take(&key, self.limit.most) {
            Some(slot) => {
                self.counters.allow();
                scope.extensions_mut().insert(HeldSlot(Arc::new(slot)));
                Verdict::Pass
            }
            None => {
                self.counters.refuse();
                self.limit.metrics.count_refused(RefusedBy::InFlight);
                Verdict::Answer(response::too_many_at_once())
            }
        }
    }

    fn outline(&self) -> Option<String> {
        let InFlightLimit { by, missing, most, .. } = &*self.limit;
        Some(format!("{most} requests at once for {}{}", by.outline(), by.outline_missing(*missing)))
    }
}
