//! A stored answer: its head, its body, and its tags.

use std::mem::size_of;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::encoded_copies::Copies;
use super::shared_body::SharedBody;
use crate::cache::rules::policy::ReuseTerms;
use crate::cache::rules::tags::Tags;
use crate::cache::rules::vary::Selector;

/// A stored answer, immutable except for a body that still arrives.
pub struct Entry {
    /// The status of the answer.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// The request's values of the fields in `vary`: a later request must have the same.
    pub selector: Selector,
    /// The fields that it depends on.
    pub tags: Tags,
    /// Until when, and under which conditions, it may be used.
    pub terms: ReuseTerms,
    pub body: SharedBody,
    /// The same body in codings.
    pub copies: Copies,
}

/// A field of a `HeaderMap` with its place in the index.
const FIELD: usize = 112;

/// A name that is not a standard one has an allocation of its own.
const NAME: usize = 64;

impl Entry {
    /// The bytes of memory that it takes, with its body.
    pub(crate) fn cost(&self) -> usize {
        let fields = |headers: &HeaderMap| {
            let text: usize = headers.iter().map(|(name, value)| extra(name) + value.len()).sum();
            headers.capacity() * FIELD + text
        };
        let selector = |(name, value): &(HeaderName, Option<Box<[u8]>>)| {
            size_of::<(HeaderName, Option<Box<[u8]>>)>() + extra(name) + value.as_ref().map_or(0, |value| value.len())
        };
        let trailers = self.body.trailers().map_or(0, fields);
        size_of::<Entry>()
            + fields(&self.headers)
            + trailers
            + self.selector.iter().map(selector).sum::<usize>()
            + size_of_val(self.tags.names())
            + self.body.cost()
            + self.copies.cost()
    }
}

fn extra(name: &HeaderName) -> usize {
    // The longest standard name that has no allocation has 35 letters; most of what is longer or odd has one.
    name.as_str().len() + NAME
}

/// The same fields with their values in one allocation: those of an answer may be slices of a buffer that they keep alive.
pub fn compact(headers: &HeaderMap) -> HeaderMap {
    let mut text = BytesMut::with_capacity(headers.values().map(HeaderValue::len).sum());
    headers.values().for_each(|value| text.extend_from_slice(value.as_bytes()));
    let text = text.freeze();
    let mut compact = HeaderMap::with_capacity(headers.len());
    let mut at = 0;
    for (name, value) in headers {
        let slice = text.slice(at..at + value.len());
        at += value.len();
        compact.append(name.clone(), same(slice, value));
    }
    compact
}

fn same(slice: Bytes, value: &HeaderValue) -> HeaderValue {
    let mut copy = HeaderValue::from_maybe_shared(slice).unwrap_or_else(|_| value.clone());
    copy.set_sensitive(value.is_sensitive());
    copy
}

#[cfg(test)]
mod tests {
    use super::super::entry::*;

    #[test]
    fn a_compact_head_says_the_same() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a=b"));
        headers.append("set-cookie", HeaderValue::from_static("c=d"));
        headers.append("etag", HeaderValue::from_static("\"x\""));
        headers.append("empty", HeaderValue::from_static(""));
        assert_eq!(compact(&headers), headers);
    }
}
