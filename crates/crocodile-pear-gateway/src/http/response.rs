//! Responses for clients: the one place that makes a response of an answer or an error.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::json::to_bytes;
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::pipeline::flow::Outcome;
use crocodile_pear::unstable::request::context::Scope;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, Response, StatusCode};

use crate::http::route::METHODS;
use crate::server::Refusal;

pub fn respond(outcome: Outcome, scope: &Arc<Scope>) -> Response<AnswerBody> {
    let mut response = match outcome {
        None => empty(StatusCode::NO_CONTENT),
        Some(Ok(answer)) => hand_on(answer).unwrap_or_else(|error| fail(&error)),
        Some(Err(error)) => fail(&error),
    };
    if *scope.call_method() == Method::HEAD {
        without_length(&mut response);
    }
    response
}

fn hand_on(answer: Answer) -> Result<Response<AnswerBody>, Error> {
    let json = matches!(answer.body, AnswerBody::Value(_) | AnswerBody::Json(_));
    let body = match answer.body {
        // What cannot be written has a status of its own, which must be known before the head leaves.
        AnswerBody::Value(value) => AnswerBody::Bytes(to_bytes(&value)?),
        body => body,
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers.into_map();
    if let Some(failure) = answer.failure {
        // For the log, as below.
        response.extensions_mut().insert(failure);
    }
    if json {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(response)
}

/// A JSON document of our own.
pub fn json(document: &serde_json::Value) -> Response<AnswerBody> {
    json_bytes(document.to_string().into())
}

/// The same, written already.
pub fn json_bytes(document: Bytes) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Bytes(document));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A problem document (RFC 9457).
pub fn fail(error: &Error) -> Response<AnswerBody> {
    // Places and connections become free as calls end, which nobody can foretell: a second is the least that can be said.
    let retry = matches!(error.kind(), Kind::Busy | Kind::Unavailable | Kind::Overloaded)
        .then(|| error.retry_after().map_or(1, seconds));
    let mut response = problem(error.status(), error.document().into(), retry);
    response.headers_mut().extend(error.fields().clone());
    if error.has_body() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(status) = proxy_status(error) {
        response.headers_mut().insert(PROXY_STATUS, status);
    }
    // For the log: the cause is known here, and the request's identity where the layers are.
    response.extensions_mut().insert(error.clone());
    response
}

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// The `Proxy-Status` of a failure that is not its client's (RFC 9209). It names no server.
fn proxy_status(error: &Error) -> Option<HeaderValue> {
    let kind = error.kind().proxy_error()?;
    HeaderValue::from_str(&format!("crocodile-pear; error={kind}")).ok()
}

/// Whole ones, rounded up, and at least one.
fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

fn problem(status: StatusCode, document: Bytes, retry: Option<u64>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Bytes(document));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = retry {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// No endpoint has this path.
pub fn not_found() -> Response<AnswerBody> {
    refuse(StatusCode::NOT_FOUND, "no endpoint has this path")
}

/// The version that a request asks for is not there, or has not what it asks for; these have.
pub fn other_version(status: StatusCode, detail: &str, versions: &[&str]) -> Response<AnswerBody> {
    let title = status.canonical_reason().unwrap_or("Error");
    let document =
        serde_json::json!({ "title": title, "status": status.as_u16(), "detail": detail, "versions": versions });
    problem(status, document.to_string().into(), None)
}

/// No endpoint is for this host.
pub fn other_host() -> Response<AnswerBody> {
    refuse(StatusCode::MISDIRECTED_REQUEST, "no endpoint is for this host")
}

/// The path has endpoints, and none for this method. `OPTIONS` is told which it has.
pub fn other_method(method: &Method, has: &[&Method]) -> Response<AnswerBody> {
    let mut response = match *method {
        Method::OPTIONS => empty(StatusCode::NO_CONTENT),
        _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "the path has no endpoint for this method"),
    };
    let mut names: Vec<&str> = has.iter().map(|method| method.as_str()).collect();
    if names.contains(&"GET") && !names.contains(&"HEAD") {
        names.push("HEAD");
    }
    allow(&mut response, &names);
    response
}

/// The answer to OPTIONS: the methods of the path (RFC 9110, 9.3.7).
pub fn options(methods: &[&str]) -> Response<AnswerBody> {
    let mut response = empty(StatusCode::NO_CONTENT);
    allow(&mut response, methods);
    response
}

fn allow(response: &mut Response<AnswerBody>, methods: &[&str]) {
    if let Ok(allow) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(ALLOW, allow);
    }
}

