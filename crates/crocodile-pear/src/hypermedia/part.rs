//! A value within a document, as the bytes that it has there.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

use hashbrown::HashMap;

use crate::json::{Raw, walk};

/// A value within a checked document.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    document: &'a Raw,
    bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// The whole document.
    pub(super) fn from_document(document: &'a Raw) -> Self {
        Part { document, bytes: document.bytes() }
    }

    /// Another value of the same document.
    pub(super) fn at(self, bytes: &'a [u8]) -> Self {
        Part { bytes, ..self }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The value of a field. If a key occurs twice, the last one counts.
    pub(super) fn field(self, name: &str) -> Option<Part<'a>> {
        let found = walk::Entries::of(self.bytes)?.filter(|(key, _)| walk::is(key, name)).last()?;
        Some(self.at(found.1)).filter(|part| !part.is_null())
    }

    /// The fields of an object, with their names.
    pub(super) fn fields(self) -> impl Iterator<Item = (Cow<'a, str>, Part<'a>)> {
        let entries = walk::Entries::of(self.bytes).into_iter().flatten();
        entries.filter_map(move |(key, value)| Some((text(key)?, self.at(value))))
    }

    /// The items of a list.
    pub(super) fn items(self) -> impl Iterator<Item = Part<'a>> {
        walk::Items::of(self.bytes).into_iter().flatten().map(move |item| self.at(item))
    }

    /// The items of a list, or the value itself.
    pub(super) fn each(self) -> impl Iterator<Item = Part<'a>> {
        self.items().chain((!self.is_list()).then_some(self))
    }

    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        text(self.bytes)
    }

    /// Whether it is this text.
    pub(super) fn is(self, wanted: &str) -> bool {
        self.bytes.first() == Some(&b'"') && walk::is(self.bytes, wanted)
    }

    pub(super) fn is_null(self) -> bool {
        self.bytes == b"null"
    }

    pub(super) fn is_list(self) -> bool {
        self.bytes.first() == Some(&b'[')
    }

    pub(super) fn is_object(self) -> bool {
        self.bytes.first() == Some(&b'{')
    }

    /// The value as a document of its own. It shares the bytes.
    pub(super) fn raw(self) -> Raw {
        Raw::sound(self.document.bytes().slice_ref(self.bytes), self.document.depth())
    }
}

/// The fields of an object that are asked for by name. Each of the first questions reads the object; after some, all names are kept:
/// a document may have as many as it has bytes.
pub(super) struct Members<'a> {
    part: Option<Part<'a>>,
    /// The key before which the fields end.
    end: Option<&'a [u8]>,
    asked: Cell<usize>,
    /// Whether the last value of each name is null.
    known: OnceCell<HashMap<Cow<'a, str>, bool>>,
}

/// The number of questions that read the object. Later ones use the map.
const FEW: usize = 16;

impl<'a> Members<'a> {
    pub(super) fn from_part(part: Option<Part<'a>>) -> Self {
        Members { part, end: None, asked: Cell::new(0), known: OnceCell::new() }
    }

    /// The fields before a key of the object, as it is written there.
    pub(super) fn before(part: Part<'a>, key: &'a [u8]) -> Self {
        Members { end: Some(key), ..Members::from_part(Some(part)) }
    }

    fn entries(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let entries = self.part.and_then(|part| walk::Entries::of(part.bytes())).into_iter().flatten();
        let end = self.end;
        entries.take_while(move |(key, _)| end != Some(*key))
    }

    /// Whether the last field of this name is null; `None` without one.
    fn is_null(&self, name: &str) -> Option<bool> {
        let null = |value: &[u8]| value == b"null";
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() <= FEW {
            return self.entries().filter(|(key, _)| walk::is(key, name)).last().map(|(_, value)| null(value));
        }
        let known = || self.entries().filter_map(|(key, value)| Some((text(key)?, null(value)))).collect();
        self.known.get_or_init(known).get(name).copied()
    }

    /// Whether there is a field of this name, and it is not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.is_null(name) == Some(false)
    }

    /// Whether there is a field of this name.
    pub(super) fn names(&self, name: &str) -> bool {
        self.is_null(name).is_some()
    }
}

pub(super) fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    match walk::text(json)? {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}
