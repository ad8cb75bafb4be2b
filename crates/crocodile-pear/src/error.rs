//! Errors while a request is served: their kind, whose fault they are, and the message for the client.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode, Uri};

/// A failure of one call or one item. Cheap to clone: several items may fail by one cause.
///
/// A closure of [`Pipeline::transform`](crate::Pipeline::transform) returns one to make its item fail:
///
/// ```
/// use crocodile_pear::Whole;
/// use crocodile_pear::{Error, Kind};
///
/// fn only_small(answer: Whole) -> Result<Whole, Error> {
///     match answer.body.len() {
///         0..1024 => Ok(answer),
///         _ => Err(Error::new(Kind::Oversized, "the order is larger than 1 KiB")),
///     }
/// }
/// # let answer = Whole { status: Default::default(), headers: Default::default(), body: vec![b' '; 2048].into() };
/// # assert_eq!(only_small(answer).unwrap_err().status(), 502);
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    detail: Cow<'static, str>,
    step: Option<Cow<'static, str>>,
    upstream: Option<Arc<str>>,
    after: Option<Duration>,
    /// The status that the upstream answered.
    answered: Option<StatusCode>,
    /// Header fields that belong to the status.
    fields: HeaderMap,
    /// Whether it ends a list of which items have been handed on.
    ends_list: bool,
    /// The document that the operator has written for it, JSON.
    body: Option<Bytes>,
    /// The facts that only calls of programs know.
    call: Option<Box<CallFacts>>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Default)]
struct CallFacts {
    url: Option<Uri>,
    id: Option<CallId>,
}

/// Which call of a pipeline.
///
/// ```
/// use crocodile_pear::CallId;
///
/// let third = CallId { index: 2, name: None };
/// assert_eq!(third.to_string(), "call 2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallId {
    /// Its place: among the calls of a `join`, or that of its item in a list, from 0.
    pub index: u64,
    /// The name of the call, if it has one.
    pub name: Option<Arc<str>>,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "call {} ({name})", self.index),
            None => write!(f, "call {}", self.index),
        }
    }
}

/// Any error of a program.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The kind of an error. Each kind has a status for the client, and says whose fault it was.
///
/// ```
/// use crocodile_pear::{Fault, Kind};
///
/// assert_eq!(Kind::Timeout.status(), 504);
/// assert_eq!(Kind::Timeout.fault(), Fault::Upstream);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The client's request is not valid.
    BadRequest,
    /// The client accepts none of the available formats.
    NotAcceptable,
    /// The client's body is no value, where an expression needs one.
    UnsupportedBody,
    /// The client's body is larger than the configured bound.
    BodyTooLarge,
    /// The client did not send its body in time.
    SlowBody,
    /// The gateway could not connect to the upstream.
    Unreachable,
    /// The upstream closed the connection before it answered.
    Reset,
    /// The upstream's answer is not valid HTTP, or not valid for its content type.
    Malformed,
    /// The upstream's answer was cut off.
    Cut,
    /// The upstream's answer is larger than the configured bound.
    Oversized,
    /// The upstream answered with a status of 4xx that is the client's fault; the client gets the same status.
    Refused(StatusCode),
    /// The configuration says that this fails with this status: by `reject`, or by `error` of an expression.
    Rejected(StatusCode),
    /// The upstream answered with a status that the pipeline cannot use, or with a link that may not be followed.
    Unusable,
    /// The upstream's answer to a batch has no item for this value.
    Missing,
    /// The upstream took longer than the configured time.
    Timeout,
    /// The upstream has reached its limit of calls, or its circuit breaker is open.
    Busy,
    /// The database cannot be reached, or cannot serve.
    Unavailable,
    /// An expression failed on the upstream's data.
    Expression,
    /// The request came back to the gateway, or must not be forwarded any further (RFC 5842, 7.2).
    Loop,
    /// The queue of the helper threads is full.
    Overloaded,
    /// An error in the configuration's expressions or in the gateway.
    Internal,
    /// In the library: the program's call is not valid (its URL, its header fields, the path of its list).
    InvalidCall,
    /// In the library: a closure or a step of the program returned an error.
    Closure,
    /// In the library: a closure or a step of the program panicked.
    Panic,
    /// In the library: nobody waits for the call any more.
    Cancelled,
}

