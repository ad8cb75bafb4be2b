//! Decisions about an answer that HTTP/1.1 and HTTP/2 share: its body, its length, its date.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::media_type::has_events;
use crocodile_pear::unstable::json;
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Extensions, HeaderMap, StatusCode};
use http_body::Body as _;
use tokio::time::Instant;

use super::request::NoMinimumRate;

/// The body of an answer on its way out.
pub enum Outgoing {
    /// In memory.
    Whole(Bytes),
    Pulled(PulledBody),
}

impl Outgoing {
    /// # Errors
    /// The body cannot be written as bytes.
    pub fn from_body(body: AnswerBody) -> Result<Self, Error> {
        Ok(match body {
            AnswerBody::Bytes(bytes) => Outgoing::Whole(bytes),
            AnswerBody::Json(raw) => Outgoing::Whole(raw.bytes().clone()),
            AnswerBody::Value(value) => Outgoing::Whole(json::to_bytes(&value)?),
            AnswerBody::Pulled(body) => Outgoing::Pulled(body),
            AnswerBody::Tunnel(_) => return Err(Error::new(Kind::Internal, "a tunnel is not a body")),
        })
    }

    /// The length, if it is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Outgoing::Whole(bytes) => Some(bytes.len() as u64),
            Outgoing::Pulled(body) => body.size_hint().exact(),
        }
    }
}

/// Whether answers with this status have no body.
pub fn is_bodiless(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The `Content-Length` of an answer, given what its head declares and the length of its body, if that is known.
pub fn content_length(status: StatusCode, declared: Option<u64>, length: Option<u64>) -> Option<u64> {
    match status {
        StatusCode::NO_CONTENT => None,
        // RFC 9110, 15.3.6: it has no body, and `Content-Length` says so.
        StatusCode::RESET_CONTENT => Some(0),
        StatusCode::NOT_MODIFIED => declared,
        _ => declared.or(length),
    }
}

/// The value of Content-Length, if there is exactly one.
pub fn declared(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let first = values.next()?.to_str().ok()?;
    let plain = values.next().is_none() && !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if plain { first.parse().ok() } else { None }
}

/// Whether a minimum rate applies to the answer. Streams have none.
pub fn is_hurried(headers: &HeaderMap, extensions: &Extensions) -> bool {
    extensions.get::<NoMinimumRate>().is_none() && !has_events(headers)
}

/// The error of a body that has `more` bytes where `left` must follow.
pub fn wrong_length(more: u64, left: u64) -> Error {
    match more > left {
        true => Error::new(Kind::Malformed, "the answer is longer than its length"),
        false => Error::new(Kind::Cut, "the answer ended before its length"),
    }
}

thread_local! {
    /// The `Date` value, and how long it is valid.
    static DATED: RefCell<Option<(Instant, HeaderValue)>> = const { RefCell::new(None) };
}

/// Gives the value of `Date` to `write`.
pub fn with_date<T>(now: Instant, write: impl FnOnce(&HeaderValue) -> T) -> T {
    DATED.with_borrow_mut(|dated| match dated {
        Some((until, value)) if *until > now => write(value),
        _ => {
            let time = SystemTime::now();
            let part = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
            let until = now + Duration::from_nanos(1_000_000_000 - u64::from(part));
            let value = HeaderValue::from_str(&httpdate::fmt_http_date(time)).expect("a date is a value");
            write(&dated.insert((until, value)).1)
        }
    })
}
