//! The hooks of a program around its calls: `before`, observers, spans.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{HOST, HeaderMap, HeaderName};
use http::{Request, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tracing::{Instrument, Level, Span, field};

use super::body::Body;
use super::guard;
use crate::error::{CallId, Error, ErrorType, Kind};
use crate::message::answer::Answer;
use crate::message::body as message;
use crate::upstream::program::{Callee, Interceptor};
use crate::upstream::{CallContext, TargetRoot, UpstreamCall};

/// Sees the calls of a client, for metrics and logs of any crate. [`ClientBuilder::observe`](crate::ClientBuilder::observe)
/// takes one. Both methods run on the thread of the call, and must not wait.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use crocodile_pear::{CallId, Client, Error, Observe};
///
/// #[derive(Default)]
/// struct Failures(AtomicU64);
///
/// impl Observe for Failures {
///     fn ended(&self, _: &CallId, outcome: Result<http::StatusCode, &Error>, _: Duration, _: u64) {
///         if outcome.is_err() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let client = Client::builder().observe(Failures::default()).build()?;
/// # drop(client);
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not observe calls",
    note = "write `impl Observe for …` with `started` or `ended`; for a closure before each call, write `.before(…)`"
)]
#[expect(unused_variables, reason = "the names are documentation")]
pub trait Observe: Send + Sync + 'static {
    /// A call begins. Its body is not shown.
    fn started(&self, call: &CallId, request: &Request<()>) {}

    /// A call ended: with the status of an answer whose body was read to its end, or with an error, after this time and this
    /// many bytes of the body. A call that nobody waits for any more ends as [`Kind::Cancelled`].
    fn ended(&self, call: &CallId, outcome: Result<StatusCode, &Error>, took: Duration, bytes: u64) {}
}

impl<T: Observe + ?Sized> Observe for Arc<T> {
    fn started(&self, call: &CallId, request: &Request<()>) {
        (**self).started(call, request);
    }

    fn ended(&self, call: &CallId, outcome: Result<StatusCode, &Error>, took: Duration, bytes: u64) {
        (**self).ended(call, outcome, took, bytes);
    }
}

/// A function that changes each request.
pub type RequestHook = dyn Fn(Request<Body>) -> BoxFuture<'static, Result<Request<Body>, Error>> + Send + Sync;

/// All of it.
#[derive(Default)]
pub struct Hooks {
    pub before: Vec<Box<RequestHook>>,
    pub observers: Vec<Box<dyn Observe>>,
    /// Fields of every call that does not set them.
    pub headers: HeaderMap,
    /// Fields that are handed on from the request that a pipeline serves.
    pub propagated: Vec<HeaderName>,
}

impl Interceptor for Hooks {
    fn is_needed(&self) -> bool {
        !self.before.is_empty()
            || !self.observers.is_empty()
            || !self.headers.is_empty()
            || !self.propagated.is_empty()
            || tracing::enabled!(target: "crocodile_pear::call", Level::INFO)
    }

    fn call(
        self: Arc<Self>,
        callee: Arc<dyn Callee>,
        mut call: Box<UpstreamCall>,
    ) -> BoxFuture<'static, Result<Answer, Error>> {
        let context = call.context.clone().unwrap_or_default();
        let url = callee.url(&call);
        let span = span(&call, &url, &context.id);
        let watched = span.clone();
        let made = async move {
            let mut watch =
                CallWatch { hooks: self.clone(), context, span: watched, begun: Instant::now(), bytes: 0, over: false };
            let sent = match self.prepare(&mut call, &url, &watch.context).await {
                Ok(()) => callee.dispatch(call).await,
                Err(error) => Err(error),
            };
            match sent {
                Ok(answer) => Ok(watch.answer(answer)),
                Err(error) => {
                    let error =
                        url.parse().map_or(error.clone(), |url| error.at_url(url)).at_call(watch.context.id.clone());
                    watch.end(Err(&error));
                    Err(error)
                }
            }
        };
        Box::pin(made.instrument(span))
    }
}

/// A client span (OpenTelemetry, semantic conventions for HTTP). A URL never has credentials here.
fn span(call: &UpstreamCall, url: &str, id: &CallId) -> Span {
    let parsed: Option<Uri> = url.parse().ok();
    let authority = parsed.as_ref().and_then(Uri::authority);
    let secure = url.starts_with("https");
    let span = tracing::info_span!(
        target: "crocodile_pear::call",
        "call",
        otel.kind = "client",
        otel.name = call.method.as_str(),
        http.request.method = call.method.as_str(),
        url.full = url,
        server.address = authority.map_or("", |authority| authority.host()),
        server.port = authority.and_then(http::uri::Authority::port_u16).unwrap_or(if secure { 443 } else { 80 }),
        call.index = id.index,
        call.name = field::Empty,
        http.response.status_code = field::Empty,
        http.response.body.size = field::Empty,
        "error.type" = field::Empty,
    );
    if let Some(name) = &id.name {
        span.record("call.name", &**name);
    }
    span
}

