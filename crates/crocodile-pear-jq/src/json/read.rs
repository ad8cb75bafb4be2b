//! Parses bytes to a value.

use bytes::Bytes;
use memchr::memchr;

use super::check::check;
use super::number::DIGITS;
use super::text::{is_space, quoted};
use super::value::{self, Value};
use crate::error::{Error, Kind};
use crate::meter::Made;

/// Bytes that an object, one of its fields, a list, and one of its items take, as measured with the allocator.
const OBJECT: usize = 160;
const FIELD: usize = 112;
const LIST: usize = 48;
const ITEM: usize = 16;

/// Checks a document and parses it. Keeps number literals as written, and keys in their order.
///
/// If a key occurs twice, the last value counts. Strings without escapes share the bytes of the document.
///
/// # Errors
/// `Kind::Malformed`, same as [`check`].
pub fn read(bytes: &Bytes) -> Result<Value, Error> {
    check(bytes)?;
    let mut reader = Reader { bytes, at: 0, made: Made::default() };
    reader.value()
}

/// Parses a checked document. The check bounded the depth, and so the recursion here.
struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
    made: Made,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, Error> {
        Ok(match self.peek() {
            b'{' => self.object()?,
            b'[' => self.list()?,
            b'"' => value::text(self.string()),
            b't' => self.word(4, true.into()),
            b'f' => self.word(5, false.into()),
            b'n' => self.word(4, value::null()),
            _ => self.number()?,
        })
    }

    fn object(&mut self) -> Result<Value, Error> {
        let mut fields = value::Fields::default();
        self.at += 1;
        while self.more(b'}') {
            self.peek();
            let key = self.string();
            // Skip the colon.
            self.peek();
            self.at += 1;
            let field = self.value()?;
            fields.insert(value::text(key), field);
        }
        self.made.add(OBJECT + fields.len() * FIELD);
        Ok(value::fields_of(fields))
    }

    fn list(&mut self) -> Result<Value, Error> {
        let mut items = Vec::new();
        self.at += 1;
        while self.more(b']') {
            items.push(self.value()?);
        }
        self.made.add(LIST + items.capacity() * ITEM);
        Ok(value::list(items))
    }

    /// Whether another item follows; skips the comma or the end.
    fn more(&mut self, end: u8) -> bool {
        let next = self.peek();
        if next == end || next == b',' {
            self.at += 1;
        }
        next != end
    }

    fn string(&mut self) -> Bytes {
        let length = quoted(&self.bytes[self.at..]);
        let inner = self.bytes.slice(self.at + 1..self.at + length - 1);
        self.at += length;
        if memchr(b'\\', &inner).is_some() { unescape(&inner).into() } else { inner }
    }

    fn number(&mut self) -> Result<Value, Error> {
        let rest = &self.bytes[self.at..];
        let inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
        let literal = std::str::from_utf8(&rest[..length]).unwrap_or_default();
        if length > DIGITS {
            let reason = format!("a number of more than {DIGITS} digits (byte {})", self.at);
            return Err(Error::new(Kind::Malformed, reason));
        }
        self.at += length;
        Ok(value::number(literal))
    }

    fn word(&mut self, length: usize, value: Value) -> Value {
        self.at += length;
        value
    }

    /// The next byte that is not whitespace; does not skip it.
    fn peek(&mut self) -> u8 {
        while let Some(byte) = self.bytes.get(self.at) {
            if !is_space(*byte) {
                return *byte;
            }
            self.at += 1;
        }
        0
    }
}

/// Resolves the escapes of a checked string. A lone surrogate becomes the three bytes that a character of its number would
/// have (WTF-8), which [`write()`](super::write()) makes an escape again.
pub fn unescape(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some(slash) = memchr(b'\\', text) {
        out.extend_from_slice(&text[..slash]);
        let escape = text.get(slash + 1).copied().unwrap_or(b'\\');
        text = text.get(slash + 2..).unwrap_or_default();
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                text = unit(text, &mut out);
            }
            other => out.push(other),
        }
    }
    out.extend_from_slice(text);
    out
}

/// Appends the character of one `\u` escape, or of a pair of them. Returns the rest of the text.
fn unit<'t>(text: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let (high, rest) = hex(text);
    let (code, rest) = match (high, rest.strip_prefix(b"\\u").map(hex)) {
        (0xd800..=0xdbff, Some((low @ 0xdc00..=0xdfff, rest))) => {
            (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), rest)
        }
        _ => (high, rest),
    };
    match char::from_u32(code) {
        Some(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend_from_slice(&[0xed, 0x80 | (code >> 6 & 0x3f) as u8, 0x80 | (code & 0x3f) as u8]),
    }
    rest
}

fn hex(text: &[u8]) -> (u32, &[u8]) {
    let (digits, rest) = text.split_at(text.len().min(4));
    let code = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    (code.unwrap_or(0xfffd), rest)
}

#[cfg(test)]
mod tests {
    use super::super::write;
    use super::*;

    fn round(text: &'static str) -> String {
        let mut out = Vec::new();
        write(&read(&Bytes::from_static(text.as_bytes())).expect("valid"), &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn literals_and_order_survive() {
        let text = r#"{"z":1.0,"a":[1e2,12345678901234567890,0.1000,-0,-0.0,1E+2],"m":{"":null}}"#;
        assert_eq!(round(text), text);
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(round(r#" [ "\u0041\n\u00e9\ud83d\udc0a\/" , "\ud800x" ] "#), "[\"A\\né🐊/\",\"\\ud800x\"]");
    }

    #[test]
    fn a_lone_surrogate_stays_what_it_was() {
        for text in [r#""\ud800""#, r#""\udfffx""#, r#""a\ud83d\ud83d""#, r#"{"\udc0a":"\udbff"}"#] {
            assert_eq!(round(text), text);
        }
    }

    #[test]
    fn endless_numbers_are_refused() {
        let text = Bytes::from("9".repeat(1_000_000));
        assert_eq!(read(&text).expect_err("too long").kind(), Kind::Malformed);
    }
}
