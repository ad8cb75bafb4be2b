//! A value within a document, as the bytes that it has there.

use std::borrow::Cow;

use crate::json::{Raw, walk};

/// A value within a checked document.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    document: &'a Raw,
    bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// The whole document.
    pub(super) fn of(document: &'a Raw) -> Self {
        Part { document, bytes: document.bytes() }
    }

    /// Another value of the same document.
    pub(super) fn at(self, bytes: &'a [u8]) -> Self {
        Part { bytes, ..self }
    }

    /// The bytes.
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

fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    match walk::text(json)? {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}
