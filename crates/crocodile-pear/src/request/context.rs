//! The client's request, as expressions and templates see it.

use std::any::Any;
use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, Method, Version};

use crate::config::spec::Timeout;
use crate::format::{Readable, form};
use crate::http::http1::Headers;
use crate::jq::{self, Data, Value};
use crate::message::body::AnswerBody;
use crate::message::names::Names;
use crate::message::side_channel::{BodyPace, Passage};
use crate::telemetry::request_record::Record;
use crate::telemetry::timeline::Timeline;
use crate::telemetry::trace::Trace;

use super::fetch_memo::Memo;
use crate::request::facts::Facts;
use tokio::time::Instant;

/// The variables that every expression may use, without `$`. The facts of a request use these names too.
pub const VARIABLES: [&str; 12] =
    ["path", "query", "headers", "cookies", "body", "method", "host", "client", "claims", "version", "route", "id"];

/// The remedy for an expression over a request that takes a part of it as a field: `.method` where `$method` is meant.
pub fn undotted(expression: &str) -> Option<String> {
    let rest = expression.trim_start_matches(['(', ' ']).strip_prefix('.')?;
    let word = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
    VARIABLES.contains(&word).then(|| format!("write `${word}` for `.{word}`"))
}

/// The parameters of a request's path, by name.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The parameters that are one segment, percent-decoded.
    pub values: Vec<(Arc<str>, String)>,
    /// The one that is the rest of the path, and where in the path it begins: at its slash, or at the end.
    pub rest: Option<(Arc<str>, usize)>,
}

/// A request of a client, while it is served.
pub struct Scope {
    method: Method,
    /// Whether a HEAD is served as the GET of its path.
    as_get: bool,
    params: Params,
    target: Option<PathAndQuery>,
    headers: Headers,
    facts: Facts,
    extensions: Extensions,
    pub(super) body: Mutex<Option<AnswerBody>>,
    passage: Passage,
    pace: Option<Arc<dyn BodyPace>>,
    timeline: Timeline,
    record: Option<Arc<Record>>,
    deadline: Option<Instant>,
    producers: AtomicU32,
    pub(super) values: Values,
    memo: OnceLock<Arc<Memo>>,
    parts: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// The variables as values, each made when an expression first asks for it.
#[derive(Default)]
pub(super) struct Values {
    path: OnceLock<Value>,
    query: OnceLock<Value>,
    headers: OnceLock<Value>,
    pub(super) body: OnceLock<Data>,
    /// The client's body, read whole for calls that send a copy of it.
    pub(super) copy: OnceLock<Bytes>,
    /// The client's body as it came, if nothing reads its type.
    pub(super) unread: OnceLock<(Readable, Bytes)>,
}

impl Scope {
    /// A scope for a request. Without a path there is no target.
    pub fn new(method: Method, target: Option<PathAndQuery>, headers: impl Into<Headers>, body: AnswerBody) -> Self {
        Scope {
            method,
            as_get: false,
            params: Params::default(),
            target,
            headers: headers.into(),
            facts: Facts::default(),
            extensions: Extensions::new(),
            body: Mutex::new(Some(body)),
            passage: Passage::default(),
            pace: None,
            timeline: Timeline::begin(),
            record: None,
            deadline: None,
            producers: AtomicU32::new(0),
            values: Values::default(),
            memo: OnceLock::new(),
            parts: OnceLock::new(),
        }
    }

    /// The same request with other header fields, for a pipeline that runs apart from it: without what only the request itself
    /// has, its deadline and what those around the pipeline keep of it.
    #[must_use]
    pub fn fork(&self, headers: HeaderMap) -> Self {
        // The id is made once for each request, at first use.
        let _ = self.facts.id();
        let forked = Scope::new(self.method.clone(), self.target.clone(), headers, AnswerBody::empty());
        Scope {
            as_get: self.as_get,
            params: self.params.clone(),
            facts: self.facts.clone(),
            timeline: self.timeline.share(),
            record: self.record.clone(),
            ..forked
        }
    }

    /// Sets the path parameters.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    /// Bounds how long the whole request may take; of several bounds the shortest holds.
    pub fn set_timeout(&mut self, timeout: Timeout) {
        let end = match timeout {
            Timeout::After(duration) => self.timeline.began().checked_add(duration),
            Timeout::Never => None,
        };
        self.deadline = match (self.deadline, end) {
            (Some(before), Some(end)) => Some(before.min(end)),
            (before, end) => before.or(end),
        };
    }

    /// When the whole request is over.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    pub fn call_method(&self) -> &Method {
        if self.as_get { &Method::GET } else { &self.method }
    }

    /// Serves a HEAD as the GET of its path, for a pipeline that reads bodies: the answer's body is left out at its end.
    pub fn call_as_get(&mut self) {
        self.as_get = self.method == Method::HEAD;
    }

