//! Errors while a request is served: their kind, whose fault they are, and the message for the client.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

/// A failure of one call or one item. Cheap to clone: several items may fail by one cause.
///
/// A closure of [`Pipeline::transform`](crate::Pipeline::transform) returns one to make its item fail:
///
/// ```
/// use crocodile_pear::Whole;
/// use crocodile_pear::error::{Error, Kind};
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
}

/// The kind of an error. Each kind has a status for the client, and says whose fault it was.
///
/// ```
/// use crocodile_pear::error::{Fault, Kind};
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
            Kind::BadRequest | Kind::NotAcceptable | Kind::BodyTooLarge | Kind::SlowBody | Kind::Refused(_) => {
                Fault::Client
            }
            Kind::Rejected(status) if status.is_client_error() => Fault::Client,
            Kind::Loop | Kind::Internal | Kind::Overloaded | Kind::Rejected(_) => Fault::Gateway,
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
            Kind::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Kind::Refused(status) | Kind::Rejected(status) => status,
            Kind::Missing => StatusCode::NOT_FOUND,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Kind::Busy | Kind::Unavailable | Kind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Loop => StatusCode::LOOP_DETECTED,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
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
            Kind::Unusable | Kind::Expression | Kind::Missing | Kind::Refused(_) | Kind::Rejected(_) => {
                return None;
            }
            Kind::BadRequest | Kind::NotAcceptable | Kind::BodyTooLarge | Kind::SlowBody => return None,
        })
    }

    /// The name in problem documents, logs and metrics (`error.type`).
    pub fn name(self) -> &'static str {
        match self {
            Kind::BadRequest => "bad-request",
            Kind::NotAcceptable => "not-acceptable",
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
        }))
    }

    /// An upstream's status that a step cannot use.
    pub fn of_status(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        let mut error = Error::new(Kind::of_status(status), detail);
        Arc::make_mut(&mut error.0).answered = Some(status);
        error
    }

    /// Adds a header field that belongs to the status.
    #[must_use]
    pub fn with_field(mut self, name: HeaderName, value: HeaderValue) -> Self {
        Arc::make_mut(&mut self.0).fields.append(name, value);
        self
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
        if let Some(upstream) = &self.0.upstream {
            write!(f, "{upstream}: ")?;
        }
        f.write_str(&self.0.detail)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0.kind.name())
    }
}

impl std::error::Error for Error {}
