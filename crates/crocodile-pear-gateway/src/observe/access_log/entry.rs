//! The data of an access log line.

use std::borrow::Cow;
use std::time::Duration;

use crocodile_pear::unstable::error::ErrorType;
use crocodile_pear::unstable::jq::{self, Filter, Value, as_str};
use crocodile_pear::unstable::json::value::{as_object, number};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::facts::ClientFacts;
use crocodile_pear::unstable::telemetry::request_record::{Record, Summary};
use crocodile_pear::unstable::telemetry::trace::Trace;
use crocodile_pear::unstable::template::scalar;
use http::{HeaderName, Method, Version};

use crate::server::Ending;
use crate::telemetry::log_time::{self, Timestamp};
use crate::telemetry::request_end::RequestEnd;

/// The variables of a line, besides those that every expression has.
pub const VARIABLES: [&str; 13] = [
    "time",
    "status",
    "duration",
    "first_byte",
    "bytes",
    "target",
    "user",
    "calls",
    "slowest",
    "cache",
    "trace",
    "ended",
    "error",
];

/// A view of the end of a request for one line.
pub struct AccessLogEntry<'a> {
    scope: &'a Scope,
    ended: &'a RequestEnd<'a>,
    user: Option<&'a Filter>,
    query: bool,
    /// The endpoint that served it.
    pub route: Option<&'a str>,
    /// When it ended.
    pub time: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

impl<'a> AccessLogEntry<'a> {
    /// The entry of a request that has just ended.
    pub fn new(ended: &'a RequestEnd<'a>, route: Option<&'a str>, user: Option<&'a Filter>, query: bool) -> Self {
        let scope = ended.scope;
        AccessLogEntry { scope, ended, user, query, route, time: log_time::now(), duration: ended.total }
    }

    /// The request's id.
    pub fn id(&self) -> &'a str {
        self.scope.facts().id()
    }

    /// The same, as bytes.
    pub fn id_digits(&self) -> &'a [u8] {
        self.scope.facts().id_digits()
    }

    pub fn client(&self) -> Option<&'a ClientFacts> {
        self.scope.facts().client()
    }

    /// The method; `None` if the request could not be read.
    pub fn method(&self) -> Option<&'a str> {
        self.ended.method().map(Method::as_str)
    }

    /// The path as received; `None` if the request could not be read.
    pub fn path(&self) -> Option<&'a str> {
        self.scope.path()
    }

    /// The query, if it is logged, without the credentials that were checked.
    pub fn query(&self) -> Option<Cow<'a, str>> {
        if !self.query {
            return None;
        }
        self.scope.forwarded_query()
    }

    /// The HTTP version as in the NCSA formats.
    pub fn version(&self) -> &'static str {
        match self.scope.version() {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2.0",
            _ => "1.1",
        }
    }

    /// The first value of a header field.
    pub fn field(&self, name: &HeaderName) -> Option<&'a [u8]> {
        self.scope.field(name)
    }

    /// The status of the answer; 499 if the client left before there was one.
    pub fn status(&self) -> u16 {
        self.ended.code()
    }

    /// How many bytes of the answer's body were sent.
    pub fn bytes(&self) -> u64 {
        self.ended.end.bytes
    }

    /// The time from the start of the request until the head of its answer was ready.
    pub fn first_byte(&self) -> Option<Duration> {
        self.ended.head
    }

    /// The user, from an expression or from the claims; `None` if there is none.
    pub fn user(&self) -> Option<String> {
        if let Some(filter) = self.user {
            let value = filter.run_one(jq::null(), &mut |name| self.variable(name)).ok()??;
            return scalar(&value).filter(|user| !user.is_empty());
        }
        let claims = as_object(self.scope.facts().found("claims")?)?;
        let claim = |name: &str| claims.iter().find(|(known, _)| as_str(known) == Some(name)).map(|(_, value)| value);
        scalar(claim("sub").or_else(|| claim("subject"))?)
    }

    /// The record of the request.
    pub fn record(&self) -> Option<&'a Record> {
        self.scope.record().map(|record| &**record)
    }

    /// The calls made for it.
    pub fn calls(&self) -> Summary {
        self.scope.record().map(|record| record.summary()).unwrap_or_default()
    }

    /// The outcome at the cache, if there is one.
    pub fn cache(&self) -> Option<&'static str> {
        Some(self.scope.record()?.cache()?.name())
    }

    /// The trace, if tracing is on.
    pub fn trace(&self) -> Option<&'a Trace> {
        self.scope.record()?.trace()
    }

    /// How it ended, in one word.
    pub fn how(&self) -> &'static str {
        self.ended.how()
    }

    /// Why the answer was cut off.
    pub fn error(&self) -> Option<Cow<'static, str>> {
        match &self.ended.end.how {
            Ending::Failed(error) => Some(error.to_string().into()),
            Ending::ClientReset(reason) => Some(format!("the stream was reset: {reason:?}").into()),
            _ => None,
        }
    }

    /// The type of the failure, as in metrics and traces.
    pub fn error_type(&self) -> Option<ErrorType> {
        self.ended.error_type()
    }

    /// The value of a variable of expressions.
    pub fn variable(&self, name: &str) -> Value {
        let maybe = |text: Option<&str>| text.map_or_else(jq::null, jq::string);
        let seconds = |time: Duration| number(&format!("{:.6}", time.as_secs_f64()));
        match name {
            "time" => jq::string(self.time.rfc3339()),
            "status" => number(itoa::Buffer::new().format(self.status())),
            "duration" => seconds(self.duration),
            "first_byte" => self.first_byte().map_or_else(jq::null, seconds),
            "bytes" => number(itoa::Buffer::new().format(self.bytes())),
            "method" => maybe(self.method()),
            "target" => maybe(self.path()),
            "user" => maybe(self.user().as_deref()),
            "calls" => number(itoa::Buffer::new().format(self.calls().calls)),
            "slowest" => self.calls().slowest.map_or_else(jq::null, |slowest| {
                let server = slowest.server.as_deref().map_or_else(jq::null, jq::string);
                let (upstream, time) = (jq::string(&slowest.upstream), seconds(slowest.time));
                jq::object([("upstream", upstream), ("server", server), ("duration", time)])
            }),
            "cache" => maybe(self.cache()),
            "trace" => maybe(self.trace().map(Trace::id)),
            "ended" => jq::string(self.how()),
            "error" => maybe(self.error().as_deref()),
            "route" => maybe(self.route),
            name => self.scope.variable(name, &None),
        }
    }
}
