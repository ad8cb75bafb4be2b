//! The numbers and words of a document, a block at a time.

use super::simd::{Simd, u8x64};

use super::block::{WIDTH, is, up_to, without_case};
use super::text::is_space;

/// Longer numbers are rejected: the time to read an integer grows with the square of its length.
pub const DIGITS: usize = 1000;

/// The meaning of the last token of a block for the next block: one flag each, in the lowest bit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// Inside a number or word.
    word: u64,
    /// After a minus that begins a number.
    minus: u64,
    /// A digit must come.
    wanted: u64,
    /// After a zero that begins a number.
    zero: u64,
    /// Inside the digits that begin a number.
    integer: u64,
    /// After a decimal point.
    point: u64,
    /// Inside the digits after a decimal point.
    fraction: u64,
    /// After an `e`.
    exponent: u64,
    /// Where the last word ends.
    read: usize,
    /// How many blocks directly before this one are inside one number.
    blocks: usize,
    /// Whether a number may have more than `DIGITS` bytes.
    pub endless: bool,
}

impl Numbers {
    /// The wrong bytes among the numbers and words of a block. The caller checks their neighbours.
    #[inline(always)]
    pub fn check<S: Simd>(&mut self, bytes: &[u8], at: usize, block: u8x64<S>, words: u64) -> u64 {
        if words | self.word == 0 {
            return 0;
        }
        self.blocks = if words == !0 { self.blocks + 1 } else { 0 };
        // The first and the last part of a number may each fill a block but for one byte.
        self.endless |= self.blocks >= DIGITS / WIDTH - 2;
        let begins = words & !shift(words, &mut self.word);
        let digits = up_to(block - b'0', 9) & words;
        let zeros = is(block, b'0');
        let mut other = words & !digits;
        if other == 0 {
            return self.follow(begins, digits, zeros, Signs::default());
        }
        let minuses = is(block, b'-') & words;
        match self.words(bytes, at, begins & other & !minuses) {
            Some(left) => other &= left,
            None => return !0,
        }
        let (points, pluses) = (is(block, b'.') & other, is(block, b'+') & other);
        let exponents = is(without_case(block), b'e') & other;
        let unknown = other & !(points | pluses | minuses | exponents);
        unknown | self.follow(begins, digits, zeros, Signs { points, exponents, minuses, pluses })
    }

    /// Finds `true`, `false` and `null`; returns the positions outside them.
    #[inline(always)]
    fn words(&mut self, bytes: &[u8], at: usize, mut begins: u64) -> Option<u64> {
        let before = self.read.saturating_sub(at);
        let mut left = !0 << before;
        begins &= left;
        while begins != 0 {
            let bit = begins.trailing_zeros() as usize;
            begins &= begins - 1;
            let length = word(bytes.get(at + bit..)?)?;
            left &= !(((1 << length) - 1) << bit);
            self.read = at + bit + length;
        }
        Some(left)
    }

    /// Checks the order of the parts of a number; returns the wrong positions. Adding the start bit of a run of digits
    /// to its mask carries to the byte after the run.
    #[inline(always)]
    fn follow(&mut self, begins: u64, digits: u64, zeros: u64, signs: Signs) -> u64 {
        let Signs { points, exponents, minuses, pluses } = signs;
        let leading = minuses & begins;
        let integers = digits & (begins | shift(leading, &mut self.minus));
        let more = shift(integers & zeros, &mut self.zero) & digits;
        let after_integer = past(integers, digits, &mut self.integer);
        let fractions = digits & shift(points, &mut self.point);
        let after_fraction = past(fractions, digits, &mut self.fraction);
        let powers = shift(exponents, &mut self.exponent);
        let signs = minuses | pluses;
        let wanted = shift(points | leading | signs & powers, &mut self.wanted);
        let misplaced = points & !after_integer
            | exponents & !(after_integer | after_fraction)
            | signs & !(leading | powers)
            | powers & !(digits | signs);
        more | misplaced | wanted & !digits
    }

    /// Whether the last number is complete.
    pub fn is_whole(&self) -> bool {
        self.wanted | self.exponent == 0
    }
}

/// The parts of numbers that are not digits.
#[derive(Default)]
struct Signs {
    points: u64,
    exponents: u64,
    minuses: u64,
    pluses: u64,
}

#[inline(always)]
fn shift(of: u64, carry: &mut u64) -> u64 {
    let shifted = of << 1 | *carry;
    *carry = of >> 63;
    shifted
}

#[inline(always)]
fn past(begins: u64, runs: u64, carry: &mut u64) -> u64 {
    let (sum, over) = (begins | *carry).overflowing_add(runs);
    *carry = u64::from(over);
    sum & !runs
}

/// The length of the word that begins here; `None` if it is unknown or another token follows it directly.
#[inline(always)]
fn word(rest: &[u8]) -> Option<usize> {
    let length = match rest.first_chunk::<4>()? {
        b"true" | b"null" => 4,
        b"fals" if rest.get(4) == Some(&b'e') => 5,
        _ => return None,
    };
    let apart = |byte: &u8| is_space(*byte) || matches!(byte, b',' | b'}' | b']');
    rest.get(length).is_none_or(apart).then_some(length)
}
