//! JSON text: its depth limit, its whitespace, and the end of its strings.

use bytes::Bytes;
use memchr::memchr2;

/// How deep lists and objects may nest. It is the limit of serde_json, far above what APIs send.
pub const DEPTH: usize = 128;

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Removes the byte order mark that some programs put before UTF-8 (RFC 8259, 8.1).
#[inline]
pub fn unmarked(bytes: Bytes) -> Bytes {
    if bytes.starts_with(MARK) { bytes.slice(MARK.len()..) } else { bytes }
}

/// The document without surrounding whitespace; shares the bytes.
#[inline]
pub fn trim(bytes: &Bytes) -> Bytes {
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_space(*byte)).map_or(start, |last| last + 1);
    bytes.slice(start..end)
}

/// Appends a checked document without insignificant whitespace, so that it is one line.
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
#[inline]
pub(super) fn quoted(bytes: &[u8]) -> usize {
    // Keys are short: checking a few words takes less time than starting the search for long texts.
    let (words, _) = bytes.get(1..).unwrap_or_default().as_chunks::<8>();
    for (index, word) in words.iter().enumerate().take(SHORT) {
        let word = u64::from_le_bytes(*word);
        let marks = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if marks != 0 {
            let at = 1 + index * 8 + marks.trailing_zeros() as usize / 8;
            return if bytes[at] == b'"' { at + 1 } else { quoted_long(bytes) };
        }
    }
    quoted_long(bytes)
}

/// How many words of a string are checked one by one before the search for long texts.
const SHORT: usize = 3;

const ONES: u64 = 0x0101_0101_0101_0101;

/// The high bit of each byte that is zero. Bits above the first one may be set by mistake.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

fn quoted_long(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    bytes.len()
}

/// Whether it is whitespace.
#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