/// The same request, elsewhere (RFC 9110, 15.4.9: the method stays). Without a host there is no elsewhere.
pub fn redirect(target: Option<&str>) -> Response<AnswerBody> {
    let Some(location) = target.and_then(|target| HeaderValue::from_str(target).ok()) else {
        return refuse(StatusCode::BAD_REQUEST, "the request names no host");
    };
    let mut response = empty(StatusCode::PERMANENT_REDIRECT);
    response.headers_mut().insert(LOCATION, location);
    response
}

/// The answer to a challenge of a certificate authority (RFC 8555, 8.3).
pub fn challenge(answer: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Bytes(answer.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// The problem type of draft-ietf-httpapi-ratelimit-headers-10.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// A request that is one too many for limits with these names; another one may come after so many seconds.
pub fn quota_exceeded(limits: &[&str], retry: u64) -> Response<AnswerBody> {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let document = serde_json::json!({
        "type": QUOTA_EXCEEDED, "title": "Too Many Requests", "status": status.as_u16(),
        "detail": format!("too many requests; try again in {retry} s"), "violated-policies": limits,
    });
    problem(status, document.to_string().into(), Some(retry))
}

/// A request of someone who has as many in flight as may be.
pub fn too_many_at_once() -> Response<AnswerBody> {
    let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, "too many requests at once");
    // Nobody can foretell when one of them ends: a second is the least that can be said.
    response.headers_mut().insert(RETRY_AFTER, 1.into());
    response
}

/// Something of our own cannot be asked now.
pub fn unavailable(detail: &str) -> Response<AnswerBody> {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, detail);
    response.headers_mut().insert(RETRY_AFTER, 1.into());
    response
}

/// A refusal that is no fault of an upstream or a step.
pub fn refuse(status: StatusCode, detail: &str) -> Response<AnswerBody> {
    let title = status.canonical_reason().unwrap_or("Error");
    let document = serde_json::json!({ "title": title, "status": status.as_u16(), "detail": detail });
    problem(status, document.to_string().into(), None)
}

/// A request that is not what the schema says; `errors` are all that is wrong with it.
pub fn invalid(errors: &[serde_json::Value]) -> Response<AnswerBody> {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let title = status.canonical_reason().unwrap_or("Error");
    let document = serde_json::json!({
        "title": title, "status": status.as_u16(), "detail": "the request is not valid", "errors": errors,
    });
    problem(status, document.to_string().into(), None)
}

/// A request that could not be read.
pub fn refusal(refusal: &Refusal) -> Response<AnswerBody> {
    let title = refusal.status.canonical_reason().unwrap_or("Error");
    let document = serde_json::json!({
        "title": title, "status": refusal.status.as_u16(), "kind": "bad-request", "detail": refusal.detail,
    });
    let mut response = problem(refusal.status, document.to_string().into(), None);
    // TRACE, which no path has.
    if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
        allow(&mut response, &METHODS);
    }
    response
}

fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::empty());
    *response.status_mut() = status;
    response
}

/// An answer to HEAD that says no length, without one being made of its having no body: GET's may have one.
pub fn without_length(response: &mut Response<AnswerBody>) {
    if response.body().is_empty() && !response.headers().contains_key(CONTENT_LENGTH) {
        *response.body_mut() = AnswerBody::without_length();
    }
}