/// The type of a failure, as OpenTelemetry has it (`error.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A kind of the gateway, or of a call that it made.
    Kind(Kind),
    /// A status that an upstream answered.
    Status(u16),
}

impl fmt::Display for ErrorType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorType::Kind(kind) => out.write_str(kind.name()),
            ErrorType::Status(status) => status.fmt(out),
        }
    }
}

/// Whose fault it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The client's: it may mend its request.
    Client,
    /// The upstream's.
    Upstream,
    /// Ours.
    Gateway,
}

impl Kind {
    /// Whose fault it was.
    pub fn fault(self) -> Fault {
        match self {
            Kind::BadRequest | Kind::NotAcceptable | Kind::UnsupportedBody => Fault::Client,
            Kind::BodyTooLarge | Kind::SlowBody | Kind::Refused(_) => Fault::Client,
            Kind::Rejected(status) if status.is_client_error() => Fault::Client,
            Kind::Loop | Kind::Internal | Kind::Overloaded | Kind::Rejected(_) => Fault::Gateway,
            Kind::InvalidCall | Kind::Closure | Kind::Panic | Kind::Cancelled => Fault::Gateway,
            _ => Fault::Upstream,
        }
    }

    /// The kind of an upstream's status for a step that cannot use it. Most of 4xx concern the request of the
    /// client. The others concern the way the gateway called.
    pub fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            405 | 407 | 408 | 411 | 417 | 421 | 426 | 431 => Kind::Unusable,
            400..=499 => Kind::Refused(status),
            _ => Kind::Unusable,
        }
    }

    /// The status a client is told (RFC 9110, 15.5 and 15.6).
    ///
    /// This table is the only one: the items of a list carry a status of their own.
    pub fn status(self) -> StatusCode {
        match self {
            Kind::BadRequest => StatusCode::BAD_REQUEST,
            Kind::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Kind::UnsupportedBody => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Kind::Refused(status) | Kind::Rejected(status) => status,
            Kind::Missing => StatusCode::NOT_FOUND,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Kind::Busy | Kind::Unavailable | Kind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Loop => StatusCode::LOOP_DETECTED,
            Kind::Internal | Kind::InvalidCall | Kind::Closure | Kind::Panic | Kind::Cancelled => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// The type of error that `Proxy-Status` tells (RFC 9209, 2.3); nothing, where the client is at fault or the upstream has
    /// answered as it may.
    pub fn proxy_error(self) -> Option<&'static str> {
        Some(match self {
            Kind::Unreachable | Kind::Unavailable => "destination_unavailable",
            Kind::Reset => "connection_terminated",
            Kind::Malformed => "http_protocol_error",
            Kind::Cut => "http_response_incomplete",
            Kind::Oversized => "http_response_body_size",
            Kind::Timeout => "http_response_timeout",
            Kind::Busy => "connection_limit_reached",
            Kind::Loop => "proxy_loop_detected",
            Kind::Overloaded | Kind::Internal => "proxy_internal_error",
            Kind::InvalidCall | Kind::Closure | Kind::Panic | Kind::Cancelled => "proxy_internal_error",
            Kind::Unusable | Kind::Expression | Kind::Missing | Kind::Refused(_) | Kind::Rejected(_) => {
                return None;
            }
            Kind::BadRequest | Kind::NotAcceptable | Kind::UnsupportedBody => return None,
            Kind::BodyTooLarge | Kind::SlowBody => return None,
        })
    }

    /// The name in problem documents, logs and metrics (`error.type`).
    pub fn name(self) -> &'static str {
        match self {
            Kind::BadRequest => "bad-request",
            Kind::NotAcceptable => "not-acceptable",
            Kind::UnsupportedBody => "unsupported-body",
            Kind::BodyTooLarge => "body-too-large",
            Kind::SlowBody => "slow-body",
            Kind::Unreachable => "unreachable",
            Kind::Reset => "reset",
            Kind::Malformed => "malformed",
            Kind::Cut => "cut",
            Kind::Oversized => "oversized",
            Kind::Refused(_) => "refused",
            Kind::Rejected(_) => "rejected",
            Kind::Unusable => "unusable",
            Kind::Missing => "missing",
            Kind::Timeout => "timeout",
            Kind::Busy => "busy",
            Kind::Unavailable => "unavailable",
            Kind::Expression => "expression",
            Kind::Loop => "loop",
            Kind::Overloaded => "overloaded",
            Kind::Internal => "internal",
            Kind::InvalidCall => "invalid-call",
            Kind::Closure => "closure",
            Kind::Panic => "panic",
            Kind::Cancelled => "cancelled",
        }
    }

    /// The kind that a problem document names; the statuses are its own and the upstream's.
    fn read(name: &str, status: StatusCode, answered: Option<StatusCode>) -> Option<Self> {
        const PLAIN: [Kind; 23] = [
            Kind::BadRequest,
            Kind::NotAcceptable,
            Kind::UnsupportedBody,
            Kind::BodyTooLarge,
            Kind::SlowBody,
            Kind::Unreachable,
            Kind::Reset,
            Kind::Malformed,
            Kind::Cut,
            Kind::Oversized,
            Kind::Unusable,
            Kind::Missing,
            Kind::Timeout,
            Kind::Busy,
            Kind::Unavailable,
            Kind::Expression,
            Kind::Loop,
            Kind::Overloaded,
            Kind::Internal,
            Kind::InvalidCall,
            Kind::Closure,
            Kind::Panic,
            Kind::Cancelled,
        ];
        match name {
            "refused" => Some(Kind::Refused(answered.unwrap_or(status))),
            "rejected" => Some(Kind::Rejected(status)),
            name => PLAIN.into_iter().find(|kind| kind.name() == name),
        }
    }
}

