//! Walks through a checked document without parsing it.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;

use super::read::unescape;
use super::scan::{end, space, text_end};

/// The items of a checked list.
pub struct Items<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// The items of a list; `None` for another value.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        (bytes.first() == Some(&b'[')).then_some(Items { bytes, at: 1 })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = begin(self.bytes, self.at)?;
        self.at = end(self.bytes, start);
        self.bytes.get(start..self.at)
    }
}

/// The fields of a checked object: the key as it is in the document, with its quotes, and the value.
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// The fields of an object; `None` for another value.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        (bytes.first() == Some(&b'{')).then_some(Entries { bytes, at: 1 })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start = begin(self.bytes, self.at)?;
        let key = text_end(self.bytes, start);
        let value = value(self.bytes, key);
        self.at = end(self.bytes, value);
        Some((self.bytes.get(start..key)?, self.bytes.get(value..self.at)?))
    }
}

/// The next item of a checked list, or the next value of an object, from `at` on.
#[inline]
pub fn item(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let mut start = begin(bytes, at)?;
    if bytes.first() == Some(&b'{') {
        start = value(bytes, text_end(bytes, start));
    }
    Some(start..end(bytes, start))
}

/// Where the value begins after the key that ends here and its colon.
#[inline]
fn value(bytes: &[u8], key: usize) -> usize {
    space(bytes, space(bytes, key) + 1)
}

/// Where the next item begins, if there is one.
#[inline]
fn begin(bytes: &[u8], at: usize) -> Option<usize> {
    let at = space(bytes, at);
    match bytes.get(at)? {
        b']' | b'}' => None,
        b',' => Some(space(bytes, at + 1)),
        _ => Some(at),
    }
}

/// The text of a checked string, with escapes resolved; `None` for another value.
#[inline]
pub fn text(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(if memchr(b'\\', inner).is_some() { unescape(inner).into() } else { inner.into() })
}

/// Whether a key, as it is in the document, is this name after resolving escapes.
#[inline]
pub fn is(key: &[u8], name: &str) -> bool {
    let Some(inner) = key.get(1..key.len().saturating_sub(1)) else { return false };
    inner == name.as_bytes()
        || (inner.len() > name.len() && memchr(b'\\', inner).is_some() && unescape(inner) == name.as_bytes())
}
