//! The character set of a text, as given by its content type.

mod named;

use std::borrow::Cow;

use bytes::Bytes;
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

pub use self::named::{data_url, named};
use crate::error::{Error, Kind};
use crate::http::http1::AnswerFields;
use crate::json;

/// The encoding of a text: UTF-8 unless its type names another one.
fn encoding(headers: &AnswerFields) -> Result<&'static Encoding, Error> {
    let Some(label) = named(headers) else { return Ok(UTF_8) };
    let known = Encoding::for_label_no_replacement(label.as_bytes());
    known.ok_or_else(|| Error::new(Kind::Malformed, "the character set of its content type is not known"))
}

/// Decodes a text. A byte order mark overrides the content type, and is removed.
///
/// # Errors
/// `Malformed` for an unknown character set, and for bytes that are invalid in it.
pub fn text<'a>(headers: &AnswerFields, bytes: &'a [u8]) -> Result<Cow<'a, str>, Error> {
    let (set, length) = match Encoding::for_bom(bytes) {
        Some(marked) => marked,
        None => (encoding(headers)?, 0),
    };
    let bytes = bytes.get(length..).unwrap_or_default();
    set.decode_without_bom_handling_and_without_replacement(bytes).ok_or_else(|| wrong(set))
}

/// JSON in UTF-8, converted from any character set.
///
/// # Errors
/// Same as [`text`].
pub fn recode(headers: &AnswerFields, bytes: Bytes) -> Result<Bytes, Error> {
    if named(headers).is_none() || encoding(headers)? == UTF_8 {
        return Ok(json::unmarked(bytes));
    }
    Ok(text(headers, &bytes)?.into_owned().into())
}

/// Text in any character set. Bytes that are not UTF-8, of a type that names no character set, become a `data:` URL
/// (RFC 2397).
///
/// # Errors
/// Same as [`text`], for a type that names its character set.
pub fn any(headers: &AnswerFields, bytes: &Bytes) -> Result<String, Error> {
    if named(headers).is_some_and(|label| Encoding::for_label_no_replacement(label.as_bytes()).is_some()) {
        return text(headers, bytes).map(Cow::into_owned);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    Ok(data_url(headers, bytes))
}

fn wrong(set: &'static Encoding) -> Error {
    let name = if set == UTF_8 { "UTF-8".to_owned() } else { set.name().to_ascii_lowercase() };
    Error::new(Kind::Malformed, format!("it has bytes that are not {name}"))
}

/// Like [`text`], for bytes that arrive in pieces.
pub struct Recoder(Option<Decoder>);

impl Recoder {
    /// A decoder for a body with this head.
    ///
    /// # Errors
    /// `Malformed` for an unknown character set.
    pub fn new(headers: &AnswerFields) -> Result<Self, Error> {
        let set = encoding(headers)?;
        // The parsers check UTF-8 themselves.
        Ok(Recoder((set != UTF_8).then(|| set.new_decoder())))
    }

    /// The next piece in UTF-8.
    ///
    /// # Errors
    /// `Malformed` for bytes that are invalid in the character set.
    pub fn push(&mut self, bytes: Bytes) -> Result<Bytes, Error> {
        if self.0.is_some() { self.decode(&bytes, false) } else { Ok(bytes) }
    }

    /// The rest that was still buffered.
    ///
    /// # Errors
    /// `Malformed` for an incomplete character at the end.
    pub fn finish(&mut self) -> Result<Bytes, Error> {
        self.decode(&[], true)
    }

    fn decode(&mut self, bytes: &[u8], last: bool) -> Result<Bytes, Error> {
        let Some(decoder) = &mut self.0 else { return Ok(Bytes::new()) };
        let most = decoder.max_utf8_buffer_length_without_replacement(bytes.len()).unwrap_or(bytes.len() * 3 + 8);
        let mut out = String::with_capacity(most);
        match decoder.decode_to_string_without_replacement(bytes, &mut out, last) {
            (DecoderResult::InputEmpty, _) => {}
            _ => return Err(wrong(decoder.encoding())),
        }
        if last {
            // A finished decoder cannot be used again.
            self.0 = None;
        }
        Ok(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::of;

    #[test]
    fn text_is_read_in_its_character_set() {
        for (media, bytes) in [
            ("text/plain; charset=ISO-8859-1", &b"\xe5"[..]),
            ("text/plain; charset=\"windows-1252\"", b"\xe5"),
            ("text/csv;header=present; Charset=utf-16le", b"\xe5\0"),
            ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa5"),
            ("text/plain", "å".as_bytes()),
        ] {
            assert_eq!(text(&of(media), bytes).expect("sound"), "å", "{media}");
        }
        assert_eq!(any(&of("text/plain; charset=nonsense"), &Bytes::from_static(b"a")).expect("sound"), "a");
    }

    #[test]
    fn wrong_bytes_are_an_error() {
        for (media, bytes) in [
            ("text/plain; charset=utf-8", &b"\xe5"[..]),
            ("text/plain", b"\xe5"),
            ("text/plain; charset=shift_jis", b"\x81"),
            ("text/plain; charset=utf-16", b"\0\xd8"),
            ("text/plain; charset=nonsense", b"a"),
        ] {
            assert_eq!(text(&of(media), bytes).expect_err("wrong").kind(), Kind::Malformed, "{media}");
        }
        assert!(any(&of("text/plain; charset=utf-8"), &Bytes::from_static(b"\xe5")).is_err());
    }

    #[test]
    fn bytes_that_are_no_text_become_a_data_url() {
        let bytes = Bytes::from_static(&[0xff, 0x00]);
        assert_eq!(any(&of("image/png"), &bytes).expect("sound"), "data:image/png;base64,/wA=");
    }

    #[test]
    fn pieces_of_characters_are_put_together() {
        let mut recoder = Recoder::new(&of("text/csv; charset=euc-jp")).expect("known");
        let pieces = [&b"a\xc6"[..], b"\xfc"].map(|piece| recoder.push(Bytes::from_static(piece)).expect("sound"));
        assert_eq!(pieces.concat(), "a日".as_bytes());
        assert!(recoder.finish().is_ok());
        let mut recoder = Recoder::new(&of("text/csv; charset=euc-jp")).expect("known");
        recoder.push(Bytes::from_static(b"\xc6")).expect("so far");
        assert!(recoder.finish().is_err());
    }
}
