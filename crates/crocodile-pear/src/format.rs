//! Bytes to values and back, by content type.

pub mod csv;
mod decode;
pub mod json;
pub mod msgpack;
pub mod ndjson;
pub mod sse;
pub mod xml;

use std::sync::Arc;

use base64::Engine;
use bytes::Bytes;
use encoding_rs::Encoding;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::error::Error;
use crate::flow::{Answer, Body};
use crate::jq::{self, Data, Value};
use json::Raw;

pub use decode::plain;

/// What a content type says of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    /// JSON: anything else in it is a fault.
    Json,
    /// XML, but for pictures and pages.
    Xml,
    /// Lines of JSON.
    Ndjson,
    /// Server-sent events.
    Sse,
    /// MessagePack.
    Msgpack,
    /// Rows with commas between their fields.
    Csv,
    /// Another type.
    Other,
    /// Nothing: JSON if it is, text if not.
    Nothing,
}

/// An answer that has no body by its status (RFC 9110, 15.3.5) is not one of JSON that is missing.
fn declared(answer: &Answer) -> Declared {
    match answer.status {
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED => Declared::Nothing,
        _ => by_type(&answer.headers),
    }
}

fn by_type(headers: &HeaderMap) -> Declared {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Declared::Nothing };
    let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let essence = essence.to_ascii_lowercase();
    let at = essence.iter().position(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (kind, subtype) = essence.split_at(at);
    let suffix = subtype.rsplit(|&byte| byte == b'+').next().unwrap_or_default();
    match suffix {
        b"json" => Declared::Json,
        b"xml" if kind != b"image/" && subtype != b"xhtml+xml" => Declared::Xml,
        b"x-ndjson" | b"ndjson" | b"jsonl" | b"x-jsonlines" => Declared::Ndjson,
        b"event-stream" => Declared::Sse,
        b"csv" => Declared::Csv,
        b"msgpack" | b"x-msgpack" | b"vnd.msgpack" => Declared::Msgpack,
        _ => Declared::Other,
    }
}

/// The `charset` of a content type.
fn charset(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let parameters = value.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut found = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    found.next().map(|(_, label)| label.trim().trim_matches('"'))
}

/// Whether an answer is JSON without being looked at.
pub fn is_json(answer: &Answer) -> bool {
    matches!(answer.body, Body::Value(_) | Body::Json(_)) || declared(answer) == Declared::Json
}

/// The value of an answer's body, at most `bound` bytes: JSON, XML, NDJSON, CSV and server-sent events by their
/// content type, other text a string, bytes that are not text a `data:` URL (RFC 2397), nothing null.
///
/// # Errors
/// `Malformed` for what is not what its type says, `Oversized`, and whatever ends the body before its end.
pub async fn value(answer: Answer, bound: usize) -> Result<Value, Error> {
    data(answer, bound).await.map(Data::into_value)
}

/// The same for those who may not look inside: JSON is checked and not yet parsed.
///
/// # Errors
/// As [`value`].
pub async fn data(answer: Answer, bound: usize) -> Result<Data, Error> {
    let upstream = answer.upstream.clone();
    read(answer, bound).await.map_err(|error| of(error, upstream.as_ref()))
}

/// An answer's head, and what [`data`] makes of its body.
///
/// # Errors
/// As [`value`].
pub async fn open(answer: Answer, bound: usize) -> Result<(Answer, Data), Error> {
    let upstream = answer.upstream.clone();
    let mut answer = plain(answer).map_err(|error| of(error, upstream.as_ref()))?;
    let data = match std::mem::replace(&mut answer.body, Body::empty()) {
        Body::Value(value) => value.into(),
        Body::Json(raw) => raw.into(),
        body => {
            data(Answer { status: answer.status, headers: answer.headers.clone(), body, names: None, upstream }, bound)
                .await?
        }
    };
    Ok((answer, data))
}

fn of(error: Error, upstream: Option<&Arc<str>>) -> Error {
    match upstream {
        Some(upstream) => error.of_upstream(upstream),
        None => error,
    }
}

