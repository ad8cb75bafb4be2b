//! A stored answer: its head, its body, and the names that purges find it by.

use std::mem::size_of;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::encoded_copies::Copies;
use super::shared_body::SharedBody;
use crate::cache::rules::key::PurgeName;
use crate::cache::rules::policy::ReuseTerms;
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

/// The tags of an answer. A purge finds it by these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Box<[PurgeName]>);

/// The maximum number of tags of an answer. A composed answer with more is not stored.
pub const MOST_TAGS: usize = 1024;

impl Tags {
    /// The tags with these numbers, as another gateway knows them.
    pub(crate) fn of_numbers(numbers: Vec<u64>) -> Self {
        Tags::of(numbers.into_iter().map(PurgeName::of_number).collect())
    }

    /// These tags, each once.
    pub fn new<T: AsRef<str>>(tags: impl IntoIterator<Item = T>) -> Self {
        Tags::of(tags.into_iter().map(|tag| PurgeName::of_tag(tag.as_ref())).collect())
    }

    fn of(mut names: Vec<PurgeName>) -> Self {
        names.sort_unstable();
        names.dedup();
        Tags(names.into())
    }

    /// The tags of both.
    #[must_use]
    pub fn union(&self, other: &Tags) -> Self {
        if other.0.is_empty() {
            return self.clone();
        }
        Tags::of(self.0.iter().chain(&other.0).copied().collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names by which a purge finds it.
    pub fn names(&self) -> &[PurgeName] {
        &self.0
    }
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
            + size_of_val(&*self.tags.0)
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

    #[test]
    fn tags_are_a_set() {
        let (one, two) = (Tags::new(["a", "b", "a"]), Tags::new(["b", "c"]));
        assert_eq!((one.len(), one.union(&two)), (2, Tags::new(["c", "b", "a"])));
    }
}
