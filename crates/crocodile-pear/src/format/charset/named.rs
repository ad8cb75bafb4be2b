//! The words of a content type about bytes: the character set that it names, and what they are if they are no text.

use base64::Engine;
use bytes::Bytes;
use http::header::CONTENT_TYPE;

use crate::http::http1::AnswerFields;
use crate::http::list;

/// The `charset` of a content type.
pub fn named(headers: &AnswerFields) -> Option<&str> {
    let value = std::str::from_utf8(headers.media().filter(|media| media.is_ascii())?).ok()?;
    list::parameter(value, "charset")
}

/// Bytes as a `data:` URL (RFC 2397) of their content type.
pub fn data_url(headers: &AnswerFields, bytes: &Bytes) -> String {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/octet-stream");
    let media: String = media.chars().filter(|c| !c.is_whitespace()).collect();
    format!("data:{media};base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
}
