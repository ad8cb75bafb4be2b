//! What the client is told: the one place that makes a response of an answer or an error.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::error::{Error, Kind};
use crocodile_pear::flow::{Answer, Body, Outcome, Pulled, Whole};
use crocodile_pear::scope::Scope;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, TE, TRAILER};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Frame;

use crate::server::Refusal;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The response to an outcome, with the timers that were passed so far. Those that are passed later come in the
/// trailer, where the client takes trailers.
pub fn respond(outcome: Outcome, scope: &Arc<Scope>, timed: bool) -> Response<Pulled> {
    let mut response = match outcome {
        None => empty(StatusCode::NO_CONTENT),
        Some(Ok(answer)) => hand_on(answer).unwrap_or_else(|error| fail(&error)),
        Some(Err(error)) => fail(&error),
    };
    if timed {
        time(&mut response, scope);
    }
    response
}

fn hand_on(answer: Answer) -> Result<Response<Pulled>, Error> {
    let json = matches!(answer.body, Body::Value(_) | Body::Json(_));
    let mut response = Response::new(answer.body.into_pulled()?);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    if json {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(response)
}

/// A problem document (RFC 9457).
pub fn fail(error: &Error) -> Response<Pulled> {
    // Places and connections become free as calls end, which nobody can foretell: a second is the least that can be said.
    let retry = (error.kind() == Kind::Busy).then(|| error.retry_after().map_or(1, seconds));
    let mut response = problem(error.status(), error.document().into(), retry);
    response.headers_mut().extend(error.fields().clone());
    response
}

/// Whole ones, rounded up, and at least one.
fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

fn problem(status: StatusCode, document: Bytes, retry: Option<u64>) -> Response<Pulled> {
    let mut response = Response::new(Box::pin(Whole::new(document)) as Pulled);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = retry {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// No endpoint has this path.
pub fn not_found() -> Response<Pulled> {
    refuse(StatusCode::NOT_FOUND, "no endpoint has this path")
}

/// The path has endpoints, and none for this method. `OPTIONS` is told which it has.
pub fn other_method(method: &Method, has: &[&Method]) -> Response<Pulled> {
    let mut response = match *method {
        Method::OPTIONS => empty(StatusCode::NO_CONTENT),
        _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "the path has no endpoint for this method"),
    };
    let mut names: Vec<&str> = has.iter().map(|method| method.as_str()).collect();
    if names.contains(&"GET") && !names.contains(&"HEAD") {
        names.push("HEAD");
    }
    if let Ok(allow) = HeaderValue::from_str(&names.join(", ")) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// A refusal that is no fault of an upstream or a step.
pub fn refuse(status: StatusCode, detail: &str) -> Response<Pulled> {
    let title = status.canonical_reason().unwrap_or("Error");
    let document = serde_json::json!({ "title": title, "status": status.as_u16(), "detail": detail });
    problem(status, document.to_string().into(), None)
}

/// A request that could not be read.
pub fn refusal(refusal: &Refusal) -> Response<Body> {
    let title = refusal.status.canonical_reason().unwrap_or("Error");
    let document = serde_json::json!({
        "title": title, "status": refusal.status.as_u16(), "kind": "bad-request", "detail": refusal.detail,
    });
    problem(refusal.status, document.to_string().into(), None).map(Body::Pulled)
}

fn empty(status: StatusCode) -> Response<Pulled> {
    let mut response = Response::new(Box::pin(Whole::new(Bytes::new())) as Pulled);
    *response.status_mut() = status;
    response
}

/// Adds `Server-Timing` (W3C): to the head what has been passed, to the trailer the whole.
fn time(response: &mut Response<Pulled>, scope: &Arc<Scope>) {
    if let Some(timing) = timing(scope) {
        response.headers_mut().append(SERVER_TIMING, timing);
    }
    if takes_trailers(scope.headers()) && !response.body().is_end_stream() {
        response.headers_mut().append(TRAILER, HeaderValue::from_static("server-timing"));
        let body = std::mem::replace(response.body_mut(), Box::pin(Whole::new(Bytes::new())));
        *response.body_mut() = Box::pin(Timed { body, scope: Some(scope.clone()) });
    }
}

fn timing(scope: &Scope) -> Option<HeaderValue> {
    HeaderValue::from_str(&scope.timeline().server_timing()?).ok()
}

/// Whether the client said `TE: trailers` (RFC 9110, 6.5.1).
fn takes_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// A body with the timers in its trailer. Its length is not told: trailers need chunks.
struct Timed {
    body: Pulled,
    scope: Option<Arc<Scope>>,
}

impl Timed {
    fn trailer(&mut self, before: Option<HeaderMap>) -> Option<Frame<Bytes>> {
        let mut trailers = before.unwrap_or_default();
        let timing = self.scope.take().and_then(|scope| timing(&scope));
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
