//! From what is kept to an answer: conditional requests, ranges, HEAD and `Age` (RFC 9110, 13 and 14; RFC 9111, 4).

use http::header::{
    AGE, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::entry::Entry;
use super::shared_body::SharedBody;
use crate::cache::rules::policy::opaque;
use crate::cache::rules::range::{self, ContentRange, RangeSelection};
use crate::http::date::{self, Moment};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;

/// Whether a request asks for something that only its upstream can know.
pub fn is_bound(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH) || headers.contains_key(IF_UNMODIFIED_SINCE)
}

/// Whether what is kept holds what the request asks for: the whole, or a part with its range.
pub fn holds(entry: &Entry, request: &HeaderMap) -> bool {
    if entry.status != StatusCode::PARTIAL_CONTENT {
        return true;
    }
    let part = range::part(&entry.headers);
    let within = range::asked(request).zip(part).and_then(|(asked, part)| asked.within(&part));
    within.is_some() && may_cut(&entry.headers, request)
}

/// Whether the client already has this answer (RFC 9110, 13.1.2 and 13.1.3).
pub fn has_it(status: StatusCode, answer: &HeaderMap, request: &HeaderMap) -> bool {
    if !status.is_success() {
        return false;
    }
    if request.contains_key(IF_NONE_MATCH) {
        return has_tag(answer.get(ETAG), request);
    }
    let since = request.get(IF_MODIFIED_SINCE).and_then(|since| date::parse(since.as_bytes()));
    // Without a date of its own, it was not changed since it was made.
    let changed = answer.get(LAST_MODIFIED).or_else(|| answer.get(DATE));
    match (since, changed.and_then(|changed| date::parse(changed.as_bytes()))) {
        (Some(since), Some(changed)) => changed <= since,
        _ => false,
    }
}

/// RFC 9110, 8.8.3.2: weakly compared.
fn has_tag(tag: Option<&HeaderValue>, request: &HeaderMap) -> bool {
    let known = |member: &[u8]| member == b"*" || tag.is_some_and(|tag| opaque(member) == opaque(tag.as_bytes()));
    request.get_all(IF_NONE_MATCH).iter().any(|line| tags(line.as_bytes()).any(known))
}

/// The tags of a line; a comma in quotes is a part of a tag.
fn tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    line.split(move |byte| {
        quoted ^= *byte == b'"';
        *byte == b',' && !quoted
    })
    .map(<[u8]>::trim_ascii)
    .filter(|tag| !tag.is_empty())
}

/// Whether a range may be sent (RFC 9110, 13.1.5).
fn may_cut(answer: &HeaderMap, request: &HeaderMap) -> bool {
    let Some(condition) = request.get(IF_RANGE) else { return true };
    match answer.get(ETAG) {
        Some(tag) if condition.as_bytes().starts_with(b"\"") => tag == condition,
        _ => answer.get(LAST_MODIFIED) == Some(condition),
    }
}

/// The answer to a request: all of it, a part of it, its head, or that the client has it. Its body is what `body` gives of
/// these positions of what is kept.
pub fn answer(
    entry: &Entry,
    method: &Method,
    request: &HeaderMap,
    now: Moment,
    body: impl FnOnce(Option<std::ops::Range<u64>>) -> AnswerBody,
) -> Answer {
    let mut headers = entry.headers.clone();
    headers.insert(AGE, HeaderValue::from(entry.terms.age(now).as_secs()));
    if (request.contains_key(IF_NONE_MATCH) || request.contains_key(IF_MODIFIED_SINCE))
        && has_it(entry.status, &headers, request)
    {
        return not_modified(headers);
    }
    let cut = if request.contains_key(RANGE) && *method == Method::GET { cut(entry, request) } else { None };
    match cut {
        None if *method == Method::HEAD => {
            if let Some(length) = entry.body.length() {
                headers.insert(CONTENT_LENGTH, length.into());
            }
            Answer::new(entry.status, headers, AnswerBody::empty())
        }
        None => Answer::new(entry.status, headers, body(None)),
        Some((RangeSelection::Unsatisfiable, part)) => {
            let whole = part.whole.unwrap_or(part.bytes.end);
            crate::message::answer::undescribe(&mut headers);
            set(&mut headers, CONTENT_RANGE, &format!("bytes */{whole}"));
            Answer::new(StatusCode::RANGE_NOT_SATISFIABLE, headers, AnswerBody::empty())
        }
        Some((RangeSelection::Bytes(bytes), part)) => {
            headers.insert(CONTENT_LENGTH, (bytes.end - bytes.start).into());
            // A kept part has a range of its own.
            set(&mut headers, CONTENT_RANGE, &range::content_range(&bytes, part.whole));
            let start = if entry.status == StatusCode::PARTIAL_CONTENT { part.bytes.start } else { 0 };
            let body = body(Some(bytes.start - start..bytes.end - start));
            Answer::new(StatusCode::PARTIAL_CONTENT, headers, body)
        }
    }
}

/// Sets a field that has one value. `HeaderMap::extend` adds a second one.
fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Adds the fields that are not kept, for the request that fetched them. A field that the answer has already was made for
/// it, such as `age` or the length of a part.
pub fn complete(headers: &mut HeaderMap, own: &HeaderMap) {
    let missing: Vec<&HeaderName> = own.keys().filter(|name| !headers.contains_key(*name)).collect();
    for name in missing {
        for value in own.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}

/// The range of the entry to send, with its bytes; `None` for all of it.
fn cut(entry: &Entry, request: &HeaderMap) -> Option<(RangeSelection, ContentRange)> {
    let asked = range::asked(request).filter(|_| may_cut(&entry.headers, request))?;
    if entry.status == StatusCode::PARTIAL_CONTENT {
        let part = range::part(&entry.headers)?;
        return Some((RangeSelection::Bytes(asked.within(&part)?), part));
    }
    let length = entry.body.length().filter(|_| entry.status == StatusCode::OK)?;
    Some((asked.of(length), ContentRange { bytes: 0..length, whole: Some(length) }))
}

/// RFC 9110, 15.4.5
pub fn not_modified(mut headers: HeaderMap) -> Answer {
    for name in crate::message::answer::OF_BYTES.iter().chain(&[http::header::CONTENT_TYPE, CONTENT_RANGE]) {
        headers.remove(name);
    }
    Answer::new(StatusCode::NOT_MODIFIED, headers, AnswerBody::empty())
}

/// The fields to validate the entry (RFC 9111, 4.3.1).
pub fn validators(kept: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let of = |asks: HeaderName, has: HeaderName| kept.get(has).map(|value| (asks, value.clone()));
    of(IF_NONE_MATCH, ETAG).into_iter().chain(of(IF_MODIFIED_SINCE, LAST_MODIFIED))
}

/// Gives an answer an entity tag of its own, made of its body, unless it has one.
pub fn describe(headers: &mut HeaderMap, body: &SharedBody) {
    let Some(pieces) = body.pieces().filter(|_| !headers.contains_key(ETAG)) else { return };
    let mut digest = Sha256::new();
    pieces.iter().for_each(|piece| digest.update(piece));
    let digest: String = digest.finalize()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    set(headers, ETAG, &format!("\"{digest}\""));
}