    /// A path parameter, percent-decoded. Only the rest of the path is unchanged.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        let bare = || self.rest().strip_prefix('/').unwrap_or(self.rest());
        let rest = self.params.rest.iter().map(move |(name, _)| (&**name, bare()));
        self.params.values.iter().map(|(name, value)| (&**name, value.as_str())).chain(rest)
    }

    /// The rest of the path, unchanged: with its leading slash, or empty.
    pub fn rest(&self) -> &str {
        let rest = self.params.rest.as_ref().and_then(|(_, at)| self.path()?.get(*at..));
        rest.unwrap_or_default()
    }

    /// The path, unchanged.
    pub fn path(&self) -> Option<&str> {
        self.target.as_ref().map(PathAndQuery::path)
    }

    /// The target, unchanged.
    pub fn target(&self) -> Option<&PathAndQuery> {
        self.target.as_ref()
    }

    /// The query, unchanged, without `?`.
    pub fn query(&self) -> Option<&str> {
        self.target.as_ref().and_then(PathAndQuery::query)
    }

    /// The host of the request, unchanged: with its port, if it has one. In HTTP/2 it is `:authority`.
    pub fn host(&self) -> Option<&[u8]> {
        self.headers.first(&HOST)
    }

    /// The query that a call sends: without the credentials that the gateway has checked.
    pub fn forwarded_query(&self) -> Option<Cow<'_, str>> {
        match (self.query()?, self.facts.credentials()) {
            (query, None) => Some(Cow::Borrowed(query)),
            (query, Some(credentials)) => {
                Some(credentials.other_parameters(query)).filter(|left| query.is_empty() || !left.is_empty())
            }
        }
    }

    /// The first value of a header field, without a look at the others.
    pub fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        self.headers.first(name)
    }

    /// The client's header fields.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The same, to be changed before the pipeline runs.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    /// Whether the request may have come through another gateway: there is `Via` or `Max-Forwards`.
    pub fn forwarded(&self) -> bool {
        self.headers.forwarded()
    }

    /// Whether the client may choose the trace of the request: `traceparent` was seen, or the fields were not parsed.
    pub fn traced(&self) -> bool {
        self.headers.traced()
    }

    /// The HTTP version of the request.
    pub fn version(&self) -> Version {
        self.facts.client().map_or(Version::HTTP_11, |client| client.version)
    }

    /// The client, and what is known of the request.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The same, to be changed before the pipeline runs.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Values that the layers keep of a request for themselves, by their type.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The same, to be changed before the pipeline runs.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The extras that the client can receive besides the answer, for the call that is made for it.
    pub fn passage(&self) -> &Passage {
        &self.passage
    }

    /// Says it, where the pipeline is that one call.
    pub fn set_passage(&mut self, passage: Passage) {
        self.passage = passage;
    }

    /// The pace of the client's body, if that is still to come.
    pub fn pace(&self) -> Option<&dyn BodyPace> {
        self.pace.as_deref()
    }

    /// Says how the client's body arrives.
    pub fn set_pace(&mut self, pace: Option<Arc<dyn BodyPace>>) {
        self.pace = pace;
    }

    /// Timers log one line for each producer, before the pipeline runs.
    pub fn time_briefly(&mut self) {
        self.timeline.be_brief();
    }

    /// The marks of the timers.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The record of the request, if one is kept.
    pub fn record(&self) -> Option<&Arc<Record>> {
        self.record.as_ref()
    }

    /// Keeps a record of the request, before the pipeline runs.
    pub fn keep_record(&mut self) {
        self.record = Some(Arc::new(Record::new(self.timeline.began())));
    }

    /// The same in a trace, which calls continue.
    pub fn keep_trace(&mut self, trace: Trace) {
        self.record = Some(Arc::new(Record::new(self.timeline.began()).in_trace(trace)));
    }

    /// Takes the client's body. There is only one.
    pub fn take_body(&self) -> Option<AnswerBody> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the client may have sent a body that is not empty.
    pub fn has_body(&self) -> bool {
        let body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        body.as_ref().is_some_and(|body| !body.is_empty())
    }

    /// The client's body, if it was not taken.
    pub fn body_mut(&mut self) -> Option<&mut AnswerBody> {
        self.body.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }

    /// Puts the client's body back after it was read.
    pub fn put_body(&self, body: AnswerBody) {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// Gives the request another query, before the pipeline runs; nothing, for none.
    pub fn replace_query(&mut self, query: Option<&str>) {
        let path = self.path().unwrap_or_default();
        let target = match query {
            Some(query) => PathAndQuery::try_from(format!("{path}?{query}")),
            None => PathAndQuery::try_from(path),
        };
        // A target without its query is still a target, and what is added is percent-encoded.
        if let Ok(target) = target {
            self.target = Some(target);
            self.values.query = OnceLock::new();
        }
    }

    /// Gives the request another body, JSON, before the pipeline runs.
    pub fn replace_body(&mut self, json: Bytes) {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.headers.remove(CONTENT_ENCODING);
        self.headers.remove(CONTENT_LENGTH);
        self.values.headers = OnceLock::new();
        self.values.body = OnceLock::new();
        self.values.unread = OnceLock::new();
        self.put_body(AnswerBody::Bytes(json));
    }

    /// Sets `$body`, read before the first step because an expression of the plan uses it.
    pub fn set_body_value(&self, value: impl Into<Data>) {
        // A second value would be an error in the plan; the first one stays.
        let _ = self.values.body.set(value.into());
    }

    /// The documents that were already fetched for this request.
    pub fn memo(&self) -> &Arc<Memo> {
        self.memo.get_or_init(Arc::default)
    }

    /// The pipeline's record of the parts of its answer, if it keeps one.
    pub fn parts<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.parts.get()?.clone().downcast().ok()
    }

    /// Notes from now on what the answer is made of. Returns false if something notes it already.
    pub fn note_parts<T: Send + Sync + 'static>(&self, parts: &Arc<T>) -> bool {
        self.parts.set(parts.clone()).is_ok()
    }

    /// A number for the next producer of this request.
    pub fn next_producer(&self) -> u32 {
        self.producers.fetch_add(1, Ordering::Relaxed)
    }

    /// The value of a variable; null for one that is not there.
    pub fn variable(&self, name: &str, names: &Names) -> Value {
        match name {
            "path" => self.values.path.get_or_init(|| self.path_value()).clone(),
            "query" => self.values.query.get_or_init(|| self.query_value()).clone(),
            "headers" => self.values.headers.get_or_init(|| header_value(&self.headers)).clone(),
            "cookies" => self.cookie_value(),
            "body" => self.body_data().into_value(),
            "method" => jq::string(self.method.as_str()),
            "host" => self.host().and_then(bare_host).map_or_else(jq::null, |host| jq::string(&host)),
            "client" | "route" | "id" => self.facts.variable(name),
            name => self.named(names, name).into_value(),
        }
    }

    /// The same as bytes: JSON need not be parsed only to be handed on.
    pub fn data(&self, name: &str, names: &Names) -> Data {
        match name {
            "body" => self.body_data(),
            name if VARIABLES.contains(&name) => self.variable(name, names).into(),
            name => self.named(names, name),
        }
    }

    fn body_data(&self) -> Data {
        self.values.body.get().cloned().unwrap_or_else(|| jq::null().into())
    }

    /// About how many bytes it takes to read the documents among these variables.
    pub fn weight(&self, variables: &[String], names: &Names) -> usize {
        let documents = variables.iter().filter(|name| *name == "body" || !VARIABLES.contains(&name.as_str()));
        documents.map(|name| self.data(name, names).weight()).sum()
    }

    /// A fact of the request, or a named result.
    fn named(&self, names: &Names, name: &str) -> Data {
        if let Some(found) = self.facts.found(name) {
            return found.clone().into();
        }
        let mut named = names.iter().flat_map(|names| names.values.iter());
        let named = named.find(|(known, _)| **known == *name).map(|(_, value)| value.clone());
        named.unwrap_or_else(|| jq::null().into())
    }

    fn path_value(&self) -> Value {
        jq::object(self.params().map(|(name, value)| (name, jq::string(value))))
    }

    fn cookie_value(&self) -> Value {
        let pairs = self.cookies().map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned())
        });
        form::gather(pairs)
    }

    /// The client's cookies, each with its value as it came (RFC 6265, 5.4), without quotation marks around it.
    pub fn cookies(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.headers().get_all(COOKIE).iter().map(HeaderValue::as_bytes);
        let pairs = fields.flat_map(|field| field.split(|byte| *byte == b';'));
        pairs.filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
            let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            Some((name, bare.unwrap_or(value)))
        })
    }

    fn query_value(&self) -> Value {
        form::query(self.query().unwrap_or_default())
    }
}

/// The name of a host, as routes know it: in lower case, without its port and a dot at its end; an IPv6 address in its short form.
fn bare_host(host: &[u8]) -> Option<String> {
    let host = std::str::from_utf8(host).ok()?;
    if let Some((address, _)) = host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return address.parse().ok().map(|address: Ipv6Addr| format!("[{address}]"));
    }
    let name = host.split(':').next().unwrap_or_default();
    Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()).filter(|name| !name.is_empty())
}

/// Header fields as an object: names in lower case, a field that came several times as a list of strings.
pub fn header_value(headers: &HeaderMap) -> Value {
    form::gather(
        headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())),
    )
}
