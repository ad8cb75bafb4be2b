//! An answer: a head, and a body that is pulled.

use std::sync::{Arc, LazyLock};

use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, StatusCode};

use super::body::AnswerBody;
use super::names::Names;
use crate::error::Error;
use crate::http::http1::{AnswerFields, NameSet};
use crate::json::Data;
use crate::message::xml_lists::Lists;

/// An answer. The head has arrived; the body is pulled.
pub struct Answer {
    /// The status from the upstream, or 200 for an answer that a step made.
    pub status: StatusCode,
    /// The header fields, without hop-by-hop fields.
    pub headers: AnswerFields,
    pub body: AnswerBody,
    /// Named results that later expressions may use.
    pub names: Names,
    /// The upstream that sent it; errors in its body name this upstream.
    pub upstream: Option<Arc<str>>,
    /// For XML: the elements that are lists.
    pub lists: Lists,
    /// Whether steps use this answer whatever its status, because the call says so.
    pub accepted: bool,
    /// Why the status is an error, if a step made the answer from items that all failed.
    pub failure: Option<Error>,
}

/// Header fields that depend on the exact bytes of a body and are wrong for any other body (RFC 9110, 8 and 14.3; RFC
/// 9530).
pub const OF_BYTES: [HeaderName; 6] = [
    CONTENT_LENGTH,
    ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Header fields that describe a body: its bytes or its content.
static OF_BODY: LazyLock<NameSet> =
    LazyLock::new(|| NameSet::of(OF_BYTES.into_iter().chain([CONTENT_TYPE, CONTENT_RANGE, ETAG])));

/// Drops the header fields that describe a body, because another body replaces it.
pub fn undescribe(headers: &mut HeaderMap) {
    if headers.is_empty() {
        return;
    }
    for name in OF_BODY.iter() {
        headers.remove(name);
    }
}

/// The status after another, complete body replaces the answer's own. Statuses for a partial or an empty body do not
/// fit any more.
pub fn of_whole(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT => StatusCode::OK,
        status => status,
    }
}

impl Answer {
    /// An answer with only these three parts.
    pub fn new(status: StatusCode, headers: impl Into<AnswerFields>, body: AnswerBody) -> Self {
        let (names, upstream, lists) = (None, None, Lists::default());
        Answer { status, headers: headers.into(), body, names, upstream, lists, accepted: false, failure: None }
    }

    /// An answer that a step made of a value.
    pub fn of_value(value: impl Into<Data>) -> Self {
        Answer::new(StatusCode::OK, AnswerFields::default(), value.into().into())
    }

    /// Prepares the head for another body: drops all fields that describe the old body, and replaces the statuses for a
    /// part (206) or for nothing (204, 205).
    pub fn redescribe(&mut self) {
        self.headers.remove_all(&OF_BODY);
        self.status = of_whole(self.status);
    }

    /// Whether steps use it: its status is 2xx, or the call accepts its status.
    pub fn is_usable(&self) -> bool {
        self.accepted || self.status.is_success()
    }
}
