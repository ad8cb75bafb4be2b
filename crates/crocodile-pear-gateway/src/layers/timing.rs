//! `Server-Timing` (W3C): reports the timers of a pipeline to every client, and its calls to selected clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, ExpressionSpec, Field, Json, Located, Node};
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::jq::{self, Data, Filter};
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::request_record::CallRecord;
use crocodile_pear::unstable::telemetry::timeline::metric;
use http::header::{HeaderName, HeaderValue, TE, TRAILER};
use http::{HeaderMap, Method, Response};
use http_body::Frame;

use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

spec! {
    /// Which clients get timings in `Server-Timing`: at the head of an answer as far as they are known then, and in
    /// the trailer for clients that accept trailers. `on` means all clients.
    pub struct ServerTiming {
        /// Which requests get timings: those for which this expression is true, as in `$client.address |
        /// startswith("10.")`. Default: all.
        pub when: Option<ExpressionSpec>,
    }
    short(on)
}

fn on(text: Located<String>, problems: &mut Problems) -> Option<ServerTiming> {
    match text.value.as_str() {
        "on" => Some(ServerTiming { when: None }),
        _ => problems.error(text.span, "`server_timing` is neither `on` nor a map", "write `on`, or `{ when: … }`"),
    }
}

/// The contents of `Server-Timing`: always timers, and calls if configured.
#[derive(Clone, Debug)]
pub struct Timing(Option<ServerTiming>);

impl Decode for Timing {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        ServerTiming::decode(node, problems).map(|written| Timing(Some(written)))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        ServerTiming::schema(definitions)
    }
}

impl Spec for Timing {
    type Ready = Chosen;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "server_timing",
        "Sends timings of the calls to each upstream in `Server-Timing`: `on`, or `{ when: … }` for some \
             requests. Timers are always sent.",
    ));

    fn unwritten() -> Option<Self> {
        Some(Timing(None))
    }

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Chosen>> {
        Some(Arc::new(match self.0.as_ref().map(|written| &written.when) {
            None => Chosen::Nobody,
            Some(None) => Chosen::All,
            Some(Some(when)) => Chosen::When(cx.condition(when, &[])?),
        }))
    }

    fn around(ready: &Arc<Chosen>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let timed = at.plan.is_some_and(|plan| plan.is_timed());
        let told = timed || !matches!(**ready, Chosen::Nobody);
        told.then(|| Arc::new(Telling { chosen: ready.clone(), timed }) as Arc<dyn Layer>)
    }
}

/// Whose requests get their calls reported.
pub enum Chosen {
    /// No client.
    Nobody,
    All,
    /// Requests for which this expression is true.
    When(Filter),
}

impl Chosen {
    fn has(&self, scope: &Scope) -> bool {
        match self {
            Chosen::Nobody => false,
            Chosen::All => true,
            // If the expression fails, nothing is reported.
            Chosen::When(filter) => filter
                .run_one(jq::null(), &mut |name| scope.variable(name, &None))
                .is_ok_and(|value| value.is_some_and(|value| Data::Value(value).holds())),
        }
    }
}

/// Reports to the clients of one endpoint.
struct Telling {
    chosen: Arc<Chosen>,
    /// Whether its pipeline has timers.
    timed: bool,
}

impl Layer for Telling {
    /// Adds the finished timers to the head, and all of them to the trailer.
    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let calls = self.chosen.has(scope);
        if !calls && !self.timed {
            return Passage::Done;
        }
        if let Some(timing) = timing(scope, calls) {
            response.headers_mut().append(SERVER_TIMING, timing);
        }
        // An answer to HEAD has no trailer.
        let bodiless = *scope.call_method() == Method::HEAD || response.body().is_empty();
        if bodiless || !list::has(scope.headers(), &TE, "trailers") {
            return Passage::Done;
        }
        if let Ok(body) = std::mem::replace(response.body_mut(), AnswerBody::empty()).into_pulled() {
            response.headers_mut().append(TRAILER, HeaderValue::from_static("server-timing"));
            *response.body_mut() = AnswerBody::Pulled(Box::pin(Timed { body, scope: Some(scope.clone()), calls }));
        }
        Passage::Done
    }

    /// Calls are recorded only if a layer wants to know how answers end.
    fn watches(&self) -> bool {
        !matches!(*self.chosen, Chosen::Nobody)
    }

    fn outline(&self) -> Option<String> {
        let what = match (&*self.chosen, self.timed) {
            (Chosen::Nobody, _) => "timers",
            (_, false) => "calls",
            (_, true) => "timers and calls",
        };
        Some(format!("tells the {what} in Server-Timing"))
    }
}

fn timing(scope: &Scope, calls: bool) -> Option<HeaderValue> {
    let mut value = scope.timeline().server_timing().unwrap_or_default();
    if calls && let Some(record) = scope.record() {
        phases(&record.calls(), scope.timeline().elapsed(), &mut value);
    }
    HeaderValue::from_str(&value).ok().filter(|value| !value.is_empty())
}

/// A phase of a call, if the call has it.
type TimingPart = fn(&CallRecord) -> Option<Duration>;

const PARTS: [(&str, TimingPart); 5] = [
    ("wait", |call| Some(call.connected?.saturating_sub(call.began))),
    ("dns", |call| Some(call.opening.as_ref()?.dns)),
    ("connect", |call| Some(call.opening.as_ref()?.connect)),
    ("tls", |call| Some(call.opening.as_ref()?.tls)),
    ("first-byte", |call| Some(call.head?.saturating_sub(call.connected?))),
];

/// The most upstreams that are reported one by one.
const UPSTREAMS: usize = 16;

/// Writes, for each upstream, the time from the start of its first call to the end of its last one. Then follow the
/// longest time of each phase over all calls, and the time of the request so far.
fn phases(calls: &[CallRecord], now: Duration, value: &mut String) {
    let mut told: Vec<&str> = Vec::new();
    for call in calls {
        if told.contains(&&*call.upstream) || told.len() == UPSTREAMS {
            continue;
        }
        told.push(&call.upstream);
        let own = calls.iter().filter(|other| other.upstream == call.upstream);
        let end = own.map(|call| call.ended.unwrap_or(now)).max().unwrap_or(now);
        metric(value, &call.upstream, end.saturating_sub(call.began));
    }
    for (name, part) in PARTS {
        if let Some(longest) = calls.iter().filter_map(part).max().filter(|longest| !longest.is_zero()) {
            metric(value, name, longest);
        }
    }
    metric(value, "total", now);
}

/// A body with the timers in its trailer. Its length is not announced, because trailers need chunks.
struct Timed {
    body: PulledBody,
    scope: Option<Arc<Scope>>,
    /// Whether the calls are reported too.
    calls: bool,
}

impl Timed {
    fn trailer(&mut self, before: Option<HeaderMap>) -> Option<Frame<Bytes>> {
        let mut trailers = before.unwrap_or_default();
        let timing = self.scope.take().and_then(|scope| timing(&scope, self.calls));
        trailers.extend(timing.map(|timing| (SERVER_TIMING, timing)));
        Some(trailers).filter(|trailers| !trailers.is_empty()).map(Frame::trailers)
    }
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.scope.is_none() {
            return Poll::Ready(None);
        }
        let frame = std::task::ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(match frame {
            None => self.trailer(None).map(Ok),
            Some(Ok(frame)) => match frame.into_trailers() {
                Ok(trailers) => self.trailer(Some(trailers)).map(Ok),
                Err(data) => Some(Ok(data)),
            },
            failed => failed,
        })
    }
}