impl Error {
    /// An error whose detail the client may read: never an internal address.
    pub fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Error(Arc::new(Inner {
            kind,
            detail: detail.into(),
            step: None,
            upstream: None,
            after: None,
            answered: None,
            fields: HeaderMap::new(),
            ends_list: false,
            body: None,
            call: None,
            source: None,
        }))
    }

    /// The error of a closure or a step of the program. An [`Error`] among the causes is that error itself.
    ///
    /// ```
    /// use crocodile_pear::{Error, Kind};
    ///
    /// let error = Error::of_program("the order has no total");
    /// assert_eq!((error.kind(), error.status().as_u16()), (Kind::Closure, 500));
    /// ```
    pub fn of_program(error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Error>() {
            Ok(error) => *error,
            // Clients do not see what it says: it may name tables, files, secrets.
            Err(error) => Error::new(Kind::Closure, "a step of the program failed").with_source(error),
        }
    }

    /// The panic of a closure or a step of the program.
    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        crocodile_pear_jq::Error::of_panic(payload).into()
    }

    /// Adds the cause.
    pub(crate) fn with_source(mut self, source: BoxError) -> Self {
        Arc::make_mut(&mut self.0).source.get_or_insert_with(|| source.into());
        self
    }

    /// Reads a problem document that this crate wrote; `None` if it is another document.
    ///
    /// ```
    /// use crocodile_pear::{Error, Kind};
    ///
    /// let error = Error::new(Kind::Timeout, "the upstream did not answer in time").at_step("request");
    /// let read = Error::from_document(&error.document()).expect("a problem document");
    /// assert_eq!((read.kind(), read.step(), read.detail()), (error.kind(), error.step(), error.detail()));
    /// ```
    pub fn from_document(json: &[u8]) -> Option<Self> {
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(json).ok()?;
        let text = |name: &str| fields.get(name).and_then(serde_json::Value::as_str);
        let status = |name: &str| {
            let code = fields.get(name).and_then(serde_json::Value::as_u64)?;
            u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok())
        };
        let answered = status("upstream_status");
        let kind = Kind::read(text("kind")?, status("status")?, answered)?;
        let mut error = Error::new(kind, text("detail").unwrap_or_default().to_owned());
        let inner = Arc::make_mut(&mut error.0);
        inner.step = text("step").map(|step| step.to_owned().into());
        inner.upstream = text("upstream").map(Into::into);
        inner.answered = answered;
        Some(error)
    }

    /// Adds the cause: an error of a socket, of TLS, of a parser.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.source.get_or_insert_with(|| Arc::new(source));
        self
    }

    /// Adds the URL of the call, unless it has one.
    #[must_use]
    pub fn at_url(mut self, url: Uri) -> Self {
        let call = Arc::make_mut(&mut self.0).call.get_or_insert_default();
        call.url.get_or_insert(url);
        self
    }

    /// Leaves out the URL, which may have secrets in its query.
    #[must_use]
    pub fn without_url(mut self) -> Self {
        if let Some(call) = &mut Arc::make_mut(&mut self.0).call {
            call.url = None;
        }
        self
    }

    /// Says which call of the pipeline it was, unless that is known.
    #[must_use]
    pub fn at_call(mut self, id: CallId) -> Self {
        let call = Arc::make_mut(&mut self.0).call.get_or_insert_default();
        call.id.get_or_insert(id);
        self
    }

    /// Adds the status that the upstream answered.
    #[must_use]
    pub(crate) fn answered(mut self, status: StatusCode) -> Self {
        Arc::make_mut(&mut self.0).answered.get_or_insert(status);
        self
    }

    /// The URL that was called.
    pub fn url(&self) -> Option<&Uri> {
        self.0.call.as_ref()?.url.as_ref()
    }

    /// Which call of the pipeline it was: its index among the calls of a join, or that of its item, and its name.
    pub fn call(&self) -> Option<&CallId> {
        self.0.call.as_ref()?.id.as_ref()
    }

    /// The status that the upstream answered, if it did, also if its body could not be read. [`status`](Self::status) is
    /// what a client is told.
    pub fn upstream_status(&self) -> Option<StatusCode> {
        self.0.answered
    }

    /// Whether the upstream took longer than it may.
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, Kind::Timeout | Kind::SlowBody)
    }

    /// Whether there was no connection: DNS, TCP or TLS failed.
    pub fn is_connect(&self) -> bool {
        matches!(self.0.kind, Kind::Unreachable)
    }

    /// Whether the upstream answered with a status that is not 2xx.
    pub fn is_status(&self) -> bool {
        match self.0.kind {
            Kind::Refused(_) => true,
            Kind::Unusable => self.0.answered.is_some_and(|status| !status.is_success()),
            _ => false,
        }
    }

    /// Whether the answer ended before it was whole.
    pub fn is_body(&self) -> bool {
        matches!(self.0.kind, Kind::Cut | Kind::Reset | Kind::Oversized)
    }

    /// Whether the answer is not of the expected form or type.
    pub fn is_decode(&self) -> bool {
        matches!(self.0.kind, Kind::Malformed)
    }

    /// Whether a closure or a step of the program failed or panicked.
    pub fn is_closure(&self) -> bool {
        matches!(self.0.kind, Kind::Closure | Kind::Panic)
    }

    /// An upstream's status that a step cannot use.
    pub fn of_status(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        let mut error = Error::new(Kind::of_status(status), detail);
        Arc::make_mut(&mut error.0).answered = Some(status);
        error
    }

    /// Adds a header field that belongs to the status.
    pub fn add_field(&mut self, name: HeaderName, value: HeaderValue) {
        Arc::make_mut(&mut self.0).fields.append(name, value);
    }

    /// Gives it a document of its own, JSON, instead of a problem document.
    #[must_use]
    pub fn with_body(mut self, json: Bytes) -> Self {
        Arc::make_mut(&mut self.0).body = Some(json);
        self
    }

    /// Whether its document is not a problem document.
    pub fn has_body(&self) -> bool {
        self.0.body.is_some()
    }

    /// The header fields that belong to the status.
    pub fn fields(&self) -> &HeaderMap {
        &self.0.fields
    }

    /// Says that it ends a list of which items have been handed on: the others are missing, and nobody knows how many.
    #[must_use]
    pub(crate) fn at_end_of_list(mut self) -> Self {
        Arc::make_mut(&mut self.0).ends_list = true;
        self
    }

    /// Whether it ends a list of which items have been handed on.
    pub(crate) fn ends_list(&self) -> bool {
        self.0.ends_list
    }

    /// Names the step in which it happened, if an inner one has not been named.
    #[must_use]
    pub fn at_step(mut self, step: impl Into<Cow<'static, str>>) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.step.get_or_insert_with(|| step.into());
        self
    }

    /// Names the upstream that was called, by its name in the configuration.
    pub fn of_upstream(mut self, upstream: &Arc<str>) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.upstream.get_or_insert_with(|| upstream.clone());
        self
    }

    /// Says when it is worth asking again.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        Arc::make_mut(&mut self.0).after = Some(time);
        self
    }

    /// When it is worth asking again, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.after
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The status a client is told.
    pub fn status(&self) -> StatusCode {
        self.0.kind.status()
    }

    /// The step in which it happened.
    pub fn step(&self) -> Option<&str> {
        self.0.step.as_deref()
    }

    /// The upstream that was called, by its name in the configuration.
    pub fn upstream(&self) -> Option<&str> {
        self.0.upstream.as_deref()
    }

    /// The detail alone, without step and upstream.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The problem document (RFC 9457, `application/problem+json`).
    pub fn document(&self) -> Vec<u8> {
        if let Some(body) = &self.0.body {
            return body.to_vec();
        }
        let status = self.status();
        let mut fields = serde_json::Map::new();
        fields.insert("title".into(), status.canonical_reason().unwrap_or("Error").into());
        fields.insert("status".into(), status.as_u16().into());
        fields.insert("kind".into(), self.0.kind.name().into());
        fields.insert("detail".into(), self.0.detail.as_ref().into());
        if let Some(step) = &self.0.step {
            fields.insert("step".into(), step.as_ref().into());
        }
        if let Some(upstream) = &self.0.upstream {
            fields.insert("upstream".into(), upstream.as_ref().into());
        }
        if let Some(answered) = self.0.answered {
            fields.insert("upstream_status".into(), answered.as_u16().into());
        }
        serde_json::Value::Object(fields).to_string().into_bytes()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = &self.0.step {
            write!(f, "{step}: ")?;
        }
        match (self.url(), &self.0.upstream) {
            (Some(url), _) => write!(f, "{url}: ")?,
            (None, Some(upstream)) => write!(f, "{upstream}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.0.detail)?;
        match (&self.0.source, self.is_closure()) {
            (Some(source), true) => write!(f, ": {source}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0.kind.name())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        Error::of_program(error)
    }
}

impl From<crocodile_pear_jq::Error> for Error {
    fn from(error: crocodile_pear_jq::Error) -> Self {
        use crocodile_pear_jq::Kind as Given;
        let (kind, detail, source) = error.into_parts();
        let kind = match kind {
            Given::Malformed => Kind::Malformed,
            Given::Oversized => Kind::Oversized,
            Given::Expression => Kind::Expression,
            Given::Rejected(status) => Kind::Rejected(status),
            Given::Closure => return Error::of_program(source.unwrap_or_else(|| detail.into())),
            Given::Panic => {
                let error = Error::new(Kind::Panic, "a step of the program panicked");
                return error.with_source(source.unwrap_or_else(|| detail.into()));
            }
        };
        Error::new(kind, detail)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::new(Kind::Malformed, error.to_string()).caused_by(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::of_program(error)
    }
}
