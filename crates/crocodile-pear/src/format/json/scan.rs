//! Whole documents at once: whether they are JSON, and where the parts of a checked one end.
//!
//! It says no without a reason; [`super::Checker`] finds that.

use wide::u8x16;

use super::block::{Block, Carry, WIDTH, is, load, mask};
use super::read::DIGITS;
use super::{DEPTH, is_space};

/// Kinds of tokens.
mod token {
    pub const COMMA: u8 = 0;
    pub const COLON: u8 = 1;
    pub const TEXT: u8 = 2;
    /// A number or a word.
    pub const WORD: u8 = 3;
    pub const OBJECT: u8 = 4;
    pub const LIST: u8 = 5;
    pub const OBJECT_END: u8 = 6;
    pub const LIST_END: u8 = 7;
}

/// What must come next. Steps of eight: a kind of token and an `inside` fit beside it.
mod next {
    pub const VALUE: u8 = 0;
    /// A value or `]`.
    pub const ITEM: u8 = 8;
    /// A key or `}`.
    pub const FIELD: u8 = 16;
    pub const KEY: u8 = 24;
    pub const COLON: u8 = 32;
    /// A comma or the end of the list or object.
    pub const COMMA: u8 = 40;
    /// Nothing.
    pub const WHOLE: u8 = 48;
    /// No document begins so; it stays.
    pub const WRONG: u8 = 56;
}

/// In what the next token stands.
mod inside {
    pub const LIST: u8 = 0;
    pub const OBJECT: u8 = 64;
    pub const NOTHING: u8 = 128;
}

/// What must come after a token, by the sum of `inside`, `next` and `token`.
const GRAMMAR: [u8; 256] = {
    let mut table = [next::WRONG; 256];
    let all = [inside::LIST, inside::OBJECT, inside::NOTHING];
    let mut index = 0;
    while index < all.len() {
        let inside = all[index];
        let after = if inside == inside::NOTHING { next::WHOLE } else { next::COMMA };
        let places = [inside + next::VALUE, inside + next::ITEM];
        let mut at = 0;
        while at < places.len() {
            table[(places[at] + token::TEXT) as usize] = after;
            table[(places[at] + token::WORD) as usize] = after;
            table[(places[at] + token::OBJECT) as usize] = next::FIELD;
            table[(places[at] + token::LIST) as usize] = next::ITEM;
            at += 1;
        }
        index += 1;
    }
    table[(inside::LIST + next::COMMA + token::COMMA) as usize] = next::VALUE;
    table[(inside::LIST + next::COMMA + token::LIST_END) as usize] = next::COMMA;
    table[(inside::LIST + next::ITEM + token::LIST_END) as usize] = next::COMMA;
    table[(inside::OBJECT + next::COMMA + token::COMMA) as usize] = next::KEY;
    table[(inside::OBJECT + next::COMMA + token::OBJECT_END) as usize] = next::COMMA;
    table[(inside::OBJECT + next::FIELD + token::OBJECT_END) as usize] = next::COMMA;
    table[(inside::OBJECT + next::FIELD + token::TEXT) as usize] = next::COLON;
    table[(inside::OBJECT + next::KEY + token::TEXT) as usize] = next::COLON;
    table[(inside::OBJECT + next::COLON + token::COLON) as usize] = next::VALUE;
    table
};

const fn kind(byte: u8) -> u8 {
    match byte {
        b',' => token::COMMA,
        b':' => token::COLON,
        b'"' => token::TEXT,
        b'{' => token::OBJECT,
        b'[' => token::LIST,
        b'}' => token::OBJECT_END,
        b']' => token::LIST_END,
        _ => token::WORD,
    }
}

const KIND: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = kind(byte as u8);
        byte += 1;
    }
    kinds
};

/// What is seen of a document on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How deep it nests.
    pub depth: u8,
    /// Whether a number in it is too long to be parsed.
    pub endless: bool,
}

/// Looks through a document, if it is one JSON value (RFC 8259) no deeper than `DEPTH`.
pub fn look(bytes: &[u8]) -> Option<Seen> {
    std::str::from_utf8(bytes).ok()?;
    // One bit for each open list (0) or object (1), the innermost lowest.
    let (mut open, mut depth, mut deepest) = (0u128, 0usize, 0);
    let (mut place, mut inside) = (next::VALUE, inside::NOTHING);
    let mut carry = Carry::default();
    let (mut word_before, mut endless) = (0, false);
    for at in (0..bytes.len()).step_by(WIDTH) {
        let block = load(bytes, at);
        let strings = Block::of(&block, &mut carry);
        let controls = mask(&block, |bytes| bytes.simd_lt(u8x16::splat(0x20)));
        if controls & strings.text != 0 || (strings.escaped != 0 && !escapes(bytes, at, strings)) {
            return None;
        }
        let structure = mask(&block, |bytes| opening(bytes) | closing(bytes) | is(bytes, b':') | is(bytes, b','));
        let spaces = mask(&block, |bytes| is(bytes, b' ') | is(bytes, b'\n') | is(bytes, b'\r') | is(bytes, b'\t'));
        let digits = mask(&block, |bytes| (bytes - u8x16::splat(b'0')).simd_lt(u8x16::splat(10)));
        let words = !(structure | spaces | strings.text | strings.quotes);
        let begins = words & !(words << 1 | word_before);
        word_before = words >> 63;
        let mut tokens = structure & !strings.text | strings.quotes & strings.text | begins;
        while tokens != 0 {
            let bit = tokens.trailing_zeros();
            tokens &= tokens - 1;
            let byte = bytes[at + bit as usize];
            let kind = KIND[usize::from(byte)];
            place = GRAMMAR[usize::from(inside | place | kind)];
            if kind < token::WORD {
                continue;
            }
            if kind == token::WORD {
                let (length, plain) = ((!(words >> bit)).trailing_zeros(), (!(digits >> bit)).trailing_zeros());
                // Digits alone, unless more of them may follow in the next block.
                let whole = length == plain && bit + length < WIDTH as u32 && (byte != b'0' || length == 1);
                if !whole {
                    endless |= word(bytes, at + bit as usize)? > DIGITS;
                }
                continue;
            }
            if kind <= token::LIST {
                if depth == DEPTH {
                    return None;
                }
                depth += 1;
                deepest = deepest.max(depth);
                open = open << 1 | u128::from(kind == token::OBJECT);
            } else {
                depth = depth.checked_sub(1)?;
                open >>= 1;
                if depth == 0 && place == next::COMMA {
                    place = next::WHOLE;
                }
            }
            inside = match depth {
                0 => inside::NOTHING,
                _ => (open & 1) as u8 * inside::OBJECT,
            };
        }
        if place == next::WRONG {
            return None;
        }
    }
    let whole = place == next::WHOLE && carry.is_outside();
    whole.then_some(Seen { depth: deepest as u8, endless })
}

