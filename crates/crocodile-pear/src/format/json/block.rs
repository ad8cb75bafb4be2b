//! Sixty-four bytes of JSON at once, as masks with a bit for each byte: most of a document is looked at without a branch.

use wide::u8x16;

/// Bytes of a block.
pub const WIDTH: usize = 64;

/// What earlier blocks mean for the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carry {
    /// All ones within a string.
    text: u64,
    /// One if the last byte was a backslash that escapes the next.
    escape: u64,
}

/// The masks of one block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Quotes that are not escaped.
    pub quotes: u64,
    /// Bytes of strings, the first quote with them, the last one not.
    pub text: u64,
    /// Bytes behind a backslash that escapes them.
    pub escaped: u64,
}

/// Bytes in vector registers.
pub type Bytes64 = [u8x16; 4];

/// The block at `at`, filled up with spaces behind the end.
#[inline(always)]
pub fn load(bytes: &[u8], at: usize) -> Bytes64 {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut filled = [b' '; WIDTH];
    let block = match rest.first_chunk::<WIDTH>() {
        Some(block) => block,
        None => {
            filled[..rest.len()].copy_from_slice(rest);
            &filled
        }
    };
    let quarters = block.as_chunks::<16>().0;
    std::array::from_fn(|index| quarters.get(index).map_or(u8x16::ZERO, |quarter| u8x16::new(*quarter)))
}

/// A bit for each byte that the test fills with ones.
#[inline(always)]
pub fn mask(block: &Bytes64, test: impl Fn(u8x16) -> u8x16) -> u64 {
    let bits = |index: usize| u64::from(test(block[index]).to_bitmask()) << (16 * index);
    bits(0) | bits(1) | bits(2) | bits(3)
}

/// Ones where the bytes are this one.
#[inline(always)]
pub fn is(bytes: u8x16, byte: u8) -> u8x16 {
    bytes.simd_eq(u8x16::splat(byte))
}

impl Carry {
    /// Whether no string is open.
    pub fn is_outside(self) -> bool {
        self.text == 0
    }
}

impl Block {
    /// Finds the strings of a block, and what they mean for the next.
    #[inline(always)]
    pub fn of(block: &Bytes64, carry: &mut Carry) -> Self {
        let slashes = mask(block, |bytes| is(bytes, b'\\'));
        let escaped = match slashes | carry.escape {
            0 => 0,
            _ => escaped(slashes, carry),
        };
        let quotes = mask(block, |bytes| is(bytes, b'"')) & !escaped;
        let text = running(quotes) ^ carry.text;
        carry.text = 0u64.wrapping_sub(text >> 63);
        Block { quotes, text, escaped }
    }
}

/// The bytes that a backslash escapes; one that is escaped itself escapes nothing.
fn escaped(slashes: u64, carry: &mut Carry) -> u64 {
    let mut escaped = carry.escape;
    let mut left = slashes & !escaped;
    carry.escape = 0;
    while left != 0 {
        let at = left.trailing_zeros();
        if at == 63 {
            carry.escape = 1;
            break;
        }
        escaped |= 2 << at;
        left &= !(3 << at);
    }
    escaped
}

/// Each bit is the sum of those up to it, without carry: ones from each quote to the next.
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

    #[test]
    fn strings_are_found_over_the_ends_of_blocks() {
        let value = br#"{"a\"b":"\\","c":"\\\"]" ,1}"#;
        for before in 0..WIDTH {
            let text = [&vec![b' '; before][..], value].concat();
            let mut carry = Carry::default();
            let blocks = (0..text.len()).step_by(WIDTH).map(|at| Block::of(&load(&text, at), &mut carry));
            let bits: Vec<bool> =
                blocks.flat_map(|block| (0..WIDTH).map(move |bit| block.text >> bit & 1 == 1)).collect();
            let (mut quoted, mut escaped) = (false, false);
            for (at, byte) in text.iter().enumerate() {
                quoted ^= *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                assert_eq!(bits[at], quoted, "{before} {at}");
            }
        }
    }

    #[test]
    fn masks_have_a_bit_for_each_byte() {
        for place in 0..WIDTH {
            let mut block = [b' '; WIDTH];
            block[place] = b'x';
            assert_eq!(mask(&load(&block, 0), |bytes| is(bytes, b'x')), 1 << place);
        }
        assert_eq!(running(0b1000_0100), 0b0111_1100);
    }
}
