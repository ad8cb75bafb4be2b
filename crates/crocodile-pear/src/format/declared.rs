//! The format of a body, as the head of its answer declares it.

use bytes::Bytes;
use http::StatusCode;

use crate::http::media_type::{essence, is_events};
use crate::message::answer::Answer;

/// The format that a content type declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// JSON; any other content is an error.
    Json,
    /// XML, except images and web pages.
    Xml,
    /// Lines of JSON.
    Ndjson,
    /// A sequence of JSON texts, each behind a record separator (RFC 7464).
    JsonSeq,
    /// Server-sent events.
    Sse,
    /// MessagePack.
    Msgpack,
    /// Rows with commas between their fields.
    Csv,
    Yaml,
    /// iCalendar.
    Calendar,
    /// Names and values of a form.
    Form,
    /// Another type.
    Other,
    /// No content type: JSON if the body is JSON, otherwise text.
    Nothing,
}

impl Declared {
    /// The cost of parsing these bytes, in bytes of an ordinary format.
    pub fn weight(self, bytes: &Bytes) -> usize {
        match self {
            // JSON is checked, but not parsed yet.
            Declared::Json | Declared::Nothing => bytes.len() / 8,
            // The YAML parser is slow, and aliases can repeat much content.
            Declared::Yaml => bytes.len() * 8,
            _ => bytes.len(),
        }
    }
}

/// The format of an answer. An answer that has no body because of its status (RFC 9110, 15.3.5) is not malformed JSON.
pub fn declared(answer: &Answer) -> Declared {
    by_status(answer.status, answer.headers.media())
}

/// The format that a content type declares, for an answer with this status.
pub fn by_status(status: StatusCode, media: Option<&[u8]>) -> Declared {
    match status {
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED => Declared::Nothing,
        _ => by_type(media),
    }
}

/// The format that a content type declares.
pub fn by_type(media: Option<&[u8]>) -> Declared {
    let Some(media) = media else { return Declared::Nothing };
    let essence = essence(media);
    // The most common type, compared without a copy.
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Declared::Json;
    }
    let essence = essence.to_ascii_lowercase();
    let at = essence.iter().position(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (kind, subtype) = essence.split_at(at);
    let suffix = subtype.rsplit(|&byte| byte == b'+').next().unwrap_or_default();
    match suffix {
        b"json" => Declared::Json,
        b"xml" if kind != b"image/" && subtype != b"xhtml+xml" => Declared::Xml,
        b"x-ndjson" | b"ndjson" | b"jsonl" | b"jsonlines" | b"x-jsonlines" | b"json-lines" => Declared::Ndjson,
        b"json-seq" => Declared::JsonSeq,
        b"event-stream" if is_events(media) => Declared::Sse,
        b"csv" => Declared::Csv,
        b"yaml" | b"x-yaml" | b"vnd.yaml" => Declared::Yaml,
        b"calendar" if kind == b"text/" => Declared::Calendar,
        b"x-www-form-urlencoded" => Declared::Form,
        b"msgpack" | b"x-msgpack" | b"vnd.msgpack" => Declared::Msgpack,
        _ => Declared::Other,
    }
}
