//! JSON: checked strictly, spliced as it came, parsed only for those who look inside.

mod block;
mod check;
pub mod items;
mod look;
mod number;
mod raw;
mod read;
pub(crate) mod scan;
pub(crate) mod walk;
mod write;

pub use check::{Checker, check};
pub use raw::Raw;
pub use read::read;
pub(crate) use write::{SIZE, write_within};
pub use write::{write, write_string};

use crate::error::Error;
use crate::jq::value::Value;
use bytes::Bytes;
use memchr::memchr2;

/// How deep lists and objects may nest: serde_json's bound, far above what APIs send.
pub const DEPTH: usize = 128;

/// A value as a document.
///
/// # Errors
/// As [`write()`].
pub fn to_bytes(value: &Value) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out)?;
    Ok(out.into())
}

/// The document without whitespace around it; shares the bytes.
pub fn trim(bytes: &Bytes) -> Bytes {
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_space(*byte)).map_or(start, |last| last + 1);
    bytes.slice(start..end)
}

/// Appends a checked document without insignificant whitespace: it is one line then.
pub fn compact(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(first) = bytes.first() {
        let length = match first {
            b'"' => quoted(bytes),
            b if is_space(*b) => {
                bytes = &bytes[1..];
                continue;
            }
            _ => bytes.iter().position(|b| *b == b'"' || is_space(*b)).unwrap_or(bytes.len()),
        };
        out.extend_from_slice(&bytes[..length]);
        bytes = &bytes[length..];
    }
}

/// The length of the string that begins here, with its quotes.
fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    bytes.len()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_shares_the_bytes() {
        let bytes = Bytes::from_static(b" \r\n{ } \t");
        let trimmed = trim(&bytes);
        assert_eq!(&trimmed[..], b"{ }");
        assert_eq!(trimmed.as_ptr(), bytes[3..].as_ptr());
        assert!(trim(&Bytes::from_static(b" \n ")).is_empty());
    }

    #[test]
    fn compact_documents_are_one_line() {
        let mut out = b"data: ".to_vec();
        compact(b"{ \"a b\" :\n[1 ,\t\"\\\" \\\\\" , true]\r\n}", &mut out);
        assert_eq!(out, b"data: {\"a b\":[1,\"\\\" \\\\\",true]}");
    }
}
