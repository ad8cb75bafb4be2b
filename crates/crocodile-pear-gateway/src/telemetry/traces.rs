//! `traces`: what happened to requests, as spans, to a collector (OTLP over HTTP).

mod counters;
mod export;
mod otlp;
mod span;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Entries, Located, Secret, Share, Timeout, only};
use crocodile_pear::unstable::net::tls::TlsSpec;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::telemetry::trace::{RemoteContext, Trace};
use crocodile_pear::unstable::upstream::{Remote, UpstreamEnvironment};
use crocodile_pear::unstable::{choice, spec};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::telemetry::request_end::RequestEnd;
pub use counters::SpanCounters;
use export::{Exporter, Queue};
use span::FinishedRequest;

spec! {
    /// Traces of requests: one span for the request, one for each step that makes calls, and one for each call. They
    /// are sent to a collector (OTLP over HTTP).
    pub struct TracesSpec {
        /// The URL of the collector. If it has no path, `/v1/traces` is added.
        pub to: Located<String>,
        /// Header fields that the collector requires.
        pub headers: Option<Entries<Secret>>,
        /// TLS to the collector: CAs to trust, client certificate, versions.
        pub tls: Option<TlsSpec>,
        /// The share of new traces to record, chosen at random. A trace that a client began is recorded if the client
        /// says so.
        pub sample: Share = Share(0.01),
        /// Requests that take this long are always recorded, and so are failed requests and 5xx answers. If `sample`
        /// had not chosen such a request, only the gateway's own spans are recorded.
        pub slow: Timeout = Timeout::After(Duration::from_secs(1)),
        /// Whose traces are continued. A client whose trace is continued can have it recorded: if strangers can call,
        /// write `trusted`.
        pub accept: Accept = Accept::All,
        /// The name of the gateway in traces.
        pub service: String = "crocodile-pear".to_owned(),
    }
    short(collector)
}

fn collector(to: Located<String>, problems: &mut Problems) -> Option<TracesSpec> {
    only([("to", to)], problems)
}

choice! {
    /// Whose traces go on here, as their `traceparent` says; for others one begins.
    pub enum Accept {
        /// The contexts of proxies in `clients.trust`.
        Trusted = "trusted",
        /// The contexts of all clients. They can have as many traces recorded as they like.
        All = "all",
        /// No contexts.
        None = "none",
    }
}

/// Traces, ready.
pub struct Traces {
    accept: Accept,
    /// The share, of 2^56.
    share: u64,
    slow: Option<Duration>,
    queue: Queue,
    /// Until it begins.
    exporter: Mutex<Option<Exporter>>,
}

/// All traces.
const ALL: u64 = 1 << 56;

impl TracesSpec {
    /// Checks it and makes it ready; every problem is noted.
    pub fn compile(
        &self,
        given: &UpstreamEnvironment<'_>,
        counters: &Arc<SpanCounters>,
        problems: &mut Problems,
    ) -> Option<Arc<Traces>> {
        let headers = self.fields(problems);
        if self.service.is_empty() {
            problems.error::<()>(self.to.span, "`service` is empty", "leave it out");
        }
        let bare = self.to.value.split_once("://").is_some_and(|(_, rest)| !rest.trim_end_matches('/').contains('/'));
        let path = if bare { "/v1/traces" } else { "" };
        let whole = format!("{}{path}", if bare { self.to.value.trim_end_matches('/') } else { &self.to.value });
        let to = Located { value: whole, span: self.to.span, runs: None };
        let remote = Remote::compile("traces", &to, self.tls.as_ref(), export::PATIENCE, given, problems);
        let (headers, remote) = (headers?, remote?);
        let (queue, received) = Queue::new(counters.clone());
        let (service, counters) = (self.service.clone(), counters.clone());
        let exporter = Exporter { remote, headers, service, received, counters };
        Some(Arc::new(Traces {
            accept: self.accept,
            share: (self.sample.0 * ALL as f64) as u64,
            slow: self.slow.duration(),
            queue,
            exporter: Mutex::new(Some(exporter)),
        }))
    }

    fn fields(&self, problems: &mut Problems) -> Option<HeaderMap> {
        let mut fields = HeaderMap::new();
        let mut sound = Some(());
        for (name, (place, value)) in self.headers.iter().flatten() {
            let known = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value.expose()).ok());
            match known {
                Some((name, mut value)) => {
                    value.set_sensitive(true);
                    fields.insert(name, value);
                }
                None => {
                    let remedy = "write `NAME: VALUE`, with the value in a variable of the environment: `${TOKEN}`";
                    sound = problems.error(*place, format!("`{name}` is not a header field with its value"), remedy);
                }
            }
        }
        sound.map(|()| fields)
    }
}

impl Traces {
    /// Begins to send; the thread ends when nobody has these traces any more, and what is left is sent.
    pub fn begin(&self) {
        let exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(exporter) = exporter {
            exporter.begin();
        }
    }

    /// The trace that a request belongs to, before its pipeline runs. `trusted`: a proxy that is believed sent it.
    pub fn follow(&self, scope: &Scope, trusted: bool) -> Trace {
        let accepts = match self.accept {
            Accept::All => true,
            Accept::Trusted => trusted,
            Accept::None => false,
        };
        if let Some(given) = (accepts && scope.traced()).then(|| RemoteContext::read(scope.headers())).flatten() {
            return Trace::from_remote(given);
        }
        let mut trace = Trace::new(*scope.facts().id_digits());
        trace.set_sampled(trace.among(self.share));
        trace
    }

    /// A request has ended: its spans, if it is recorded. `route` is the endpoint that served it.
    pub fn record(&self, ended: &RequestEnd<'_>, route: Option<&Arc<str>>) {
        let Some(record) = ended.scope.record() else { return };
        let Some(trace) = record.trace() else { return };
        let slow = self.slow.is_some_and(|slow| ended.total >= slow);
        if trace.sampled() || slow || ended.failed() {
            self.queue.add(FinishedRequest::new(ended, record, route));
        }
    }

    /// Waits until what has ended is sent, for at most so long.
    pub fn flush(&self, most: Duration) {
        self.queue.flush(most);
    }
}
