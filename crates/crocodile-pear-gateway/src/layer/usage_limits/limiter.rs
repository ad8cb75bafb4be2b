//! Limits that are checked together, and the layer that does it.

use std::sync::Arc;

use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::allowance::{Amount, Clock};
use super::charge::{Charge, Charges};
use super::limit::{Applies, Limit, Taking, seconds};
use super::shared::{self, LimitUsage};
use super::table::Left;
use crate::http::response;
use crate::layer::{Layer, Passage, Verdict};
use crate::shared::redis_tier::{Store, WhileAway};
use crate::telemetry::metrics::{LimitCounters, Metrics, RefusedBy};

/// The fields of draft-ietf-httpapi-ratelimit-headers-10.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Where limits stand in the order of layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LimitPlace {
    /// Before any expensive work.
    Client,
    /// After authentication, where the consumer is known.
    Claims,
    /// Behind these.
    Quota,
}

/// Limits that are checked together in one place.
pub struct Limits {
    limits: Vec<Arc<Limit>>,
    /// The layer, for metrics and `explain`.
    layer: &'static str,
    place: LimitPlace,
    /// The policy in the header field, if it is the same for all clients.
    policy: Option<HeaderValue>,
    /// The store shared with other gateways.
    store: Option<Arc<Store>>,
    metrics: Arc<Metrics>,
}

/// These limits for one route.
struct Limiter {
    own: Arc<Limits>,
    /// Counts the results of this route's requests, by limit.
    counters: Vec<Arc<LimitCounters>>,
}

/// The result of a request for each limit; `None` if the limit does not apply.
type LimitResults = Vec<Option<Result<Left, Left>>>;

/// The header fields of an answer about the limits, from each place: its policy, if that depends on the request, and
/// the state.
#[derive(Clone, Default)]
struct States([(Option<HeaderValue>, Option<HeaderValue>); 3]);

/// Limits further in have told theirs.
#[derive(Clone)]
struct ToldWithin;

impl Limits {
    pub fn new(
        limits: Vec<Limit>,
        (layer, place): (&'static str, LimitPlace),
        store: Option<Arc<Store>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let limits: Vec<Arc<Limit>> = limits.into_iter().map(Arc::new).collect();
        let fixed = |limit: &Arc<Limit>| match &limit.amount {
            Amount::Fixed(allowance) => match allowance.clock {
                Clock::Steady(_) => Some(limit.policy(*allowance)),
                // The months are not equally long.
                Clock::Period(_) => None,
            },
            Amount::Of { .. } => None,
        };
        let policy: Option<Vec<String>> = limits.iter().map(fixed).collect();
        let policy = policy.and_then(|policy| HeaderValue::from_str(&policy.join(", ")).ok());
        Limits { limits, layer, place, policy, store, metrics }
    }

    /// Whether a limit is charged when the answer has ended.
    pub fn are_charged(&self) -> bool {
        self.limits.iter().any(|limit| limit.is_charged())
    }

    pub fn at(self: &Arc<Self>, route: Option<&str>) -> Arc<dyn Layer> {
        let counters = self.limits.iter().map(|limit| self.metrics.limit(self.layer, &limit.name, route));
        Arc::new(Limiter { own: self.clone(), counters: counters.collect() })
    }

    fn refused_by(&self) -> RefusedBy {
        match self.place {
            LimitPlace::Quota => RefusedBy::Quota,
            LimitPlace::Client | LimitPlace::Claims => RefusedBy::RateLimit,
        }
    }
}

impl Limiter {
    /// The amount that the request takes of each limit.
    fn takings(&self, scope: &Scope) -> Result<Vec<Option<Taking>>, Box<Response<AnswerBody>>> {
        let mut takings = Vec::with_capacity(self.own.limits.len());
        for (limit, counters) in self.own.limits.iter().zip(&self.counters) {
            takings.push(match limit.applies(scope) {
                Applies::Yes(taking) => Some(taking),
                Applies::No => {
                    counters.skip();
                    None
                }
                Applies::Refused => {
                    counters.refuse();
                    self.own.metrics.count_refused(self.own.refused_by());
                    let detail = "the request does not say as whom it is counted";
                    return Err(Box::new(response::refuse(StatusCode::FORBIDDEN, detail)));
                }
            });
        }
        Ok(takings)
    }

