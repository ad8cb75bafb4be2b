//! Heads and the framing of bodies on their way out.

use std::fmt;

use bytes::{Buf, Bytes};
use http::header::HeaderValue;

/// Bytes that a socket has not accepted yet, in order.
#[derive(Default)]
pub struct Unsent {
    /// The first of them: a head, or the line before a chunk.
    pub lead: Bytes,
    /// A piece of the body.
    pub data: Bytes,
    /// The end of a chunk.
    pub tail: &'static [u8],
}

impl Unsent {
    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lead.is_empty() && self.data.is_empty() && self.tail.is_empty()
    }

    /// Drops what the socket has accepted.
    ///
    /// # Panics
    /// If `written` is more than there is.
    #[inline]
    pub fn advance(&mut self, mut written: usize) {
        for part in [&mut self.lead, &mut self.data] {
            let of_part = written.min(part.len());
            part.advance(of_part);
            written -= of_part;
        }
        self.tail = &self.tail[written..];
    }
}

impl fmt::Debug for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.lead.len() + self.data.len() + self.tail.len();
        f.debug_struct("Unsent").field("left", &left).finish()
    }
}

/// Writes a field.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &HeaderValue) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the length of a body.
#[inline]
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The line before the data of a chunk.
#[inline]
pub fn chunk_size(out: &mut Vec<u8>, size: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        out.push(DIGITS[size >> (4 * digit) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::write::*;

    #[test]
    fn a_chunk_has_its_size_in_hexadecimal() {
        for size in [0, 1, 9, 10, 15, 16, 255, 256, 4096, 65_535, 1 << 20, usize::MAX] {
            let mut out = Vec::new();
            chunk_size(&mut out, size);
            assert_eq!(out, format!("{size:x}\r\n").as_bytes());
        }
    }
}
