//! What the head of an answer says of its body.

use bytes::Bytes;
use http::StatusCode;

use crate::flow::Answer;

/// What a content type says of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
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
    /// YAML.
    Yaml,
    /// Names and values of a form.
    Form,
    /// Another type.
    Other,
    /// Nothing: JSON if it is, text if not.
    Nothing,
}

impl Declared {
    /// How long it takes to read so much, as bytes of an ordinary format.
    pub(super) fn weight(self, bytes: &Bytes) -> usize {
        match self {
            // It is checked, and not yet parsed.
            Declared::Json | Declared::Nothing => bytes.len() / 8,
            // Its parser is slow, and an alias may stand for much.
            Declared::Yaml => bytes.len() * 8,
            _ => bytes.len(),
        }
    }
}

/// An answer that has no body by its status (RFC 9110, 15.3.5) is not one of JSON that is missing.
pub(super) fn declared(answer: &Answer) -> Declared {
    by_status(answer.status, answer.headers.media())
}

/// What a content type says, of an answer with this status.
pub(super) fn by_status(status: StatusCode, media: Option<&[u8]>) -> Declared {
    match status {
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED => Declared::Nothing,
        _ => by_type(media),
    }
}

/// What a content type says.
pub(super) fn by_type(media: Option<&[u8]>) -> Declared {
    let Some(media) = media else { return Declared::Nothing };
    let essence = media.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    // Most answers, without a copy.
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
        b"x-ndjson" | b"ndjson" | b"jsonl" | b"x-jsonlines" => Declared::Ndjson,
        b"event-stream" => Declared::Sse,
        b"csv" => Declared::Csv,
        b"yaml" | b"x-yaml" | b"vnd.yaml" => Declared::Yaml,
        b"x-www-form-urlencoded" => Declared::Form,
        b"msgpack" | b"x-msgpack" | b"vnd.msgpack" => Declared::Msgpack,
        _ => Declared::Other,
    }
}
