//! Answers to try a client with: late, slow, large, failing, or just what was asked.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use crate::reply::{self, Reply};

/// The maximum of a request's body that an echo holds.
const ECHO: usize = 1 << 20;

/// The size of a blob's chunks, each with the same bytes.
const CHUNK: usize = 1 << 16;

pub async fn slow(ms: u64) -> Option<Reply> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Some(reply::json(format!(r#"{{"slow":{ms}}}"#)))
}

/// So many lines of NDJSON, each that many milliseconds after the one before.
pub fn drip(lines: u64, ms: u64) -> Reply {
    let lines = stream::unfold(1, move |line| async move {
        if line > lines {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Some((Bytes::from(format!("{{\"line\":{line}}}\n")), line + 1))
    });
    reply::stream("application/x-ndjson", lines)
}

/// So many bytes, made as they are read.
pub fn blob(length: u64) -> Reply {
    let pattern: Bytes = (0..CHUNK).map(|place| b'a' + (place % 26) as u8).collect();
    let chunks = stream::unfold((length, pattern), |(left, pattern)| async move {
        let size = left.min(CHUNK as u64);
        (size > 0).then(|| (pattern.slice(..size as usize), (left - size, pattern)))
    });
    let mut reply = reply::stream("application/octet-stream", chunks);
    reply.headers_mut().insert(CONTENT_LENGTH, length.into());
    reply
}

/// An answer with that status, final ones only.
pub fn status(code: &str) -> Reply {
    match code.parse::<u16>().ok().filter(|code| (200..=599).contains(code)).map(StatusCode::from_u16) {
        Some(Ok(status @ (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED))) => reply::with(status, Reply::default()),
        Some(Ok(status)) => reply::with(status, reply::json(format!(r#"{{"status":{}}}"#, status.as_u16()))),
        _ => reply::problem(StatusCode::BAD_REQUEST, "a status is a number from 200 to 599"),
    }
}

/// The request, as JSON.
pub async fn echo(request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, ECHO).collect().await else {
        return reply::problem(StatusCode::PAYLOAD_TOO_LARGE, "an echo takes one MiB");
    };
    let told = json!({
        "method": head.method.as_str(),
        "path": head.uri.path(),
        "query": head.uri.query(),
        "headers": fields(&head.headers),
        "body": text(&body.to_bytes()),
    });
    reply::json(told.to_string())
}

/// Each name once: with its value, or with a list where it came several times.
fn fields(headers: &HeaderMap) -> Map<String, Value> {
    let told = |name| {
        let mut values: Vec<Value> = headers.get_all(name).iter().map(|value| text(value.as_bytes())).collect();
        if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
    };
    headers.keys().map(|name| (name.to_string(), told(name))).collect()
}

/// A string; base64 with a marker when it is not UTF-8.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({"base64": STANDARD.encode(bytes)}),
    }
}
