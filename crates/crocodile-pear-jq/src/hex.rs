//! Hexadecimal digits.

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// The two digits of a byte, in lower case.
#[inline]
pub fn pair(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|digit| LOWER[usize::from(digit)])
}

/// The same in upper case.
#[inline]
pub fn upper_pair(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|digit| UPPER[usize::from(digit)])
}

/// The digits of bytes.
pub fn text(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| pair(*byte)).map(char::from).collect()
}

/// The byte of two digits, in lower or upper case.
#[inline]
pub fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    Some(digit(high)? << 4 | digit(low)?)
}

/// The bytes of twice as many digits, and of nothing else.
pub fn array<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    for (place, [high, low]) in bytes.iter_mut().zip(pairs) {
        *place = byte(*high, *low)?;
    }
    (pairs.len() == N).then_some(bytes)
}

/// The sixteen digits of a number, in lower case.
#[inline]
pub fn digits(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let (high, low) = digits.split_at_mut(8);
    high.copy_from_slice(&eight((number >> 32) as u32));
    low.copy_from_slice(&eight(number as u32));
    digits
}

/// Eight digits, all at once.
#[inline]
fn eight(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Each half byte into a byte of its own.
    let mut spread = u64::from(number);
    spread = (spread << 16 | spread) & 0x0000_ffff_0000_ffff;
    spread = (spread << 8 | spread) & 0x00ff_00ff_00ff_00ff;
    spread = (spread << 4 | spread) & 0x0f0f_0f0f_0f0f_0f0f;
    // Those from 10 on are letters.
    let letters = (spread + ONES * 6) >> 4 & ONES;
    (spread + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

/// The number that sixteen valid digits stand for, read all at once.
#[inline]
pub fn number(digits: &[u8; 16]) -> u64 {
    const ONES: u128 = 0x0101_0101_0101_0101_0101_0101_0101_0101;
    let text = u128::from_be_bytes(*digits);
    // Letters have a bit that digits have not.
    let mut spread = (text & (ONES * 0x0f)) + (text >> 6 & ONES) * 9;
    spread = (spread | spread >> 4) & 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff;
    spread = (spread | spread >> 8) & 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff;
    spread = (spread | spread >> 16) & 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff;
    (spread | spread >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::super::hex::{self, *};

    #[test]
    fn a_number_is_written_in_sixteen_digits() {
        for number in [0, 1, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX, 0x9a9a_0f0f_a9a9_f0f0] {
            assert_eq!(digits(number), *format!("{number:016x}").as_bytes());
            assert_eq!(hex::number(&digits(number)), number);
        }
    }

    #[test]
    fn bytes_are_read_as_they_are_written() {
        let bytes = [0x00, 0x0f, 0xa9, 0xff];
        assert_eq!(text(&bytes), "000fa9ff");
        assert_eq!(array(b"000FA9ff"), Some(bytes));
        assert_eq!(upper_pair(0xa9), *b"A9");
        for wrong in [&b"000fa9f"[..], b"000fa9", b"000fa9ff00", b"000fa9fg", b"+00fa9ff"] {
            assert_eq!(array::<4>(wrong), None, "{wrong:?}");
        }
    }
}
