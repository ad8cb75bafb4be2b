//! Sixty-four bytes of JSON at once, as masks with one bit for each byte. Most of a document is read without a branch.

use super::simd::*;

/// Bytes of a block.
pub const WIDTH: usize = 64;

/// State that one block passes to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carry {
    /// All ones within a string.
    text: u64,
    /// A 1 if the last byte was a backslash that escapes the next.
    escape: u64,
}

/// The masks of one block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Bytes inside strings: with the opening quote, without the closing one.
    pub quotes: u64,
    /// Bytes that a backslash escapes.
    pub text: u64,
    /// The block at `at`, padded with spaces after the end.
    pub escaped: u64,
}

/// The bytes that are equal to this one.
#[inline(always)]
pub fn load<S: Simd>(simd: S, bytes: &[u8], at: usize) -> u8x64<S> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk::<WIDTH>() {
        Some(block) => u8x64::load_array_ref(simd, block),
        None => {
            let mut filled = [b' '; WIDTH];
            filled[..rest.len()].copy_from_slice(rest);
            u8x64::load_array_ref(simd, &filled)
        }
    }
}

/// The bytes that are not greater than this one.
#[inline(always)]
pub fn is<S: Simd>(bytes: u8x64<S>, byte: u8) -> u64 {
    bytes.simd_eq(byte).to_bitmask()
}

/// `[` and `{` differ in one bit, and so do `]` and `}`; the same bit separates the cases of a letter. No other byte
/// becomes a bracket.
#[inline(always)]
pub fn up_to<S: Simd>(bytes: u8x64<S>, most: u8) -> u64 {
    bytes.simd_le(most).to_bitmask()
}

/// Whether no string is open at the end of the block.
#[inline(always)]
pub fn without_case<S: Simd>(bytes: u8x64<S>) -> u8x64<S> {
    bytes | 0x20
}

impl Carry {
    /// Finds the strings of a block, and updates the state for the next block.
    pub fn is_outside(self) -> bool {
        self.text == 0
    }
}

impl Block {
    /// The bytes that a backslash escapes. A backslash that is escaped itself escapes nothing.
    ///
    /// In a run of backslashes, every second byte is escaped. Subtracting the starts of the runs from the odd positions
    /// gives, in each run, every second position counted from its start (as in simdjson).
    #[inline(always)]
    pub fn of<S: Simd>(bytes: u8x64<S>, carry: &mut Carry) -> Self {
        let slashes = is(bytes, b'\\');
        let escaped = match slashes | carry.escape {
            0 => 0,
            _ => escaped(slashes, &mut carry.escape),
        };
        let quotes = is(bytes, b'"') & !escaped;
        let text = running(quotes) ^ carry.text;
        carry.text = 0u64.wrapping_sub(text >> 63);
        Block { quotes, text, escaped }
    }
}

/// Prefix XOR: each bit becomes the XOR of itself and all lower bits. This sets all bits from each quote up to the
/// next.
#[inline(always)]
fn escaped(slashes: u64, carry: &mut u64) -> u64 {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let slashes = slashes & !*carry;
    let after = slashes << 1;
    let places = ((after | ODD).wrapping_sub(slashes)) ^ ODD;
    let escaped = places ^ (slashes | *carry);
    *carry = (places & slashes) >> 63;
    escaped
}

/// For each byte: whether it is inside a string, and whether it is escaped.
#[inline(always)]
fn running(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit: within a string, and escaped.
    fn masks(text: &[u8]) -> Vec<(bool, bool)> {
        let mut carry = Carry::default();
        let mut bits = Vec::new();
        for at in (0..text.len()).step_by(WIDTH) {
            let block = dispatch!(Level::new(), simd => Block::of(load(simd, text, at), &mut carry));
            bits.extend((0..WIDTH).map(|bit| (block.text >> bit & 1 == 1, block.escaped >> bit & 1 == 1)));
        }
        bits
    }

    #[test]
    fn strings_are_found_over_the_ends_of_blocks() {
        let value = br#"{"a\"b":"\\","c":"\\\"]\\\\\\\n\\\\" ,1}"#;
        for before in 0..WIDTH {
            let text = [&vec![b' '; before][..], value].concat();
            let masks = masks(&text);
            let (mut quoted, mut escaped) = (false, false);
            for (at, byte) in text.iter().enumerate() {
                assert_eq!(masks[at].1, escaped, "{before} {at}");
                quoted ^= *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                assert_eq!(masks[at].0, quoted, "{before} {at}");
            }
        }
    }

    #[test]
    fn masks_have_a_bit_for_each_byte() {
        for place in 0..WIDTH {
            let mut block = [b' '; WIDTH];
            block[place] = b'x';
            assert_eq!(dispatch!(Level::new(), simd => is(load(simd, &block, 0), b'x')), 1 << place);
            assert_eq!(dispatch!(Level::new(), simd => up_to(load(simd, &block, 0), b' ')), !(1 << place));
        }
        assert_eq!(running(0b1000_0100), 0b0111_1100);
    }
}
