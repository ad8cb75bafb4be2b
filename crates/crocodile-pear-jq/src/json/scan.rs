//! Finds where the parts of a checked document end.

use super::simd::{Level, Simd, dispatch};

use super::block::{Block, Carry, WIDTH, is, load, without_case};
use super::text::{is_space, quoted};

/// The position of the next byte, from `at` on, that is not whitespace.
#[inline]
pub fn space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| is_space(*byte)) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at` in a checked document.
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

/// The end, after its closing quote, of a checked string that begins at `at`.
#[inline]
pub fn text_end(bytes: &[u8], at: usize) -> usize {
    at + quoted(bytes.get(at..).unwrap_or_default())
}

fn nested_end(bytes: &[u8], start: usize) -> usize {
    dispatch!(Level::new(), simd => nested(simd, bytes, start))
}

/// Skips whole blocks while more lists and objects are open than the block closes.
#[inline(always)]
fn nested<S: Simd>(simd: S, bytes: &[u8], start: usize) -> usize {
    let mut carry = Carry::default();
    let mut open = 0;
    for at in (start..bytes.len()).step_by(WIDTH) {
        let block = load(simd, bytes, at);
        let outside = !Block::of(block, &mut carry).text;
        let opens = is(without_case(block), b'{') & outside;
        let closes = is(without_case(block), b'}') & outside;
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
}