/// `[` and `{` differ in one bit, and so do `]` and `}`; no other byte becomes one of them.
#[inline(always)]
fn opening(bytes: u8x16) -> u8x16 {
    is(bytes | u8x16::splat(0x20), b'{')
}

#[inline(always)]
fn closing(bytes: u8x16) -> u8x16 {
    is(bytes | u8x16::splat(0x20), b'}')
}

/// The length of a number or word, if nothing stands directly behind it.
fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let end = match rest.first()? {
        b't' => rest.starts_with(b"true").then_some(at + 4),
        b'f' => rest.starts_with(b"false").then_some(at + 5),
        b'n' => rest.starts_with(b"null").then_some(at + 4),
        _ => number(bytes, at),
    }?;
    let apart = |byte: &u8| is_space(*byte) || matches!(byte, b',' | b'}' | b']');
    bytes.get(end).is_none_or(apart).then_some(end - at)
}

/// Whether what is escaped in a block may be.
fn escapes(bytes: &[u8], start: usize, strings: Block) -> bool {
    // Outside strings a backslash fails as a token.
    let mut left = strings.escaped;
    while left != 0 {
        let at = start + left.trailing_zeros() as usize;
        left &= left - 1;
        let good = match bytes.get(at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => true,
            Some(b'u') => bytes.get(at + 1..at + 5).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)),
            _ => false,
        };
        if !good {
            return false;
        }
    }
    true
}

fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(bytes.get(at) == Some(&b'-'));
    at = match *bytes.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => digits(bytes, at + 1),
        _ => return None,
    };
    if bytes.get(at) == Some(&b'.') {
        at = some_digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = some_digits(bytes, at)?;
    }
    Some(at)
}

fn digits(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

fn some_digits(bytes: &[u8], at: usize) -> Option<usize> {
    Some(digits(bytes, at)).filter(|end| *end > at)
}

/// The next byte from `at` that is not whitespace.
#[inline]
pub fn space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| is_space(*byte)) {
        at += 1;
    }
    at
}

/// Where the value ends that begins at `at` in a checked document.
#[inline]
pub fn end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => text_end(bytes, at),
        Some(b'{' | b'[') => nested_end(bytes, at),
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            let outside = |byte: &u8| is_space(*byte) || matches!(byte, b',' | b']' | b'}');
            at + rest.iter().position(outside).unwrap_or(rest.len())
        }
    }
}

/// Where a checked string ends that begins at `at`; behind its last quote.
#[inline]
pub fn text_end(bytes: &[u8], at: usize) -> usize {
    at + super::quoted(bytes.get(at..).unwrap_or_default())
}

/// Whole blocks are stepped over while more is open than they close.
fn nested_end(bytes: &[u8], start: usize) -> usize {
    let mut carry = Carry::default();
    let mut open = 0;
    for at in (start..bytes.len()).step_by(WIDTH) {
        let block = load(bytes, at);
        let outside = !Block::of(&block, &mut carry).text;
        let opens = mask(&block, opening) & outside;
        let closes = mask(&block, closing) & outside;
        if closes.count_ones() >= open {
            let mut left = closes;
            while left != 0 {
                let place = left.trailing_zeros();
                left &= left - 1;
                let before = (1 << place) - 1;
                if open + (opens & before).count_ones() == (closes & before).count_ones() + 1 {
                    return at + place as usize + 1;
                }
            }
        }
        open = open + opens.count_ones() - closes.count_ones();
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        let long = format!("[{}\"]\\\"\"]", "{\"a\":[[],\"}\"]},".repeat(50));
        for value in ["\"a\\\"]\"", "[1,[\"]\",{\"}\":\"{\"}]]", "{}", "true", "-1.5e3", "[ ]", &long] {
            for before in 0..70 {
                for after in ["", ",", " ,", "]", "\n}"] {
                    let text = format!("{}{value}{after}", " ".repeat(before));
                    assert_eq!(end(text.as_bytes(), before), before + value.len(), "{value}");
                }
            }
        }
    }

    #[test]
    fn depth_is_told() {
        let depth = |bytes| look(bytes).map(|seen| seen.depth);
        assert_eq!(depth(b" [1,{\"a\":[[]]},2] "), Some(4));
        assert_eq!(depth(b"\"[\""), Some(0));
        for wrong in ["[}", "{]", "1 2", "\"a", "1\"a\"", "\"a\"1", "truex", "[1\"\"]", "\\", "[1:2]", "", " "] {
            assert_eq!(depth(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
