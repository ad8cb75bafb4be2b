//! Metrics of clients' requests, by their route.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::error::ErrorType;
use crocodile_pear::unstable::runtime::thread_id::{self, THREADS};
use crocodile_pear::unstable::telemetry::histogram::{self, Histograms, Snapshot};
use crocodile_pear::unstable::telemetry::request_record::{CallRecord, CallingStep};
use http::Method;
use indexmap::IndexMap;

use super::exposition::{Exposition, label};
use crate::telemetry::request_end::RequestEnd;

/// The most steps of a pipeline whose times are counted.
const STEPS: usize = 32;

/// The methods that are told apart; the others are `_OTHER`, as OpenTelemetry has it.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
    Method::TRACE,
    Method::CONNECT,
];

/// The counters of the requests for one route. They are made with the first request: of thousands of routes many have none.
#[derive(Default)]
pub struct RouteCounters(OnceLock<Box<RequestCounters>>);

struct RequestCounters {
    durations: Histograms<RequestKind>,
    threads: Box<[Flow]>,
    steps: Box<[OnceLock<StepTimes>]>,
}

/// Which requests are counted together: the method, and the status of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKind {
    method: u8,
    /// 499 for a client that left before its answer.
    status: u16,
    error: Option<ErrorType>,
}

impl RequestKind {
    fn method(self) -> &'static str {
        METHODS.get(usize::from(self.method)).map_or("_OTHER", Method::as_str)
    }

    fn labels(kind: Option<Self>) -> String {
        let (method, status) = kind.map_or(("_OTHER", 0), |kind| (kind.method(), kind.status));
        let told = format!("http_request_method=\"{method}\",http_response_status_code=\"{status}\"");
        match kind.and_then(|kind| kind.error) {
            Some(error) => format!("{told},error_type=\"{error}\""),
            None => told,
        }
    }
}

/// The counters of a thread.
#[derive(Default)]
#[repr(align(64))]
struct Flow {
    entered: AtomicU64,
    left: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    /// Answers whose head was ready, and how long that took.
    heads: AtomicU64,
    nanoseconds: AtomicU64,
}

/// How long the calls of one step took, from the first's beginning to the last's end.
struct StepTimes {
    step: Arc<CallingStep>,
    requests: AtomicU64,
    nanoseconds: AtomicU64,
}

impl RequestCounters {
    fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        RequestCounters {
            durations: Histograms::new(histogram::HTTP),
            threads: (0..threads).map(|_| Flow::default()).collect(),
            steps: (0..STEPS).map(|_| OnceLock::new()).collect(),
        }
    }

    fn flow(&self) -> &Flow {
        &self.threads[thread_id::slot(self.threads.len())]
    }

    fn step(&self, step: &Arc<CallingStep>) -> Option<&StepTimes> {
        let make = || StepTimes { step: step.clone(), requests: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) };
        self.steps.iter().map(|place| place.get_or_init(make)).find(|times| times.step == *step)
    }
}

impl RouteCounters {
    fn counters(&self) -> &RequestCounters {
        self.0.get_or_init(|| Box::new(RequestCounters::new()))
    }

    /// A request has come.
    pub fn enter(&self) {
        self.counters().flow().entered.fetch_add(1, Ordering::Relaxed);
    }

