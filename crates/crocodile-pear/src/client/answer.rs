//! The outcome of a pipeline as an HTTP response.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use super::body::Pulled;
use crate::error::Error;
use crate::message::body::AnswerBody;
use crate::pipeline::flow::Outcome;

/// The response. A failure becomes a problem document (RFC 9457). An outcome without an answer becomes 204.
pub fn from_outcome(outcome: Outcome) -> Response<Pulled> {
    or_failure(response(outcome))
}

/// The response, or a problem document.
pub fn or_failure(response: Result<Response<Pulled>, Error>) -> Response<Pulled> {
    response.unwrap_or_else(|error| failure(&error))
}

/// The response.
///
/// # Errors
/// Why there is none.
pub fn response(outcome: Outcome) -> Result<Response<Pulled>, Error> {
    match outcome {
        None => respond(StatusCode::NO_CONTENT, HeaderMap::new(), AnswerBody::empty()),
        Some(Ok(answer)) => {
            let failure = answer.failure;
            let mut made = respond(answer.status, describe(answer.headers.into_map(), &answer.body), answer.body)?;
            // Each item failed, and says so itself; the first of them gives the status.
            if let Some(error) = failure.filter(|error| error.status() == made.status()) {
                made.extensions_mut().insert(error);
            }
            Ok(made)
        }
        Some(Err(error)) => Err(error),
    }
}

/// Adds the content type to a body that a step made: it is JSON, and has no such field yet.
fn describe(mut headers: HeaderMap, body: &AnswerBody) -> HeaderMap {
    if matches!(body, AnswerBody::Value(_) | AnswerBody::Json(_)) && !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers
}

fn respond(status: StatusCode, headers: HeaderMap, body: AnswerBody) -> Result<Response<Pulled>, Error> {
    let mut response = Response::new(Pulled::new(body.into_pulled()?));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The client's answer for a failure. The error itself is in the extensions.
pub fn failure(error: &Error) -> Response<Pulled> {
    let mut response = Response::new(Pulled::of_bytes(error.document().into()));
    *response.status_mut() = error.status();
    let media = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, media);
    response.headers_mut().extend(error.fields().clone());
    response.extensions_mut().insert(error.clone());
    response
}

impl From<Error> for Response<Pulled> {
    /// A problem document with the status of the error's kind, as a handler of axum may return it.
    fn from(error: Error) -> Self {
        failure(&error)
    }
}
