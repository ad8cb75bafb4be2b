//! `rate_limit`: limits the rate of requests per client, or per value of an expression.

mod rate;
mod shared;
mod table;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::flow::Body;
use crocodile_pear::problem::Problems;
use crocodile_pear::scope::Scope;
use crocodile_pear::spec;
use crocodile_pear::spec::{Decode, Definitions, Expression, Field, Json, Located, Node};
use http::Response;
use http::header::{HeaderName, HeaderValue};

use crate::counted::{By, Key};
use crate::layer::{Around, Compile, Layer, Passage, Spec, Verdict};
use crate::metrics::{LimitCounters, Metrics, RefusedBy};
use crate::respond;
use crate::store::{Store, WhileAway};
use rate::Rate;
use table::{Left, Pace, Table};

/// The fields of draft-ietf-httpapi-ratelimit-headers-10.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

spec! {
    /// The maximum rate of requests. Further requests get 429.
    pub struct RateLimit {
        /// The number of requests per time: `100/1m`.
        pub rate: Located<Rate>,
        /// How many requests may come at once after a pause. Default: the number in `rate`.
        pub burst: Option<Located<NonZeroU32>>,
        /// The expression by whose value requests are counted: `$client.address`, `$headers["x-api-key"]`,
        /// `$claims.sub`. Each value has its own limit. A request whose value is null is not limited. By default all
        /// requests are counted together.
        pub by: Option<Expression>,
        /// The name of the limit in answers. Default: `default`, or the rate if there are several limits.
        pub name: Option<Located<String>>,
    }
}

/// One or more limits, all of which must be kept.
#[derive(Clone, Debug)]
pub struct RateLimits(Vec<RateLimit>);

impl Decode for RateLimits {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_list() {
            Some([]) => node.wrong("a limit", "write `{ rate: 100/1m }`", problems),
            Some(_) => Vec::decode(node, problems).map(RateLimits),
            None => RateLimit::decode(node, problems).map(|limit| RateLimits(vec![limit])),
        }
    }

    fn fields() -> Vec<Field> {
        RateLimit::fields()
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let one = RateLimit::schema(definitions);
        serde_json::json!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

impl Spec for RateLimits {
    type Ready = Limiters;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "rate_limit",
        "Rate limits over all endpoints together: one limit, or a list of limits that all apply.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "rate_limit",
        "Rate limits of its requests. They replace the top-level limits; `off` for no limit.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Limiters>> {
        let several = self.0.len() > 1;
        let mut names: Vec<String> = Vec::new();
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for limit in &self.0 {
            let Some(ready) = limit.ready(several, &mut names, cx) else { continue };
            if ready.by.needs_claims() { late.push(ready) } else { early.push(ready) }
        }
        let limits = |limits: Vec<Limit>, place| {
            (!limits.is_empty()).then(|| Arc::new(Limits::new(limits, place, cx.store.clone(), cx.metrics.clone())))
        };
        Some(Arc::new(Limiters { early: limits(early, LimitPlace::Client), late: limits(late, LimitPlace::Claims) }))
    }

    fn around(ready: &Arc<Limiters>, at: &Around<'_>) -> Option<Arc<dyn Layer>> {
        let route = at.route.map(|route| &**route);
        if let Some(late) = &ready.late {
            at.for_consumers.replace(Some(late.at(route)));
        }
        ready.early.as_ref().map(|early| early.at(route))
    }
}

/// The limits of one place, in two groups: those that need only the client, and those that need `$claims`.
pub struct Limiters {
    early: Option<Arc<Limits>>,
    late: Option<Arc<Limits>>,
}

impl RateLimit {
    fn ready(&self, several: bool, names: &mut Vec<String>, cx: &mut Compile<'_>) -> Option<Limit> {
        let rate = self.rate.value;
        let burst = self.burst.as_ref().map_or(rate.requests, |burst| burst.value.get().into());
        let by = By::compile(self.by.as_ref(), cx)?;
        let (requests, window) = (rate.requests, rate.window);
        let usual = if several { format!("{requests}/{}", told(window)) } else { "default".to_owned() };
        let name = self.name.as_ref().map_or(usual, |name| name.value.clone());
        let place = self.name.as_ref().map_or(self.rate.span, |name| name.span);
        if names.contains(&name) {
            return cx.problems.error(place, format!("two limits are called `{name}`"), "give one another `name`");
        }
        if name.is_empty() || !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
            return cx.problems.error(place, "this cannot be the name of a limit", "use letters, digits, `-` and `_`");
        }
        names.push(name.clone());
        let Some(pace) = Pace::new(rate.interval(), burst) else {
            return cx.problems.error(
                place,
                "a burst at this rate takes longer than 100 years",
                "write a smaller `burst`",
            );
        };
        let written = self.by.as_ref().map_or("", |by| by.0.as_str());
        let identity = format!("{}|{name}|{requests}/{window:?}|{burst}|{written}", cx.place);
        let table = Table::of(identity.clone());
        Some(Limit { name, requests, window, burst, pace, by, identity, table })
    }
}

