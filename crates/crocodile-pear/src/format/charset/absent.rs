//! A build without `charsets`: texts are in UTF-8, and any other character set is refused.

#[path = "named.rs"]
mod named;

use std::borrow::Cow;

use bytes::Bytes;

pub use self::named::{data_url, named};
use crate::error::{Error, Kind};
use crate::http::http1::AnswerFields;
use crate::json;

/// UTF-8, and what is a part of it.
fn is_utf8(label: &str) -> bool {
    ["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|known| label.eq_ignore_ascii_case(known))
}

fn check(headers: &AnswerFields) -> Result<(), Error> {
    match named(headers).is_none_or(is_utf8) {
        true => Ok(()),
        false => Err(super::unbuilt("charsets")),
    }
}

/// A text in UTF-8. A byte order mark is removed.
///
/// # Errors
/// `Malformed` for another character set, and for bytes that are not UTF-8.
pub fn text<'a>(headers: &AnswerFields, bytes: &'a [u8]) -> Result<Cow<'a, str>, Error> {
    check(headers)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map(Cow::Borrowed);
    text.map_err(|_| Error::new(Kind::Malformed, "it has bytes that are not UTF-8"))
}

/// JSON in UTF-8.
///
/// # Errors
/// `Malformed` for another character set.
pub fn recode(headers: &AnswerFields, bytes: Bytes) -> Result<Bytes, Error> {
    check(headers).map(|()| json::unmarked(bytes))
}

/// Text in UTF-8. Bytes that are not, of a type that names no character set, become a `data:` URL (RFC 2397).
///
/// # Errors
/// Same as [`text`], for a type that names its character set.
pub fn any(headers: &AnswerFields, bytes: &Bytes) -> Result<String, Error> {
    if named(headers).is_some() {
        return text(headers, bytes).map(Cow::into_owned);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    Ok(data_url(headers, bytes))
}

/// Like [`recode`], for bytes that arrive in pieces.
pub struct Recoder(());

impl Recoder {
    /// For a body with this head.
    ///
    /// # Errors
    /// `Malformed` for another character set.
    pub fn new(headers: &AnswerFields) -> Result<Self, Error> {
        check(headers).map(Recoder)
    }

    /// The same bytes.
    ///
    /// # Errors
    /// This form of the function never fails.
    pub fn push(&mut self, bytes: Bytes) -> Result<Bytes, Error> {
        Ok(bytes)
    }

    /// No bytes: none are held back.
    ///
    /// # Errors
    /// This form of the function never fails.
    pub fn finish(&mut self) -> Result<Bytes, Error> {
        Ok(Bytes::new())
    }
}