    /// Takes of all limits of this gateway, or of none.
    fn take(&self, takings: &[Option<Taking>], replicas: u64) -> LimitResults {
        let shared = |taking: &Taking| if replicas == 1 { taking.allowance } else { taking.allowance.share(replicas) };
        let take = |(limit, taking): (&Arc<Limit>, &Option<Taking>)| {
            let taking = taking.as_ref()?;
            let (table, allowance) = (&limit.table, shared(taking));
            Some(table.take(table.hash(&taking.key), allowance.now(table), allowance.pace, taking.units))
        };
        let taken: LimitResults = self.own.limits.iter().zip(takings).map(take).collect();
        if taken.iter().flatten().any(Result::is_err) {
            for ((limit, taking), taken) in self.own.limits.iter().zip(takings).zip(&taken) {
                if let (Some(taking), Some(Ok(_))) = (taking, taken) {
                    let table = &limit.table;
                    table.give_back(table.hash(&taking.key), shared(taking).pace, taking.units);
                }
            }
        }
        taken
    }

    /// The same in the store; `None` while the store is away.
    async fn take_shared(&self, store: &Store, takings: &[Option<Taking>]) -> Option<LimitResults> {
        let limited = self.own.limits.iter().zip(takings).filter_map(|(limit, taking)| Some((limit, taking.as_ref()?)));
        let usages: Vec<LimitUsage<'_>> = limited
            .map(|(limit, Taking { key, allowance, units })| LimitUsage {
                identity: &limit.identity,
                key,
                allowance: *allowance,
                units: *units,
            })
            .collect();
        if usages.is_empty() {
            return Some(takings.iter().map(|_| None).collect());
        }
        let mut taken = shared::take(store, &usages).await.ok()?.into_iter();
        Some(takings.iter().map(|taking| taking.as_ref().and_then(|_| taken.next())).collect())
    }

    /// Takes in the store, or as configured while the store is away.
    async fn request_shared(
        &self,
        store: &Store,
        takings: Vec<Option<Taking>>,
        scope: &mut Scope,
    ) -> Option<Response<AnswerBody>> {
        let taken = match (self.take_shared(store, &takings).await, store.while_away) {
            (Some(taken), _) => taken,
            (None, WhileAway::Local) => self.take(&takings, store.replicas),
            (None, WhileAway::Open) => return None,
            (None, WhileAway::Closed) => {
                self.own.metrics.count_refused(self.own.refused_by());
                return Some(response::unavailable("the limits of requests cannot be checked now"));
            }
        };
        self.decide(takings, &taken, scope)
    }

    /// A refused request is counted at the limits that refuse it.
    fn count(&self, takings: &[Option<Taking>], taken: &LimitResults) {
        let refused = taken.iter().flatten().any(Result::is_err);
        for ((counters, limit), (taking, taken)) in
            self.counters.iter().zip(&self.own.limits).zip(takings.iter().zip(taken))
        {
            match taken {
                Some(Ok(_)) if !refused => {
                    counters.allow();
                    let units = taking.as_ref().map_or(0, |taking| taking.units);
                    if limit.cost.is_some() && units > 0 {
                        counters.charge(units, 0);
                    }
                }
                Some(Err(_)) => counters.refuse(),
                _ => {}
            }
        }
    }

    /// Lets a request pass and notes the state of its limits for the answer, or refuses it.
    fn decide(
        &self,
        takings: Vec<Option<Taking>>,
        taken: &LimitResults,
        scope: &mut Scope,
    ) -> Option<Response<AnswerBody>> {
        self.count(&takings, taken);
        let applied = || {
            let all = self.own.limits.iter().zip(&takings).zip(taken);
            all.filter_map(|((limit, taking), taken)| Some((limit, taking.as_ref()?.allowance, taken.as_ref()?)))
        };
        let state = |(limit, allowance, taken): (&Arc<Limit>, _, &Result<Left, Left>)| {
            let (Ok(left) | Err(left)) = taken;
            limit.state(allowance, *left)
        };
        let states = joined(applied().map(state));
        let policy = match &self.own.policy {
            Some(_) => None,
            None => joined(applied().map(|(limit, allowance, _)| limit.policy(allowance))),
        };
        let violated: Vec<(&str, u64)> = applied()
            .filter_map(|(limit, allowance, taken)| match taken {
                Err(left) => Some((limit.name.as_str(), allowance.told(*left).next)),
                Ok(_) => None,
            })
            .collect();
        if violated.is_empty() {
            let mut known = scope.extensions_mut().remove::<States>().unwrap_or_default();
            known.0[self.own.place as usize] = (policy, states);
            scope.extensions_mut().insert(known);
            self.note_charges(takings, scope);
            return None;
        }
        self.own.metrics.count_refused(self.own.refused_by());
        let wait = violated.iter().map(|(_, next)| *next).max().unwrap_or_default();
        let names: Vec<&str> = violated.iter().map(|(name, _)| *name).collect();
        let mut response = response::quota_exceeded(&names, seconds(wait).max(1));
        let policy = policy.or_else(|| self.own.policy.clone());
        response.headers_mut().extend(policy.map(|policy| (RATE_LIMIT_POLICY, policy)));
        response.headers_mut().extend(states.map(|states| (RATE_LIMIT, states)));
        response.extensions_mut().insert(ToldWithin);
        Some(response)
    }

