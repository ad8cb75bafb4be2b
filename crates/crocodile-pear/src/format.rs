//! Bytes to values and back, by content type.

mod decode;
pub mod json;

use std::sync::Arc;

use base64::Engine;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::error::Error;
use crate::flow::Answer;
use crate::jq::{self, Value};

pub use decode::plain;

/// What a content type says of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    /// JSON: anything else in it is a fault.
    Json,
    /// Another type.
    Other,
    /// Nothing: JSON if it is, text if not.
    Nothing,
}

fn declared(headers: &HeaderMap) -> Declared {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Declared::Nothing };
    let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let subtype = essence.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let ends_in_json = subtype.len() >= 4 && subtype[subtype.len() - 4..].eq_ignore_ascii_case(b"json");
    let before = subtype.len().checked_sub(5).map(|at| subtype[at]);
    if ends_in_json && matches!(before, None | Some(b'+')) { Declared::Json } else { Declared::Other }
}

/// The value of an answer's body, at most `bound` bytes: JSON read, other text a string, bytes that are not text
/// a `data:` URL (RFC 2397), nothing null.
///
/// # Errors
/// `Malformed` for JSON that is none, `Oversized`, and whatever ends the body before its end.
pub async fn value(answer: Answer, bound: usize) -> Result<Value, Error> {
    let upstream = answer.upstream.clone();
    read(answer, bound).await.map_err(|error| of(error, upstream.as_ref()))
}

fn of(error: Error, upstream: Option<&Arc<str>>) -> Error {
    match upstream {
        Some(upstream) => error.of_upstream(upstream),
        None => error,
    }
}

async fn read(answer: Answer, bound: usize) -> Result<Value, Error> {
    let answer = plain(answer)?;
    if let crate::flow::Body::Value(value) = answer.body {
        return Ok(value);
    }
    let (headers, bytes) = (answer.headers, answer.body.collect(bound).await?);
    match declared(&headers) {
        _ if bytes.is_empty() => Ok(jq::null()),
        Declared::Json => json::read(&bytes),
        Declared::Nothing => json::read(&bytes).or_else(|_| Ok(jq::string(&text(&headers, &bytes)))),
        Declared::Other => Ok(jq::string(&text(&headers, &bytes))),
    }
}

/// The same as JSON text, appended to `out`: JSON is checked and spliced as it came.
///
/// # Errors
/// As [`value`].
pub async fn splice(answer: Answer, bound: usize, lines: Lines, out: &mut Vec<u8>) -> Result<(), Error> {
    let upstream = answer.upstream.clone();
    append(answer, bound, lines, out).await.map_err(|error| of(error, upstream.as_ref()))
}

async fn append(answer: Answer, bound: usize, lines: Lines, out: &mut Vec<u8>) -> Result<(), Error> {
    let answer = plain(answer)?;
    if let crate::flow::Body::Value(value) = &answer.body {
        return json::write(value, out);
    }
    let (headers, bytes) = (answer.headers, answer.body.collect(bound).await?);
    let declared = declared(&headers);
    if bytes.is_empty() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    if declared != Declared::Other {
        match json::check(&bytes) {
            Ok(()) => return Ok(lines.append(&bytes, out)),
            Err(error) if declared == Declared::Json => return Err(error),
            Err(_) => {}
        }
    }
    json::write_string(&text(&headers, &bytes), out);
    Ok(())
}

/// Whether JSON text may keep its line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// As they came.
    Kept,
    /// None: NDJSON and SSE end an item with one.
    Joined,
}

impl Lines {
    fn append(self, checked: &Bytes, out: &mut Vec<u8>) {
        match self {
            Lines::Kept => out.extend_from_slice(&json::trim(checked)),
            Lines::Joined => json::compact(checked, out),
        }
    }
}

/// Text as it is; other bytes as a `data:` URL.
fn text(headers: &HeaderMap, bytes: &Bytes) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/octet-stream");
    let media: String = media.chars().filter(|c| !c.is_whitespace()).collect();
    format!("data:{media};base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(content_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
    }

    #[test]
    fn json_is_known_by_its_type_or_its_suffix() {
        for json in ["application/json", "application/json; charset=utf-8", "application/problem+json", "text/JSON"] {
            assert_eq!(declared(&of(json)), Declared::Json, "{json}");
        }
        for other in ["text/html", "application/xml", "application/notjson", "application/json-seq"] {
            assert_eq!(declared(&of(other)), Declared::Other, "{other}");
        }
        assert_eq!(declared(&HeaderMap::new()), Declared::Nothing);
    }

    #[test]
    fn bytes_that_are_no_text_become_a_data_url() {
        let bytes = Bytes::from_static(&[0xff, 0x00]);
        assert_eq!(text(&of("image/png"), &bytes), "data:image/png;base64,/wA=");
    }
}
