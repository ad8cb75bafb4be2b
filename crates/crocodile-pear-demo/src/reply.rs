//! Answers of the example upstreams, and the query parameters of their requests.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

pub type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub fn json(text: impl Into<Bytes>) -> Reply {
    page("application/json", text)
}

pub fn page(kind: &'static str, bytes: impl Into<Bytes>) -> Reply {
    typed(kind, Full::new(bytes.into()).boxed_unsync())
}

pub fn stream(kind: &'static str, chunks: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    typed(kind, StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync())
}

pub fn problem(status: StatusCode, detail: &str) -> Reply {
    let title = status.canonical_reason().unwrap_or("Error");
    let document =
        serde_json::json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail});
    with(status, page("application/problem+json", document.to_string()))
}

/// The reply with this status.
pub fn with(status: StatusCode, mut reply: Reply) -> Reply {
    *reply.status_mut() = status;
    reply
}

pub fn not_found(path: &str) -> Reply {
    problem(StatusCode::NOT_FOUND, &format!("there is no {path} here"))
}

pub fn not_allowed() -> Reply {
    let mut reply = problem(StatusCode::METHOD_NOT_ALLOWED, "this can only be read");
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    reply
}

fn typed(kind: &'static str, body: UnsyncBoxBody<Bytes, Infallible>) -> Reply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// The value of the first query parameter with this name, decoded.
pub fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pair = query?.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    let spaced = pair.1.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}