    /// Notes what is charged when the answer has ended.
    fn note_charges(&self, takings: Vec<Option<Taking>>, scope: &mut Scope) {
        if !self.own.are_charged() {
            return;
        }
        let mut charges = scope.extensions_mut().remove::<Charges>().unwrap_or_default();
        for ((limit, counters), taking) in self.own.limits.iter().zip(&self.counters).zip(takings) {
            if let Some(Taking { key, allowance, .. }) = taking.filter(|_| limit.is_charged()) {
                charges.push(Charge::new((limit, key, allowance), counters, self.own.store.as_ref()));
            }
        }
        if !charges.is_empty() {
            scope.extensions_mut().insert(charges);
        }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> Option<HeaderValue> {
    let parts: Vec<String> = parts.collect();
    HeaderValue::from_str(&parts.join(", ")).ok().filter(|value| !value.is_empty())
}

impl Layer for Limiter {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let takings = match self.takings(scope) {
            Ok(takings) => takings,
            Err(refused) => return Verdict::Answer(*refused),
        };
        if let Some(store) = &self.own.store {
            return Verdict::Wait(Box::pin(self.request_shared(store, takings, scope)));
        }
        let taken = self.take(&takings, 1);
        self.decide(takings, &taken, scope).map_or(Verdict::Pass, Verdict::Answer)
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let states = scope.extensions().get::<States>().map(|states| &states.0[self.own.place as usize]);
        // Limits that an upstream reports are its own, so they are replaced.
        if response.extensions_mut().insert(ToldWithin).is_none() {
            response.headers_mut().remove(RATE_LIMIT);
            response.headers_mut().remove(RATE_LIMIT_POLICY);
        }
        let (policy, state) = states.cloned().unwrap_or_default();
        let headers = response.headers_mut();
        let told = [(RATE_LIMIT_POLICY, policy.or_else(|| self.own.policy.clone())), (RATE_LIMIT, state)];
        for (name, value) in told {
            value.map(|value| headers.append(name, value));
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        Some(self.own.limits.iter().map(|limit| outline(limit)).collect::<Vec<_>>().join("; "))
    }
}

/// `100 requests in 1m for each client address, 20 at once`
fn outline(limit: &Limit) -> String {
    let unit = if limit.cost.is_some() { "units" } else { "requests" };
    let by = limit.by.outline();
    let amount = match &limit.amount {
        Amount::Fixed(allowance) => match allowance.clock {
            Clock::Steady(window) => {
                let at_once = allowance.pace.room / allowance.pace.interval;
                format!("{} {unit} in {} for {by}, {at_once} at once", allowance.units, time_text(window))
            }
            Clock::Period(period) => format!("{} {unit} in each {} for {by}", allowance.units, period.word()),
        },
        Amount::Of { .. } => format!("{unit} for {by}, as many as its expression says"),
    };
    let charged = if limit.is_charged() { ", charged when the answer has ended" } else { "" };
    let missing = limit.by.outline_missing(limit.missing);
    format!("{amount}{charged}{missing}")
}

/// A time in whole units, as in the configuration.
fn time_text(nanos: u64) -> String {
    use crocodile_pear::unstable::config::spec::Decode;
    let time = std::time::Duration::from_nanos(nanos);
    time.written().and_then(|written| written.as_str().map(str::to_owned)).unwrap_or_default()
}
