//! The outcome of a pipeline as an HTTP response.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::error::Error;
use crate::message::body::{Body, Pulled};
use crate::pipeline::flow::Outcome;

/// The response. A failure becomes a problem document (RFC 9457). An outcome without an answer becomes 204.
pub fn of(outcome: Outcome) -> Response<Pulled> {
    let response = match outcome {
        None => respond(StatusCode::NO_CONTENT, HeaderMap::new(), Body::empty()),
        Some(Ok(answer)) => respond(answer.status, describe(answer.headers.into_map(), &answer.body), answer.body),
        Some(Err(error)) => Err(error),
    };
    response.unwrap_or_else(|error| failure(&error))
}

/// Adds the content type to a body that a step made: it is JSON, and has no such field yet.
fn describe(mut headers: HeaderMap, body: &Body) -> HeaderMap {
    if matches!(body, Body::Value(_) | Body::Json(_)) && !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Result<Response<Pulled>, Error> {
    let mut response = Response::new(body.into_pulled()?);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// What the client is told of a failure.
pub fn failure(error: &Error) -> Response<Pulled> {
    let body: Pulled = Box::pin(crate::message::body::Whole::new(error.document().into()));
    let mut response = Response::new(body);
    *response.status_mut() = error.status();
    let media = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, media);
    response.headers_mut().extend(error.fields().clone());
    response
}
