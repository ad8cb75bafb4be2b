//! Checks piece by piece and without recursion whether bytes are one JSON value (RFC 8259).

use super::look::look;
use super::text::DEPTH;
use crate::error::{Error, Kind};

/// Checks one JSON value that arrives in pieces; whitespace may surround it.
///
/// The checker rejects a leading byte order mark (RFC 8259, 8.1). It accepts escapes of lone surrogates, because the grammar
/// allows them.
#[derive(Clone, Debug)]
pub struct Checker {
    state: CheckState,
    /// A bit for each open list (0) or object (1), the innermost in the lowest bit. As wide as `DEPTH`.
    open: u128,
    depth: usize,
    /// Whether the string being read is a key.
    key: bool,
    /// Length of all earlier pieces.
    before: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckState {
    /// A value must come.
    Value,
    /// A value or `]`.
    Item,
    /// A key or `}`.
    Field,
    Key,
    Colon,
    /// A comma or the end of the list or object.
    Next,
    /// The value is complete.
    Whole,
    Text,
    Escape,
    /// This many hexadecimal digits must follow.
    Hex(u8),
    /// This many bytes of a character must follow, the next one within these bounds.
    Character(u8, u8, u8),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

/// Checks a whole document.
///
/// # Errors
/// `Kind::Malformed` with the reason and the position of the byte.
pub fn check(bytes: &[u8]) -> Result<(), Error> {
    if look(bytes).is_some() {
        return Ok(());
    }
    // The fast check gives no reason; this slower one does.
    let mut checker = Checker::new();
    checker.push(bytes)?;
    checker.finish()
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// A checker before the first byte.
    #[inline]
    pub fn new() -> Self {
        const { assert!(DEPTH <= u128::BITS as usize) };
        Checker { state: CheckState::Value, open: 0, depth: 0, key: false, before: 0 }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// `Kind::Malformed` as soon as no continuation could be JSON.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        while at < piece.len() {
            at = match self.state {
                CheckState::Text => self.text(piece, at)?,
                CheckState::Integer | CheckState::Fraction | CheckState::Power => self.digits(piece, at)?,
                _ => self.byte(piece[at], at)?,
            };
        }
        self.before += piece.len();
        Ok(())
    }

    /// Skips a whole value of this length that was checked by other means. Returns whether a value is allowed here.
    #[inline]
    pub fn pass(&mut self, length: usize) -> bool {
        let fits = matches!(self.state, CheckState::Value | CheckState::Item);
        if fits {
            self.before += length;
            self.state = self.after();
        }
        fits
    }

    /// Ends the document: nothing more comes.
    ///
    /// # Errors
    /// `Kind::Malformed` if the value is not complete.
    pub fn finish(self) -> Result<(), Error> {
        let number =
            matches!(self.state, CheckState::Zero | CheckState::Integer | CheckState::Fraction | CheckState::Power);
        match self.state {
            CheckState::Whole => Ok(()),
            _ if number && self.depth == 0 => Ok(()),
            CheckState::Value if self.depth == 0 => Err(refuse("it is empty", self.before)),
            _ => Err(refuse("it is incomplete", self.before)),
        }
    }

    /// Continues inside a string. Most bytes are in strings, so it skips eight at a time.
    fn text(&mut self, piece: &[u8], from: usize) -> Result<usize, Error> {
        let at = from + plain(&piece[from..]);
        let Some(&byte) = piece.get(at) else { return Ok(at) };
        self.state = match byte {
            b'"' if self.key => CheckState::Colon,
            b'"' => self.after(),
            b'\\' => CheckState::Escape,
            // RFC 3629, 4.
            0xc2..=0xdf => CheckState::Character(1, 0x80, 0xbf),
            0xe0 => CheckState::Character(2, 0xa0, 0xbf),
            0xed => CheckState::Character(2, 0x80, 0x9f),
            0xe1..=0xef => CheckState::Character(2, 0x80, 0xbf),
            0xf0 => CheckState::Character(3, 0x90, 0xbf),
            0xf1..=0xf3 => CheckState::Character(3, 0x80, 0xbf),
            0xf4 => CheckState::Character(3, 0x80, 0x8f),
            0x80.. => return Err(self.refuse("text is not UTF-8", at)),
            _ => return Err(self.refuse("a control character in a string", at)),
        };
        Ok(at + 1)
    }

    fn digits(&mut self, piece: &[u8], from: usize) -> Result<usize, Error> {
        let count = piece[from..].iter().position(|byte| !byte.is_ascii_digit());
        let Some(count) = count else { return Ok(piece.len()) };
        self.byte_after_digits(piece[from + count], from + count)
    }

    fn byte_after_digits(&mut self, byte: u8, at: usize) -> Result<usize, Error> {
        self.state = match (self.state, byte) {
            (CheckState::Zero | CheckState::Integer, b'.') => CheckState::Point,
            (CheckState::Zero | CheckState::Integer | CheckState::Fraction, b'e' | b'E') => CheckState::Exponent,
            (CheckState::Zero, b'0'..=b'9') => return Err(self.refuse("a number with a leading zero", at)),
            _ => {
                self.state = self.after();
                return self.byte(byte, at);
            }
        };
        Ok(at + 1)
    }

    /// Handles one byte outside runs of text and digits.
    fn byte(&mut self, byte: u8, at: usize) -> Result<usize, Error> {
        self.state = match (self.state, byte) {
            (
                CheckState::Value | CheckState::Item | CheckState::Field | CheckState::Key,
                b' ' | b'\t' | b'\n' | b'\r',
            )
            | (CheckState::Colon | CheckState::Next | CheckState::Whole, b' ' | b'\t' | b'\n' | b'\r') => self.state,
            (CheckState::Next, b',') if self.open & 1 == 1 => CheckState::Key,
            (CheckState::Next, b',') => CheckState::Value,
            (CheckState::Colon, b':') => CheckState::Value,
            (CheckState::Key | CheckState::Field, b'"') => {
                self.key = true;
                CheckState::Text
            }
            (CheckState::Item | CheckState::Next, b']') if self.open & 1 == 0 => self.close(),
            (CheckState::Field | CheckState::Next, b'}') if self.open & 1 == 1 => self.close(),
            (CheckState::Value | CheckState::Item, _) => self.value(byte, at)?,
            (CheckState::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => CheckState::Text,
            (CheckState::Escape, b'u') => CheckState::Hex(4),
            (CheckState::Hex(left), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if left > 1 => CheckState::Hex(left - 1),
            (CheckState::Hex(_), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => CheckState::Text,
            (CheckState::Character(left, low, high), _) if (low..=high).contains(&byte) => {
                if left > 1 {
                    CheckState::Character(left - 1, 0x80, 0xbf)
                } else {
                    CheckState::Text
                }
            }
            (CheckState::Word([wanted, rest @ ..]), _) if byte == *wanted => {
                if rest.is_empty() {
                    self.after()
                } else {
                    CheckState::Word(rest)
                }
            }
            (CheckState::Minus, b'0') => CheckState::Zero,
            (CheckState::Minus, b'1'..=b'9') => CheckState::Integer,
            (CheckState::Zero | CheckState::Integer | CheckState::Fraction | CheckState::Power, _) => {
                return self.byte_after_digits(byte, at);
            }
            (CheckState::Point, b'0'..=b'9') => CheckState::Fraction,
            (CheckState::Exponent, b'+' | b'-') => CheckState::Sign,
            (CheckState::Exponent | CheckState::Sign, b'0'..=b'9') => CheckState::Power,
            (state, _) => return Err(self.refuse(state.wants(), at)),
        };
        Ok(at + 1)
    }

    fn value(&mut self, byte: u8, at: usize) -> Result<CheckState, Error> {
        Ok(match byte {
            b'"' => {
                self.key = false;
                CheckState::Text
            }
            b'{' => self.nest(1, at)?,
            b'[' => self.nest(0, at)?,
            b'-' => CheckState::Minus,
            b'0' => CheckState::Zero,
            b'1'..=b'9' => CheckState::Integer,
            b't' => CheckState::Word(b"rue"),
            b'f' => CheckState::Word(b"alse"),
            b'n' => CheckState::Word(b"ull"),
            0xef if self.before + at == 0 => return Err(self.refuse("it begins with a byte order mark", at)),
            b'<' if self.depth == 0 => return Err(self.refuse("it begins with `<`, like HTML or XML", at)),
            _ => return Err(self.refuse("unexpected character", at)),
        })
    }

    fn nest(&mut self, object: u128, at: usize) -> Result<CheckState, Error> {
        if self.depth == DEPTH {
            return Err(self.refuse("it nests deeper than 128 levels", at));
        }
        self.depth += 1;
        self.open = self.open << 1 | object;
        Ok(if object == 1 { CheckState::Field } else { CheckState::Item })
    }

    fn close(&mut self) -> CheckState {
        self.depth -= 1;
        self.open >>= 1;
        self.after()
    }

    /// The state after a value.
    fn after(&self) -> CheckState {
        if self.depth == 0 { CheckState::Whole } else { CheckState::Next }
    }

    fn refuse(&self, reason: &str, at: usize) -> Error {
        refuse(reason, self.before + at)
    }
}

impl CheckState {
    /// The expectation where another byte came.
    fn wants(self) -> &'static str {
        match self {
            CheckState::Field | CheckState::Key => "a key in quotes is missing",
            CheckState::Colon => "a colon is missing",
            CheckState::Next => "a comma or the closing bracket is missing",
            CheckState::Whole => "there is data after the value",
            CheckState::Escape | CheckState::Hex(_) => "an escape that JSON does not have",
            CheckState::Character(..) => "text is not UTF-8",
            CheckState::Word(_) => "a word that is not true, false or null",
            _ => "a number without its digits",
        }
    }
}

/// The error if the fast check rejects a document that the slow check accepts. Such a document is rejected.
pub fn unclear() -> Error {
    Error::new(Kind::Malformed, "not valid JSON")
}

fn refuse(reason: &str, at: usize) -> Error {
    Error::new(Kind::Malformed, format!("not valid JSON: {reason} (byte {at})"))
}

/// How many leading bytes can be in a string as they are: ASCII without quotes, backslashes and control characters.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut chunks = bytes.chunks_exact(8);
    let mut skipped = 0;
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        // The lowest marked byte is exact; a borrow can only mark bytes above it by mistake.
        let special =
            (word.wrapping_sub(ONES * 0x20) | quote.wrapping_sub(ONES) | slash.wrapping_sub(ONES) | word) & HIGH;
        if special != 0 {
            return skipped + special.trailing_zeros() as usize / 8;
        }
        skipped += 8;
    }
    let rest = chunks.remainder();
    let end = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x80..));
    skipped + end.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_byte() {
        let detail = |text: &str| check(text.as_bytes()).expect_err("refused").detail().to_owned();
        assert_eq!(detail("[1,]"), "not valid JSON: unexpected character (byte 3)");
        assert_eq!(detail(" <html>"), "not valid JSON: it begins with `<`, like HTML or XML (byte 1)");
        assert_eq!(detail("{\"a\":01}"), "not valid JSON: a number with a leading zero (byte 6)");
        assert_eq!(detail("\u{feff}1"), "not valid JSON: it begins with a byte order mark (byte 0)");
        assert_eq!(detail("[\"a\""), "not valid JSON: it is incomplete (byte 4)");
    }

    #[test]
    fn depth_is_counted_not_recursed() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(nested(DEPTH).as_bytes()).is_ok());
        assert!(check(nested(DEPTH + 1).as_bytes()).is_err());
        assert!(check("{\"a\":".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn every_special_byte_is_seen_at_every_place() {
        for special in [b'"', b'\\', 0, 0x1f, 0x80, 0xff] {
            for place in 0..24 {
                let mut bytes = vec![b'!'; 24];
                bytes[place] = special;
                assert_eq!(plain(&bytes), place);
            }
        }
        assert_eq!(plain(&[0x7f; 17]), 17);
    }
}