    /// A request that had come is over.
    pub fn count_left(&self) {
        self.counters().flow().left.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has ended; `received` are the bytes of its body.
    pub fn count(&self, ended: &RequestEnd<'_>, received: u64) {
        let known = |method: &Method| METHODS.iter().position(|known| known == method);
        let method = ended.method().and_then(known).unwrap_or(METHODS.len()) as u8;
        let own = self.counters();
        own.durations.count(RequestKind { method, status: ended.code(), error: ended.error_type() }, ended.total);
        let flow = own.flow();
        if let Some(head) = ended.head {
            flow.heads.fetch_add(1, Ordering::Relaxed);
            flow.nanoseconds.fetch_add(head.as_nanos() as u64, Ordering::Relaxed);
        }
        for (counter, bytes) in [(&flow.received, received), (&flow.sent, ended.end.bytes)] {
            if bytes > 0 {
                counter.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }

    /// How long the steps of a request took that made these calls.
    pub fn count_steps(&self, calls: &[CallRecord]) {
        for (at, call) in calls.iter().enumerate() {
            // Each step once, at its first call.
            if calls[..at].iter().any(|before| before.step == call.step) {
                continue;
            }
            let own = calls[at..].iter().filter(|other| other.step == call.step);
            let end = own.filter_map(|call| call.ended).max();
            let Some(time) = end.map(|end| end.saturating_sub(call.began)) else { continue };
            if let Some(times) = self.counters().step(&call.step) {
                times.requests.fetch_add(1, Ordering::Relaxed);
                times.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
            }
        }
    }

    fn sum(&self, read: impl Fn(&Flow) -> &AtomicU64) -> u64 {
        let threads = self.0.get().map_or(&[][..], |own| &own.threads);
        threads.iter().map(|thread| read(thread).load(Ordering::Relaxed)).sum()
    }

    /// Requests in progress.
    pub fn active(&self) -> u64 {
        // `left` first, so that the difference is never negative.
        let left = self.sum(|flow| &flow.left);
        self.sum(|flow| &flow.entered).saturating_sub(left)
    }

    /// How long requests took, by the labels that tell them apart: method, status, and the type of the error if they failed.
    /// `_OTHER` and 0 are what is counted together.
    fn times(&self) -> impl Iterator<Item = (String, Snapshot)> {
        self.0
            .get()
            .into_iter()
            .flat_map(|own| own.durations.snapshots())
            .map(|(kind, times)| (RequestKind::labels(kind), times))
    }
}

/// Requests that the end of the process cuts off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutOff {
    /// Without an answer.
    pub requests: u64,
    /// In the middle of their answer, or of a stream.
    pub answers: u64,
}

/// The counters of all routes. Each user keeps its own counters at hand, so that counting needs no search.
#[derive(Default)]
pub(super) struct RouteRegistry(Mutex<IndexMap<Arc<str>, Arc<RouteCounters>>>);

impl RouteRegistry {
    /// The counters of the requests for a route; `None` for requests that no endpoint serves. A reload continues them.
    pub(super) fn of(&self, name: Option<&str>) -> Arc<RouteCounters> {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that no configuration has any more are looked for once a configuration, not at each of its routes.
        if name.is_none() {
            routes.retain(|_, counters| Arc::strong_count(counters) > 1);
        }
        let name = name.map(template).unwrap_or_default();
        routes.entry(name.into()).or_default().clone()
    }

    /// Requests in progress, and answers that have begun so far and whose request has ended.
    pub(super) fn in_flight(&self) -> CutOff {
        let routes = self.all();
        let counted = routes.iter().map(|(_, own)| (own.active(), own.sum(|flow| &flow.heads)));
        let (requests, answers) =
            counted.fold((0, 0), |(requests, answers), (more, heads)| (requests + more, answers + heads));
        CutOff { requests, answers }
    }

    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<RouteCounters>)> {
        let routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes.iter().map(|(name, counters)| (name.clone(), counters.clone())).collect()
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let routes: Vec<_> = self.all().into_iter().map(|(name, counters)| (label(&name), counters)).collect();
        let mut family = out.histogram("http_server_request_duration_seconds", DURATION);
        for (route, counters) in &routes {
            for (labels, times) in counters.times() {
                family.times(&format!("http_route=\"{route}\",{labels}"), &times);
            }
        }
        let mut family = out.gauge("http_server_active_requests", "Requests in progress.");
        for (route, counters) in &routes {
            family.add(format_args!("http_route=\"{route}\""), counters.active());
        }
        // Of a thousand routes, buckets for this too would be as long again.
        let mut family = out.summary("crocodile_pear_response_head_duration_seconds", HEAD);
        for (route, own) in &routes {
            let seconds = Duration::from_nanos(own.sum(|flow| &flow.nanoseconds)).as_secs_f64();
            family.sum(format_args!("http_route=\"{route}\""), own.sum(|flow| &flow.heads), seconds);
        }
        let mut family = out.counter("http_server_request_body_bytes_total", RECEIVED);
        for (route, own) in &routes {
            family.add(format_args!("http_route=\"{route}\""), own.sum(|flow| &flow.received));
        }
        let mut family = out.counter("http_server_response_body_bytes_total", SENT);
        for (route, own) in &routes {
            family.add(format_args!("http_route=\"{route}\""), own.sum(|flow| &flow.sent));
        }
        let mut family = out.summary("crocodile_pear_step_duration_seconds", STEP);
        for (route, own) in &routes {
            let steps = own.0.get().map_or(&[][..], |own| &own.steps);
            for times in steps.iter().map_while(OnceLock::get) {
                let (index, step) = (times.step.index, label(&times.step.name));
                let seconds = Duration::from_nanos(times.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
                let labels = format_args!("http_route=\"{route}\",step=\"{step}\",index=\"{index}\"");
                family.sum(labels, times.requests.load(Ordering::Relaxed), seconds);
            }
        }
    }
}

/// The route as OpenTelemetry has it: what is written of an endpoint, without its method, which is a label of its own.
pub(super) fn template(name: &str) -> &str {
    match name.split_once(' ') {
        Some((method, rest)) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => rest,
        _ => name,
    }
}

const DURATION: &str =
    "Time from a request's beginning to the last byte of its answer. The status is 499 if the client left before.";
const HEAD: &str = "Time from a request's beginning to the head of its answer.";
const RECEIVED: &str = "Size of request bodies in bytes.";
const SENT: &str = "Size of response bodies in bytes.";
const STEP: &str =
    "Time of a pipeline's step for one request, from the beginning of its first call to the end of its last.";

#[cfg(test)]
mod tests {
    use super::super::requests::*;

    #[test]
    fn a_route_has_no_method() {
        assert_eq!(template("GET /orders/{id}"), "/orders/{id}");
        assert_eq!(template("GET shop.example/orders 2024-01"), "shop.example/orders 2024-01");
        assert_eq!(template("/all 2"), "/all 2");
    }

    #[test]
    fn a_route_without_requests_has_no_counters() {
        let metrics = RouteRegistry::default();
        let counters = metrics.of(Some("GET /orders"));
        assert_eq!((counters.active(), counters.times().count()), (0, 0));
        assert!(counters.0.get().is_none(), "they take more than all else that is made of a small endpoint");
        counters.enter();
        assert_eq!(counters.active(), 1);
    }

    #[test]
    fn a_route_that_is_gone_is_forgotten() {
        let metrics = RouteRegistry::default();
        let kept = metrics.of(Some("GET /kept"));
        drop(metrics.of(Some("GET /gone")));
        let again = metrics.of(Some("POST /kept"));
        assert!(Arc::ptr_eq(&kept, &again));
        let _unserved = metrics.of(None);
        let known: Vec<String> = metrics.all().into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(known, ["/kept", ""]);
    }
}
