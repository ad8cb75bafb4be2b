//! From a request that has ended to its spans, with the names of OpenTelemetry's semantic conventions.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::error::{ErrorType, Kind};
use crocodile_pear::unstable::request::facts::ClientFacts;
use crocodile_pear::unstable::telemetry::request_record::{CacheResult, CallKind, CallRecord, Record};
use crocodile_pear::unstable::telemetry::trace::{Trace, span_id};
use http::Method;
use http::header::USER_AGENT;

use super::otlp::{AttributeValue, Span, SpanKind};
use crate::server::Unfinished;
use crate::telemetry::request_end::RequestEnd;

/// The approximate memory of a request while it waits, without its calls.
const SPAN: usize = 1 << 10;

/// A longer text of a client is cut.
const LONGEST: usize = 2 << 10;

/// A request that has ended, as its spans need it: they are made elsewhere.
pub struct FinishedRequest {
    record: Arc<Record>,
    method: Option<Method>,
    path: Option<Box<str>>,
    route: Option<Arc<str>>,
    client: Option<ClientFacts>,
    host: Option<Box<str>>,
    agent: Option<Box<str>>,
    id: Box<str>,
    status: Option<u16>,
    bytes: u64,
    head: Option<Duration>,
    total: Duration,
    error: Option<ErrorType>,
    /// How the client ended the request early, if it did.
    client_end: Option<Unfinished>,
    failed: bool,
    /// When it ended.
    time: SystemTime,
}

impl FinishedRequest {
    /// The one that has just ended.
    pub fn new(ended: &RequestEnd<'_>, record: &Arc<Record>, route: Option<&Arc<str>>) -> Self {
        let scope = ended.scope;
        FinishedRequest {
            record: record.clone(),
            method: ended.method().cloned(),
            path: scope.path().map(|path| cut(path.as_bytes())),
            route: route.cloned(),
            client: scope.facts().client().cloned(),
            host: scope.host().map(cut),
            agent: scope.field(&USER_AGENT).map(cut),
            id: scope.facts().id().into(),
            status: ended.status.map(|status| status.as_u16()),
            bytes: ended.end.bytes,
            head: ended.head,
            total: ended.total,
            error: ended.error_type(),
            client_end: ended.end.how.unfinished().filter(|reason| *reason != Unfinished::Failed),
            failed: ended.failed(),
            time: SystemTime::now(),
        }
    }

    /// About how much memory it takes.
    pub fn weight(&self) -> usize {
        SPAN + self.record.weight()
    }

    /// About how many spans it has.
    pub fn count(&self) -> usize {
        1 + self.record.number() as usize
    }

    /// Its spans: of itself, of its steps and of their calls.
    pub fn spans(&self) -> Vec<Span> {
        let Some(trace) = self.record.trace() else { return Vec::new() };
        let began = self.time.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(self.total);
        let at = |moment: Duration| (began + moment).as_nanos() as u64;
        let mut spans = vec![self.own(trace, &at)];
        let calls = self.record.calls();
        let mut steps: Vec<(u16, usize)> = Vec::new();
        for call in &calls {
            let place = match steps.iter().find(|(index, _)| *index == call.step.index) {
                Some((_, place)) => *place,
                None => {
                    steps.push((call.step.index, spans.len()));
                    spans.push(step(trace, call, at(call.began)));
                    spans.len() - 1
                }
            };
            let ended = at(call.ended.unwrap_or(self.total));
            spans[place].ended = spans[place].ended.max(ended);
            let parent = spans[place].id;
            spans.push(client(trace, call, parent, ended, &at));
        }
        spans
    }

    fn own(&self, trace: &Trace, at: &impl Fn(Duration) -> u64) -> Span {
        let mut attributes = Attributes::default();
        attributes.text("http.request.method", self.method.as_ref().map(Method::as_str));
        attributes.text("url.path", self.path.as_deref());
        attributes.text("url.scheme", self.client.as_ref().map(ClientFacts::scheme));
        attributes.text("http.route", self.route.as_deref());
        attributes.number("http.response.status_code", self.status.map(u64::from));
        attributes.number("http.response.body.size", Some(self.bytes));
        attributes.text("server.address", self.host.as_deref());
        attributes.text("user_agent.original", self.agent.as_deref());
        attributes.text("request.id", Some(&self.id));
        if let Some(client) = &self.client {
            attributes.text("client.address", Some(&client.address.to_string()));
            attributes.text("network.protocol.version", client.protocol().strip_prefix("HTTP/"));
        }
        let error = self.error.map(|error| error.to_string());
        attributes.text("error.type", self.client_end.map(Unfinished::name).or(error.as_deref()));
        // The parent is elsewhere, where there is one.
        let flags = if trace.parent().is_some() { 0x300 } else { 0x100 };
        Span {
            parent: trace.parent(),
            flags: u32::from(trace.flags()) | flags,
            name: self.route.as_deref().or(self.method.as_ref().map(Method::as_str)).unwrap_or("HTTP").to_owned(),
            kind: SpanKind::Server,
            ended: at(self.total),
            attributes: attributes.0,
            events: self.head.map(|head| ("head", at(head))).into_iter().collect(),
            failed: self.failed,
            ..span(trace, trace.own(), at(Duration::ZERO))
        }
    }
}

