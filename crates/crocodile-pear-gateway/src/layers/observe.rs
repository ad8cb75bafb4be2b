//! Reports every request to operators: counts its answer, and writes a line to the access log at its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::cache;
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::Field;
use crocodile_pear::unstable::error::{Error, Fault, Kind};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use http::Response;

use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};
use crate::observe::access_log::{Access, AccessSpec};
use crate::server::Ending;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::requests::RouteCounters;
use crate::telemetry::recent::{FailedRequest, History, RouteNumber};
use crate::telemetry::request_end::RequestEnd;
use crate::telemetry::traces::Traces;

pub use crate::observe::log::Log;

/// The least time between two lines about the same cause at one endpoint; lines in between are logged at `debug`.
const OFTEN: Duration = Duration::from_secs(1);

impl Spec for Log {
    type Ready = ObserveConfig;

    const AT_DOCUMENT: Option<Field> = Some(Field::new("log", "What to log, and how."));

    fn unwritten() -> Option<Self> {
        Some(spec::defaults())
    }

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<ObserveConfig>> {
        let access = match &self.access {
            AccessSpec::Off => None,
            AccessSpec::On(access) => Some(Arc::new(access.compile(self.format.word(), cx)?)),
        };
        Some(Arc::new(ObserveConfig {
            metrics: cx.metrics(),
            history: cx.services.observed.then(|| cx.services.persistent.history.clone()),
            access,
            traces: cx.services.traces.clone(),
            observed: cx.services.observed,
        }))
    }

    fn around(ready: &Arc<ObserveConfig>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(Arc::new(Observe::new(ready, at.route)))
    }
}

/// Where requests are reported, whichever endpoint serves them.
pub struct ObserveConfig {
    metrics: Arc<Metrics>,
    /// The history; `None` if operators cannot look at it.
    history: Option<Arc<History>>,
    access: Option<Arc<Access>>,
    traces: Option<Arc<Traces>>,
    /// Whether operators can look at requests.
    observed: bool,
}

/// Observes the requests of an endpoint.
struct Observe {
    metrics: Arc<Metrics>,
    /// The history, and the number of the route there.
    history: Option<(Arc<History>, RouteNumber)>,
    access: Option<Arc<Access>>,
    traces: Option<Arc<Traces>>,
    observed: bool,
    requests: Arc<RouteCounters>,
    route: Option<Arc<str>>,
    /// A limiter for each cause that has occurred.
    limiters: Mutex<Vec<(Kind, Arc<LogLimiter>)>>,
}

impl Observe {
    /// For the requests of this route; `None` for those that no endpoint serves.
    fn new(config: &ObserveConfig, route: Option<&Arc<str>>) -> Self {
        let ObserveConfig { metrics, history, access, traces, observed } = config;
        Observe {
            metrics: metrics.clone(),
            history: history.as_ref().map(|history| (history.clone(), history.route(route))),
            access: access.clone(),
            traces: traces.clone(),
            observed: *observed,
            requests: metrics.route(route.map(|route| &**route)),
            route: route.cloned(),
            limiters: Mutex::default(),
        }
    }

    fn count(&self, ended: &RequestEnd<'_>) {
        let scope = ended.scope;
        // A request that could not be read never passed this layer.
        if ended.method().is_some() {
            self.requests.count_left();
        }
        self.requests.count(ended, received(scope));
        if let Some(record) = scope.record() {
            record.look(|calls| self.requests.count_steps(calls));
        }
    }

    /// Logs why a request failed, or why its answer was cut off.
    fn explain(&self, error: &Error, scope: &Scope, what: &'static str) {
        if error.kind().fault() == Fault::Client {
            return;
        }
        if let Some((history, _)) = &self.history {
            let (id, route) = (scope.facts().id().into(), self.route.clone());
            history.explain(FailedRequest { at: history.now(), id, route, error: error.clone() });
        }
        let allowed = self.limiter(error.kind()).allows();
        let (id, route, cause) = (scope.facts().id(), self.route.as_deref(), error.kind().name());
        let (step, upstream) = (error.step(), error.upstream());
        match allowed {
            true => {
                tracing::warn!(target: "crocodile_pear::failure", id, route, step, upstream, cause, "{what}: {}", error.detail());
            }
            false => {
                tracing::debug!(target: "crocodile_pear::failure", id, route, step, upstream, cause, "{what}: {}", error.detail());
            }
        }
    }

    fn limiter(&self, kind: Kind) -> Arc<LogLimiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = limiters.iter().find(|(known, _)| *known == kind) {
            return known.clone();
        }
        let new = Arc::new(LogLimiter::every(OFTEN));
        limiters.push((kind, new.clone()));
        new
    }
}

impl Layer for Observe {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        if self.observed {
            self.requests.enter();
            weigh(scope);
        }
        Verdict::Pass
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        self.metrics.count(response.status());
        if let Some(record) = scope.record()
            && let Some(result) = cache::rules::cache_status::result(response.headers())
        {
            record.set_cache(result);
        }
        if let Some(error) = response.extensions().get::<Error>() {
            self.explain(error, scope, "request failed");
        }
        Passage::Done
    }

    fn watches(&self) -> bool {
        self.access.is_some() || self.traces.is_some() || self.observed
    }

    fn ended(&self, ended: &RequestEnd<'_>) {
        self.metrics.count_end(&ended.end.how);
        if self.observed {
            self.count(ended);
        }
        if let Ending::Failed(error) = &ended.end.how {
            self.explain(error, ended.scope, "answer broken off");
        }
        if let Some((history, route)) = &self.history {
            history.add(*route, ended);
        }
        if let Some(access) = &self.access {
            access.write(ended, self.route.as_deref());
        }
        if let Some(traces) = &self.traces {
            traces.record(ended, self.route.as_ref());
        }
    }

    fn outline(&self) -> Option<String> {
        self.access.as_ref().map(|_| "writes a line of the access log".to_owned())
    }
}

/// The length in bytes of a body that arrived whole with its head.
#[derive(Clone, Copy)]
struct Whole(u64);

/// Notes the length of a body that arrived whole with its head; few requests have one.
fn weigh(scope: &mut Scope) {
    if let Some(AnswerBody::Bytes(bytes)) = scope.body_mut()
        && !bytes.is_empty()
    {
        let whole = Whole(bytes.len() as u64);
        scope.extensions_mut().insert(whole);
    }
}

/// How many bytes of the request's body have arrived.
fn received(scope: &Scope) -> u64 {
    match scope.pace() {
        Some(pace) => pace.received(),
        None => scope.extensions().get::<Whole>().map_or(0, |whole| whole.0),
    }
}
