//! Checks sixty-four bytes at a time whether a whole document is JSON (RFC 8259).
//!
//! Most of the grammar says which token may follow which. As masks, that is a matter of neighbouring bits, so all
//! tokens of a block are checked at once. Only brackets are handled one by one. A failed check gives no reason;
//! [`super::Checker`] finds it.

use super::simd::{Level, Simd, dispatch, u8x64};

use super::block::{Block, Carry, WIDTH, is, load, up_to, without_case};
use super::number::Numbers;
use super::text::DEPTH;

/// Facts about a document that the check collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How deep it nests.
    pub depth: u8,
    /// Whether it may have a number that is too long to parse.
    pub endless: bool,
}

/// Checks a document; `None` unless it is one JSON value that nests no deeper than `DEPTH`.
pub fn look(bytes: &[u8]) -> Option<Seen> {
    simdutf8::basic::from_utf8(bytes).ok()?;
    dispatch!(Level::new(), simd => blocks(simd, bytes))
}

#[inline(always)]
fn blocks<S: Simd>(simd: S, bytes: &[u8]) -> Option<Seen> {
    let (mut strings, mut tokens) = (Carry::default(), Tokens::default());
    let (mut numbers, mut nest) = (Numbers::default(), Nest::default());
    for at in (0..bytes.len()).step_by(WIDTH) {
        let block = load(simd, bytes, at);
        let text = Block::of(block, &mut strings);
        if text.escaped != 0 && !escapes(bytes, at, text.escaped) {
            return None;
        }
        if text.text & !text.quotes == !0 {
            // Inside a string, only control characters can be wrong here.
            if up_to(block, 0x1f) != 0 {
                return None;
            }
            continue;
        }
        let places = Places::of(block, text);
        let misplaced = tokens.follow(&places, text);
        let wrong = places.wrong | misplaced.anywhere | numbers.check(bytes, at, block, places.words);
        if wrong | nest.check(bytes, at, &places, &misplaced)? != 0 {
            return None;
        }
    }
    let whole = strings.is_outside() && tokens.is_whole() && numbers.is_whole() && nest.depth == 0;
    whole.then_some(Seen { depth: nest.deepest as u8, endless: numbers.endless })
}

/// Positions of the bytes of a block, by kind. All but `wrong` are outside strings.
struct Places {
    /// Control characters where they are not allowed.
    wrong: u64,
    spaces: u64,
    commas: u64,
    colons: u64,
    opens: u64,
    closes: u64,
    /// Bytes of numbers and words, and all other bytes.
    words: u64,
}

impl Places {
    #[inline(always)]
    fn of<S: Simd>(block: u8x64<S>, text: Block) -> Self {
        let outside = !(text.text | text.quotes);
        let blank = up_to(block, b' ');
        let controls = up_to(block, 0x1f);
        let mut wrong = controls & text.text;
        if controls & outside != 0 {
            wrong |= controls & !(is(block, b'\n') | is(block, b'\r') | is(block, b'\t'));
        }
        // No closures here: the compiler would build them for the baseline processor and not inline them.
        let (commas, colons) = (is(block, b',') & outside, is(block, b':') & outside);
        let plain = without_case(block);
        let (opens, closes) = (is(plain, b'{') & outside, is(plain, b'}') & outside);
        let spaces = blank & outside;
        let words = outside & !(spaces | commas | colons | opens | closes);
        Places { wrong, spaces, commas, colons, opens, closes, words }
    }
}

/// The meaning of the last token of a block for the next block: one flag each, in the lowest bit.
struct Tokens {
    open: u64,
    comma: u64,
    colon: u64,
    /// After a string in a position where a key may be.
    key: u64,
    /// Inside such a string.
    text: u64,
    /// Inside a number or word.
    word: u64,
}

/// A document begins like the position after a colon: with a value that is neither a key nor an item.
impl Default for Tokens {
    fn default() -> Self {
        Tokens { open: 0, comma: 0, colon: 1, key: 0, text: 0, word: 0 }
    }
}

/// Tokens that are not allowed in their position.
struct Misplaced {
    anywhere: u64,
    /// By the kind of the innermost open list or object.
    within: [u64; 3],
}

/// The innermost open list or object, as an index into `Misplaced::within`.
mod open {
    pub const LIST: usize = 0;
    pub const OBJECT: usize = 1;
    pub const NOTHING: usize = 2;
}