async fn read(answer: Answer, bound: usize) -> Result<Data, Error> {
    let answer = plain(answer)?;
    match answer.body {
        Body::Value(value) => return Ok(value.into()),
        Body::Json(raw) => return Ok(raw.into()),
        _ => {}
    }
    let declared = declared(&answer);
    let (headers, bytes) = (answer.headers, answer.body.collect(bound).await?);
    match declared {
        Declared::Nothing | Declared::Other if bytes.is_empty() => Ok(jq::null().into()),
        Declared::Json => Raw::check(&bytes).map(Data::Json),
        Declared::Nothing => match Raw::check(&bytes) {
            Ok(raw) => Ok(raw.into()),
            Err(_) => Ok(jq::string(&text(&headers, &bytes)).into()),
        },
        Declared::Other => Ok(jq::string(&text(&headers, &bytes)).into()),
        other => structured(other, &headers, &bytes).map(Data::Json),
    }
}

/// The JSON of a format that is none.
fn structured(declared: Declared, headers: &HeaderMap, bytes: &Bytes) -> Result<Raw, Error> {
    match declared {
        Declared::Xml => xml::read(bytes, charset(headers)),
        Declared::Ndjson => ndjson::read(bytes),
        Declared::Sse => sse::read(&text(headers, bytes)),
        Declared::Msgpack => msgpack::read(bytes),
        Declared::Csv => csv::read(&text(headers, bytes)),
        Declared::Json | Declared::Other | Declared::Nothing => Raw::check(bytes),
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
    match &answer.body {
        Body::Value(value) => return json::write(value, out),
        Body::Json(raw) => {
            lines.append(raw.bytes(), out);
            return Ok(());
        }
        _ => {}
    }
    let declared = declared(&answer);
    let (headers, bytes) = (answer.headers, answer.body.collect(bound).await?);
    if bytes.is_empty() && declared != Declared::Json {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match declared {
        Declared::Json => {
            json::check(&bytes)?;
            lines.append(&bytes, out);
        }
        Declared::Nothing if json::check(&bytes).is_ok() => lines.append(&bytes, out),
        Declared::Nothing | Declared::Other => json::write_string(&text(&headers, &bytes), out),
        other => lines.append(structured(other, &headers, &bytes)?.bytes(), out),
    }
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

/// Text as it is, in the character set of its type; other bytes as a `data:` URL.
fn text(headers: &HeaderMap, bytes: &Bytes) -> String {
    let named = charset(headers).and_then(|label| Encoding::for_label_no_replacement(label.as_bytes()));
    if let Some(text) = named.and_then(|set| set.decode_without_bom_handling_and_without_replacement(bytes)) {
        return text.into_owned();
    }
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
            assert_eq!(by_type(&of(json)), Declared::Json, "{json}");
        }
        assert_eq!(by_type(&of("application/rss+xml; charset=utf-8")), Declared::Xml);
        assert_eq!(by_type(&of("TEXT/CSV")), Declared::Csv);
        for other in
            ["text/html", "image/svg+xml", "application/xhtml+xml", "application/notjson", "application/json-seq"]
        {
            assert_eq!(by_type(&of(other)), Declared::Other, "{other}");
        }
        assert_eq!(by_type(&HeaderMap::new()), Declared::Nothing);
    }

    #[test]
    fn text_is_read_in_its_character_set() {
        let latin = Bytes::from_static(b"\xe5");
        assert_eq!(text(&of("text/plain; charset=ISO-8859-1"), &latin), "å");
        assert_eq!(text(&of("text/plain; charset=\"windows-1252\""), &latin), "å");
        assert_eq!(text(&of("text/plain; charset=nonsense"), &Bytes::from_static(b"a")), "a");
    }

    #[test]
    fn bytes_that_are_no_text_become_a_data_url() {
        let bytes = Bytes::from_static(&[0xff, 0x00]);
        assert_eq!(text(&of("image/png"), &bytes), "data:image/png;base64,/wA=");
    }
}