/// A step that makes calls; it ends with the last of them.
fn step(trace: &Trace, call: &CallRecord, began: u64) -> Span {
    Span { parent: Some(trace.own()), name: call.step.name.to_string(), ..span(trace, span_id(), began) }
}

/// The span of an attempt of a call.
fn client(trace: &Trace, call: &CallRecord, parent: u64, ended: u64, at: &impl Fn(Duration) -> u64) -> Span {
    let mut attributes = Attributes::default();
    let http = call.kind == CallKind::Http;
    match call.kind {
        CallKind::Http => {
            attributes.text("http.request.method", Some(call.method.as_str()));
            attributes.text("crocodile_pear.upstream", Some(&call.upstream));
        }
        CallKind::Database => {
            attributes.text("db.system.name", Some("postgresql"));
            attributes.text("db.query.text", Some(&call.target));
            attributes.text("crocodile_pear.database", Some(&call.upstream));
        }
    }
    if let Some(server) = &call.server {
        attributes.text("url.full", http.then(|| url(call, server)).as_deref());
        let place = server.split('/').next().filter(|place| !place.is_empty()).unwrap_or(server);
        let port = place.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        attributes.text("server.address", Some(port.map_or(place, |(host, _)| host)));
        attributes.number("server.port", port.map(|(_, port)| port.into()));
    }
    attributes.number("http.response.status_code", call.status.filter(|_| http).map(|status| status.as_u16().into()));
    attributes.number("http.response.body.size", Some(call.bytes).filter(|_| http));
    attributes.number("http.request.resend_count", Some(u64::from(call.attempt) - 1).filter(|resent| *resent > 0));
    attributes.text("crocodile_pear.cache", call.cache.map(CacheResult::name));
    attributes.truth("crocodile_pear.connection.reused", call.connected.map(|_| call.reused));
    attributes.truth("crocodile_pear.dropped", call.dropped.then_some(true));
    let status = call.status.filter(|status| status.as_u16() >= 400).map(|status| status.as_str().to_owned());
    let error = call.error.map(Kind::name).or(status.as_deref());
    attributes.text("error.type", error);
    Span {
        parent: Some(parent),
        name: format!("{} {}", call.method, call.upstream),
        // What the cache had went to no server.
        kind: if call.server.is_some() { SpanKind::Client } else { SpanKind::Internal },
        ended,
        failed: error.is_some(),
        attributes: attributes.0,
        events: events(call, at),
        ..span(trace, call.span, at(call.began))
    }
}

/// The ends of the phases: waiting and opening the connection, until the head of the answer.
fn events(call: &CallRecord, at: &impl Fn(Duration) -> u64) -> Vec<(&'static str, u64)> {
    let mut events = Vec::new();
    if let Some(connected) = call.connected {
        if let Some(opening) = &call.opening {
            let dialled = connected.saturating_sub(opening.tls);
            events.push(("dns", at(dialled.saturating_sub(opening.connect))));
            events.push(("connect", at(dialled)));
            if opening.tls > Duration::ZERO {
                events.push(("tls", at(connected)));
            }
        }
        events.push(("connected", at(connected)));
    }
    events.extend(call.head.map(|head| ("head", at(head))));
    events
}

fn span(trace: &Trace, id: u64, began: u64) -> Span {
    Span {
        trace: trace.id().to_owned(),
        id,
        parent: None,
        state: trace.state().and_then(|state| state.to_str().ok()).unwrap_or_default().to_owned(),
        flags: u32::from(trace.flags()) | 0x100,
        name: String::new(),
        kind: SpanKind::Internal,
        began,
        ended: began,
        attributes: Vec::new(),
        events: Vec::new(),
        failed: false,
    }
}

/// The URL of a call, whose query has its names alone: values may be secrets.
fn url(call: &CallRecord, server: &str) -> String {
    let (path, query) = call.target.split_once('?').unwrap_or((&*call.target, ""));
    let names = query.split('&').filter(|pair| !pair.is_empty());
    let names: Vec<String> =
        names.map(|pair| format!("{}=REDACTED", pair.split('=').next().unwrap_or_default())).collect();
    let scheme = if call.tls { "https" } else { "http" };
    let mark = if names.is_empty() { "" } else { "?" };
    format!("{scheme}://{server}{path}{mark}{}", names.join("&"))
}

fn cut(text: &[u8]) -> Box<str> {
    String::from_utf8_lossy(&text[..text.len().min(LONGEST)]).into()
}

/// Attributes; those that are not known are left out.
#[derive(Default)]
struct Attributes(Vec<(&'static str, AttributeValue)>);

impl Attributes {
    fn text(&mut self, name: &'static str, text: Option<&str>) {
        self.0.extend(text.map(|text| (name, AttributeValue::Text(text.to_owned()))));
    }

    fn number(&mut self, name: &'static str, number: Option<u64>) {
        self.0.extend(number.map(|number| (name, AttributeValue::Integer(number))));
    }

    fn truth(&mut self, name: &'static str, truth: Option<bool>) {
        self.0.extend(truth.map(|truth| (name, AttributeValue::Truth(truth))));
    }
}