impl Hooks {
    /// Adds fields, and runs what the program does before each call.
    async fn prepare(&self, call: &mut UpstreamCall, url: &str, context: &CallContext) -> Result<(), Error> {
        for (name, value) in
            self.headers.iter().filter(|(name, _)| !call.headers.contains_key(*name)).collect::<Vec<_>>()
        {
            call.headers.append(name, value.clone());
        }
        if let Some(served) = context.extensions.get::<HeaderMap>() {
            for name in self.propagated.iter().filter(|name| !call.headers.contains_key(*name)).collect::<Vec<_>>() {
                for value in served.get_all(name) {
                    call.headers.append(name, value.clone());
                }
            }
        }
        if self.before.is_empty() && self.observers.is_empty() {
            return Ok(());
        }
        let before: Uri = url.parse().map_err(|_| misuse("the URL of the call is not valid"))?;
        let mut request = Request::new(Body::of_message(call.body.take())?);
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = before.clone();
        *request.headers_mut() = std::mem::take(&mut call.headers);
        *request.extensions_mut() = context.extensions.clone();
        for step in &self.before {
            let made = guard::call(|| step(request))?;
            request = guard::wait(made).await.map_err(|error| error.at_step("before"))?;
        }
        let (mut head, body) = request.into_parts();
        if (head.uri.scheme(), head.uri.authority()) != (before.scheme(), before.authority()) {
            let detail = "`before` may change the path and the query of a call, but not its server";
            return Err(misuse(detail).at_step("before"));
        }
        if head.uri != before {
            call.root = TargetRoot::Server;
            head.uri.path_and_query().map_or("/", |target| target.as_str()).clone_into(&mut call.target);
        }
        call.method = head.method;
        if let Some(host) = head.headers.remove(HOST) {
            call.host = Some(host);
        }
        call.headers = head.headers;
        call.body = body.into_message();
        if !self.observers.is_empty() {
            let mut shown = Request::new(());
            *shown.method_mut() = call.method.clone();
            *shown.uri_mut() = head.uri;
            *shown.headers_mut() = call.headers.clone();
            self.observers.iter().for_each(|observer| observer.started(&context.id, &shown));
        }
        Ok(())
    }
}

fn misuse(detail: &'static str) -> Error {
    Error::new(Kind::InvalidCall, detail)
}

/// The watch over a call, until it ends.
struct CallWatch {
    hooks: Arc<Hooks>,
    context: Arc<CallContext>,
    span: Span,
    begun: Instant,
    bytes: u64,
    over: bool,
}

impl CallWatch {
    fn end(&mut self, outcome: Result<StatusCode, &Error>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        match outcome {
            Ok(status) => {
                self.span.record("http.response.status_code", status.as_u16());
                if status.is_client_error() || status.is_server_error() {
                    self.span.record("error.type", field::display(ErrorType::Status(status.as_u16())));
                }
            }
            Err(error) => {
                if let Some(status) = error.upstream_status() {
                    self.span.record("http.response.status_code", status.as_u16());
                }
                self.span.record("error.type", field::display(ErrorType::Kind(error.kind())));
            }
        }
        self.span.record("http.response.body.size", self.bytes);
        let took = self.begun.elapsed();
        self.hooks.observers.iter().for_each(|observer| observer.ended(&self.context.id, outcome, took, self.bytes));
    }

    /// The answer; the call ends with its body.
    fn answer(mut self, answer: Answer) -> Answer {
        let status = answer.status;
        let body = match answer.body {
            message::AnswerBody::Pulled(body) if !body.is_end_stream() => {
                message::AnswerBody::Pulled(Box::pin(WatchedBody { body, status, watch: self }))
            }
            body => {
                self.bytes = body.length().unwrap_or(0);
                self.end(Ok(status));
                body
            }
        };
        Answer { body, ..answer }
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        if !self.over {
            let error = Error::new(Kind::Cancelled, "nobody waits for the call any more");
            self.end(Err(&error.at_call(self.context.id.clone())));
        }
    }
}

/// A body that is counted.
struct WatchedBody {
    body: message::PulledBody,
    status: StatusCode,
    watch: CallWatch,
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let frame = std::task::ready!(this.body.as_mut().poll_frame(cx));
        match &frame {
            None => this.watch.end(Ok(this.status)),
            Some(Err(error)) => this.watch.end(Err(error)),
            Some(Ok(frame)) => {
                this.watch.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                // A reader that sees the announced end does not poll again.
                if this.body.is_end_stream() {
                    this.watch.end(Ok(this.status));
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
