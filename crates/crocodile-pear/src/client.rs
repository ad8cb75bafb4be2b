//! The pipeline for Rust programs: `client.request(uris).timer(…).transform(…).concatenate_json(…).into_response()`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};

use crate::error::{Error, Kind};
use crate::flow::{Answer, Body, Flow, Outcome, Producer, Pulled, undescribe};
use crate::scope::Scope;
use crate::step;
use crate::steps::concatenate::{As, Concatenate, ItemOrder, OnError, concatenate};
use crate::steps::timer;
use crate::upstream::{Call, Settings, Upstream};

/// The most bytes of a body that `transform` and `concatenate_json` read whole.
pub const MAX_BODY: usize = step::MAX_BODY.0 as usize;

/// Calls HTTP servers. Cheap to clone; connections are kept and shared by the clones.
#[derive(Clone, Default)]
pub struct Client {
    upstreams: Arc<Mutex<HashMap<String, Arc<Upstream>>>>,
}

/// A request to make: a URI, or more of it.
pub struct Request {
    /// The method.
    pub method: Method,
    /// An absolute `http` or `https` URI.
    pub uri: String,
    /// Header fields to send.
    pub headers: HeaderMap,
    /// The body to send, if there is one.
    pub body: Option<Body>,
}

impl<T: Into<String>> From<T> for Request {
    fn from(uri: T) -> Self {
        Request { method: Method::GET, uri: uri.into(), headers: HeaderMap::new(), body: None }
    }
}

/// What an item of a concatenated answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// `{"status", "headers", "body"}`
    All,
    /// The body alone.
    BodyOnly,
}

/// An answer that was read whole, for a transforming closure.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Whole {
    /// The body as JSON.
    ///
    /// # Errors
    /// `Malformed` if it is none.
    pub fn json(&self) -> Result<serde_json::Value, Error> {
        let malformed = |error: serde_json::Error| Error::new(Kind::Malformed, format!("the body is no JSON: {error}"));
        serde_json::from_slice(&self.body).map_err(malformed)
    }

    /// The same answer with another body, as JSON.
    #[must_use]
    pub fn with_json(mut self, body: &serde_json::Value) -> Self {
        undescribe(&mut self.headers);
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = body.to_string().into();
        self
    }
}

impl Client {
    /// A client without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// One producer for each request. All start when the pipeline is first asked for an answer.
    pub fn request<R: Into<Request>>(&self, requests: impl IntoIterator<Item = R>) -> Pipeline {
        let scope = Arc::new(Scope::new(Method::GET, None, HeaderMap::new(), Body::empty()));
        let producers = requests.into_iter().map(|request| {
            let (client, request) = (self.clone(), request.into());
            let outcome = Box::pin(async move { Some(client.call(request).await) });
            Producer { id: scope.next_producer(), name: None, outcome }
        });
        Pipeline { flow: Flow::of(producers.collect()), scope }
    }

    async fn call(&self, request: Request) -> Result<Answer, Error> {
        let unfit = |_| Error::new(Kind::BadRequest, "this is no absolute http URI");
        let uri: Uri = request.uri.parse().map_err(unfit)?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let upstream = self.upstream(&uri)?;
        let (method, headers, body) = (request.method, request.headers, request.body);
        upstream.call(Call { method, headers, body, ..Call::get(target) }).await
    }

    /// The upstream of the URI's scheme and authority; its name in errors is the host.
    fn upstream(&self, uri: &Uri) -> Result<Arc<Upstream>, Error> {
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(Error::new(Kind::BadRequest, "this is no absolute http URI"));
        };
        let root = format!("{scheme}://{authority}/");
        let mut upstreams = self.upstreams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = upstreams.get(&root) {
            return Ok(known.clone());
        }
        let unfit = |_| Error::new(Kind::BadRequest, "this is no absolute http URI");
        let upstream = Upstream::new(Settings::new(authority.host(), root.parse().map_err(unfit)?))?;
        upstreams.insert(root, upstream.clone());
        Ok(upstream)
    }
}

/// Producers, and what is to be done with them. Nothing happens before an answer is asked for; dropping what was asked
/// for cancels all calls behind it.
pub struct Pipeline {
    flow: Flow,
    scope: Arc<Scope>,
}

impl Pipeline {
    /// Notes when each message passes: a line in the log (target `crocodile_pear::timer`), a mark on the timeline.
    #[must_use]
    pub fn timer(self, label: &str) -> Self {
        let flow = timer::time(self.flow, &label.into(), &self.scope);
        Pipeline { flow, ..self }
    }

    /// Maps every answer: status, headers and body. The body is read whole, within [`MAX_BODY`].
    #[must_use]
    pub fn transform<F>(self, transform: F) -> Self
    where
        F: Fn(Whole) -> Result<Whole, Error> + Send + Sync + 'static,
    {
        let transform = Arc::new(transform);
        let flow = self.flow.map(move |producer| {
            let transform = transform.clone();
            producer.then(async move |outcome| apply(outcome?, transform).await)
        });
        Pipeline { flow, ..self }
    }

    /// One answer of all: a JSON list, an item a chunk, in order of arrival.
    #[must_use]
    pub fn concatenate_json(self, parts: Parts) -> Self {
        let body_only = parts == Parts::BodyOnly;
        let (order, on_error) = (ItemOrder::Arrival, OnError::Keep);
        let spec = Concatenate { form: As::Json, body_only, order, on_error, max_body: step::MAX_BODY };
        let flow = Flow::one(self.scope.next_producer(), concatenate(self.flow, Arc::new(spec)));
        Pipeline { flow, ..self }
    }

    /// The answer, when its head is there; its body is pulled. Several producers follow one another: whichever
    /// answers first goes first, and goes whole before the next. A failure is a problem document (RFC 9457).
    pub async fn into_response(self) -> Response<Pulled> {
        let outcome = match self.flow.only() {
            Ok(producer) => producer.outcome.await,
            Err(flow) => crate::plan::first_come(flow).await,
        };
        let response = match outcome {
            None => respond(StatusCode::NO_CONTENT, HeaderMap::new(), Body::empty()),
            Some(Ok(answer)) => respond(answer.status, answer.headers, answer.body),
            Some(Err(error)) => Err(error),
        };
        response.unwrap_or_else(|error| failure(&error))
    }
}

async fn apply<F>(outcome: Result<Answer, Error>, transform: Arc<F>) -> Outcome
where
    F: Fn(Whole) -> Result<Whole, Error>,
{
    let transformed = async {
        let answer = outcome?;
        let (status, headers) = (answer.status, answer.headers.clone());
        let (names, upstream) = (answer.names, answer.upstream);
        let whole = transform(Whole { status, headers, body: answer.body.collect(MAX_BODY).await? })?;
        Ok(Answer { names, upstream, ..Answer::new(whole.status, whole.headers, Body::Bytes(whole.body)) })
    };
    Some(transformed.await)
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Result<Response<Pulled>, Error> {
    let mut response = Response::new(body.into_pulled()?);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn failure(error: &Error) -> Response<Pulled> {
    let body: Pulled = Box::pin(crate::flow::Whole::new(error.document().into()));
    let mut response = Response::new(body);
    *response.status_mut() = error.status();
    let media = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response.headers_mut().extend(error.fields().clone());
    response
}
