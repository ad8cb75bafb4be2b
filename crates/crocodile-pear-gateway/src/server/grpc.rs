//! The parts of gRPC that matter to a server that only passes calls on: failures are reported in trailers, independent
//! of the HTTP status, and calls carry their deadline.

use std::time::Duration;

use crocodile_pear::unstable::http::media_type::is_grpc;
use crocodile_pear::unstable::message::body::AnswerBody;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

const MEDIA: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Characters of a message that must be percent-encoded; those beyond ASCII always are.
const UNFIT: &AsciiSet = &CONTROLS.add(b'%');

/// Turns a problem document of ours into a gRPC failure: the status goes into fields, and there is no body.
pub fn dress(response: &mut Response<AnswerBody>) {
    let status = response.status();
    let problem = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == "application/problem+json");
    let (true, AnswerBody::Bytes(document)) = (problem, response.body()) else { return };
    let document: Option<serde_json::Value> = serde_json::from_slice(document).ok();
    let detail = document.as_ref().and_then(|document| document.get("detail")?.as_str());
    let failure = failure(status, detail.or(status.canonical_reason()).unwrap_or_default());
    response.headers_mut().remove(CONTENT_LENGTH);
    response.headers_mut().extend(failure);
    *response.status_mut() = StatusCode::OK;
    *response.body_mut() = AnswerBody::empty();
}

/// Whether a message has a content type of gRPC.
pub fn speaks(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media| is_grpc(media.as_bytes()))
}

/// The headers of an answer that is only a failure.
fn failure(status: StatusCode, detail: &str) -> HeaderMap {
    let mut headers = trailers(status, detail);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    headers
}

/// The trailers of an answer that failed in the middle.
pub fn trailers(status: StatusCode, detail: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(STATUS, code(status).into());
    if let Ok(message) = HeaderValue::from_str(&utf8_percent_encode(detail, UNFIT).to_string()) {
        headers.insert(MESSAGE, message);
    }
    headers
}

/// The gRPC code for an HTTP status of ours (`google.rpc.Code`).
fn code(status: StatusCode) -> u16 {
    match status.as_u16() {
        400 | 406 | 415 | 422 => 3,
        401 => 16,
        403 => 7,
        404 | 405 | 501 => 12,
        408 | 504 => 4,
        413 | 414 | 429 | 431 => 8,
        500 => 13,
        502 | 503 => 14,
        _ => 2,
    }
}

/// The timeout that a client sends with a call: at most eight digits and a unit.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| plain)?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        let read = |text: &'static str| {
            timeout(&HeaderMap::from_iter([(TIMEOUT, HeaderValue::from_static(text))])).map(|time| time.as_nanos())
        };
        assert_eq!(read("1H"), Some(3_600_000_000_000));
        assert_eq!(read("99999999S"), Some(99_999_999_000_000_000));
        assert_eq!(read("20m"), Some(20_000_000));
        assert_eq!(read("7n"), Some(7));
        for bad in ["", "S", "1", "-1S", "1s", "1.5S", "123456789S", "1 S", "+1S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_message_holds_no_byte_that_a_field_may_not() {
        let fields = failure(StatusCode::GATEWAY_TIMEOUT, "100 % späte\nAntwort");
        assert_eq!(
            (&fields["grpc-status"], fields["grpc-message"].to_str().ok()),
            (&HeaderValue::from_static("4"), Some("100 %25 sp%C3%A4te%0AAntwort"))
        );
    }
}