/// A time in whole units, as in the configuration.
fn told(time: Duration) -> String {
    time.written().and_then(|written| written.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A compiled limit.
struct Limit {
    name: String,
    requests: u64,
    window: Duration,
    burst: u64,
    pace: Pace,
    by: By,
    /// Identifies the same limit in other gateways and after a reload.
    identity: String,
    table: Arc<Table>,
}

impl Limit {
    /// `"default";q=100;w=60`
    fn policy(&self) -> String {
        format!("\"{}\";q={};w={}", self.name, self.requests, seconds(self.window.as_nanos() as u64))
    }

    /// `"default";r=50;t=30`
    fn state(&self, left: &Left) -> String {
        let time = if left.remaining == 0 { left.next } else { left.whole };
        format!("\"{}\";r={};t={}", self.name, left.remaining, seconds(time))
    }
}

/// Whole seconds, rounded up.
fn seconds(nanos: u64) -> u64 {
    nanos.div_ceil(1_000_000_000)
}

/// The place of a limiter in the order of layers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitPlace {
    /// Before any expensive work.
    Client,
    /// After authentication, where the consumer is known.
    Claims,
}

/// Limits that are checked together in one place.
pub struct Limits {
    limits: Vec<Limit>,
    place: LimitPlace,
    policy: HeaderValue,
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
type Taken = Vec<Option<Result<Left, Left>>>;

/// The value of `RateLimit` for one request's answer, from each of the two places.
#[derive(Clone, Default)]
struct States([Option<HeaderValue>; 2]);

impl Limits {
    fn new(limits: Vec<Limit>, place: LimitPlace, store: Option<Arc<Store>>, metrics: Arc<Metrics>) -> Self {
        let policy = limits.iter().map(Limit::policy).collect::<Vec<_>>().join(", ");
        let policy = HeaderValue::from_str(&policy).expect("names of limits are visible ASCII");
        Limits { limits, place, policy, store, metrics }
    }

    /// The layer for the requests of one route.
    fn at(self: &Arc<Self>, route: Option<&str>) -> Arc<dyn Layer> {
        let counters = self.limits.iter().map(|limit| self.metrics.limit("rate_limit", &limit.name, route));
        Arc::new(Limiter { own: self.clone(), counters: counters.collect() })
    }
}

impl Limiter {
    fn keys(&self, scope: &Scope) -> Vec<Key> {
        self.own.limits.iter().map(|limit| limit.by.key(scope)).collect()
    }

    /// Counts a request in this gateway, for all limits or for none.
    fn take(&self, keys: &[Key], replicas: u64) -> Taken {
        let pace = |limit: &Limit| if replicas == 1 { limit.pace } else { limit.pace.share(replicas) };
        let take = |(limit, key): (&Limit, &Key)| match key {
            Key::None => None,
            key => Some(limit.table.take(limit.table.hash(key), limit.table.now(), pace(limit))),
        };
        let taken: Taken = self.own.limits.iter().zip(keys).map(take).collect();
        if taken.iter().flatten().any(Result::is_err) {
            for ((limit, key), taken) in self.own.limits.iter().zip(keys).zip(&taken) {
                if let Some(Ok(_)) = taken {
                    limit.table.give_back(limit.table.hash(key), pace(limit));
                }
            }
        }
        taken
    }

    /// Counts a request in the store; `None` while the store is away.
    async fn take_shared(&self, store: &Store, keys: &[Key]) -> Option<Taken> {
        let limited = self.own.limits.iter().zip(keys).filter(|(_, key)| **key != Key::None);
        let named: Vec<_> = limited.map(|(limit, key)| (shared::name(&limit.identity, key), limit.pace)).collect();
        if named.is_empty() {
            return Some(keys.iter().map(|_| None).collect());
        }
        let mut taken = shared::take(store, &named).await.ok()?.into_iter();
        Some(keys.iter().map(|key| if *key == Key::None { None } else { taken.next() }).collect())
    }

    /// Counts a request in the store, or handles it as configured while the store is away.
    async fn request_shared(&self, store: &Store, keys: Vec<Key>, scope: &mut Scope) -> Option<Response<Body>> {
        let taken = match (self.take_shared(store, &keys).await, store.while_away) {
            (Some(taken), _) => taken,
            (None, WhileAway::Local) => self.take(&keys, store.replicas),
            (None, WhileAway::Open) => return None,
            (None, WhileAway::Closed) => {
                self.own.metrics.count_refused(RefusedBy::RateLimit);
                return Some(respond::unavailable("the limits of requests cannot be checked now"));
            }
        };
        self.decide(&taken, scope)
    }

    /// A refused request is counted at the limits that refuse it.
    fn count(&self, taken: &Taken) {
        let refused = taken.iter().flatten().any(Result::is_err);
        for (counters, taken) in self.counters.iter().zip(taken) {
            match taken {
                Some(Ok(_)) if !refused => counters.allow(),
                Some(Err(_)) => counters.refuse(),
                _ => {}
            }
        }
    }

    /// Lets a request pass and notes the state of its limits for the answer, or refuses it.
    fn decide(&self, taken: &Taken, scope: &mut Scope) -> Option<Response<Body>> {
        self.count(taken);
        let state = |(limit, taken): (&Limit, &Option<Result<Left, Left>>)| match taken {
            Some(Ok(left) | Err(left)) => Some(limit.state(left)),
            None => None,
        };
        let states: Vec<String> = self.own.limits.iter().zip(taken).filter_map(state).collect();
        let states = (!states.is_empty()).then(|| HeaderValue::from_str(&states.join(", ")).ok()).flatten();
        let violated = self.own.limits.iter().zip(taken).filter_map(|(limit, taken)| match taken {
            Some(Err(left)) => Some((limit.name.as_str(), left.next)),
            _ => None,
        });
        let violated: Vec<(&str, u64)> = violated.collect();
        if violated.is_empty() {
            let mut known = scope.extensions_mut().remove::<States>().unwrap_or_default();
            known.0[self.own.place as usize] = states;
            scope.extensions_mut().insert(known);
            return None;
        }
        self.own.metrics.count_refused(RefusedBy::RateLimit);
        let wait = violated.iter().map(|(_, next)| *next).max().unwrap_or_default();
        let names: Vec<&str> = violated.iter().map(|(name, _)| *name).collect();
        let mut response = respond::quota_exceeded(&names, seconds(wait).max(1));
        response.headers_mut().insert(RATE_LIMIT_POLICY, self.own.policy.clone());
        if let Some(states) = states {
            response.headers_mut().insert(RATE_LIMIT, states);
        }
        Some(response)
    }
}

impl Layer for Limiter {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let keys = self.keys(scope);
        if let Some(store) = &self.own.store {
            return Verdict::Wait(Box::pin(self.request_shared(store, keys, scope)));
        }
        let taken = self.take(&keys, 1);
        self.decide(&taken, scope).map_or(Verdict::Pass, Verdict::Answer)
    }

    fn answer<'a>(&'a self, response: &'a mut Response<Body>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let states = scope.extensions().get::<States>();
        let headers = response.headers_mut();
        // Limits that an upstream reports are its own, so they are replaced, unless our other place has just set them.
        let other = self.own.place == LimitPlace::Client
            && states.is_some_and(|states| states.0[LimitPlace::Claims as usize].is_some());
        if !other {
            headers.remove(RATE_LIMIT);
            headers.remove(RATE_LIMIT_POLICY);
        }
        headers.append(RATE_LIMIT_POLICY, self.own.policy.clone());
        if let Some(state) = states.and_then(|states| states.0[self.own.place as usize].clone()) {
            headers.append(RATE_LIMIT, state);
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        let told = |limit: &Limit| {
            let by = limit.by.outline();
            format!("{} requests in {} for {by}, {} at once", limit.requests, told(limit.window), limit.burst)
        };
        Some(self.own.limits.iter().map(told).collect::<Vec<_>>().join("; "))
    }
}