impl Tokens {
    #[inline(always)]
    fn follow(&mut self, places: &Places, strings: Block) -> Misplaced {
        let Places { spaces, commas, colons, .. } = *places;
        let begins = places.words & !(places.words << 1 | self.word);
        self.word = places.words >> 63;
        let texts = strings.quotes & strings.text;
        let values = texts | begins | places.opens;
        let after_open = next(places.opens, spaces, &mut self.open);
        let after_comma = next(commas, spaces, &mut self.comma);
        let after_colon = next(colons, spaces, &mut self.colon);
        let first = after_open | after_comma;
        // Adding the start bit of a string to its mask carries to the position of the closing quote.
        let (ends, over) = (texts & first | self.text).overflowing_add(strings.text);
        self.text = u64::from(over);
        let after_key = next(ends & strings.quotes & !strings.text, spaces, &mut self.key);
        let expected = first | after_colon;
        let unexpected = values & !expected | (commas | colons) & expected;
        let unfinished = places.closes & (after_comma | after_colon);
        Misplaced {
            anywhere: unexpected | unfinished | colons & !after_key,
            // In an object, the first token must be a key and the next a colon. In a list there is no colon.
            within: [colons, values & !texts & first | after_key & !colons, commas | colons],
        }
    }

    fn is_whole(&self) -> bool {
        self.open | self.comma | self.colon == 0
    }
}

/// The next positions that are not spaces. Adding the start bit of a run of spaces to its mask carries to the byte
/// after the run.
#[inline(always)]
fn next(of: u64, spaces: u64, carry: &mut u64) -> u64 {
    let at = of << 1 | *carry;
    let (past, over) = (at & spaces).overflowing_add(spaces);
    *carry = of >> 63 | u64::from(over);
    (at | past) & !spaces
}

/// The open lists and objects.
struct Nest {
    /// A bit for each list (0) or object (1), the innermost in the lowest bit.
    open: u128,
    depth: usize,
    deepest: usize,
    innermost: usize,
}

impl Default for Nest {
    fn default() -> Self {
        const { assert!(DEPTH <= u128::BITS as usize) };
        Nest { open: 0, depth: 0, deepest: 0, innermost: open::NOTHING }
    }
}

impl Nest {
    /// Goes from bracket to bracket. All bytes between two brackets are in the same list or object. A closing bracket
    /// belongs to the list or object that it closes, an opening one to the list or object around it.
    #[inline(always)]
    fn check(&mut self, bytes: &[u8], at: usize, places: &Places, misplaced: &Misplaced) -> Option<u64> {
        let (mut wrong, mut left) = (0, !0);
        let mut brackets = places.opens | places.closes;
        while brackets != 0 {
            let bit = brackets.trailing_zeros();
            let until = brackets ^ (brackets - 1);
            brackets &= brackets - 1;
            wrong |= misplaced.within[self.innermost] & until & left;
            left = !until;
            let object = usize::from(bytes[at + bit as usize] >> 5 & 1);
            wrong |= self.turn(places.opens >> bit & 1 == 1, object);
        }
        let wrong = wrong | misplaced.within[self.innermost] & left;
        (self.deepest <= DEPTH).then_some(wrong)
    }

    /// Enters or leaves a list or object, without a branch: branch prediction would often fail here.
    #[inline(always)]
    fn turn(&mut self, inwards: bool, object: usize) -> u64 {
        let wrong = u64::from(!inwards & (self.innermost != object));
        self.depth = if inwards { self.depth + 1 } else { self.depth.saturating_sub(1) };
        self.open = if inwards { self.open << 1 | object as u128 } else { self.open >> 1 };
        self.innermost = if self.depth == 0 { open::NOTHING } else { (self.open & 1) as usize };
        self.deepest = self.deepest.max(if inwards { self.depth } else { 0 });
        wrong
    }
}

/// Whether the escapes of a block are valid. Outside strings a backslash is part of an unknown word, which another
/// check rejects.
fn escapes(bytes: &[u8], start: usize, mut escaped: u64) -> bool {
    while escaped != 0 {
        let at = start + escaped.trailing_zeros() as usize;
        escaped &= escaped - 1;
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

const _: () = assert!(open::LIST == 0 && open::OBJECT == 1, "as the bits of `Nest::open`");

#[cfg(test)]
mod tests {
    use super::*;

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
