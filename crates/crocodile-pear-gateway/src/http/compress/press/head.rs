//! The head of a block: its two codes, themselves in code (RFC 1951, 3.2.7).

use super::code::{Bits, codes, lengths};
use super::writer::{BitWriter, DISTANCES, LITERALS};

/// The order in which the lengths of the codes of lengths are written.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The most bits that one of those may have.
const MOST: usize = 7;

/// The last is repeated 3 to 6 times.
const AGAIN: u8 = 16;

/// 3 to 10 zeros.
const ZEROS: u8 = 17;

/// 11 to 138 zeros.
const MANY: u8 = 18;

/// Writes the lengths of both codes.
pub fn write(literals: &[u8; LITERALS], distances: &[u8; DISTANCES], out: &mut BitWriter<'_>) {
    let near = used(literals).max(257);
    let far = used(distances).max(1);
    let symbols = shorten(&[&literals[..near], &distances[..far]].concat());
    let (mut counts, mut own) = ([0; 19], [0; 19]);
    symbols.iter().for_each(|(symbol, _)| counts[usize::from(*symbol)] += 1);
    lengths(&counts, MOST, &mut own);
    let written = used(&ORDER.map(|symbol| own[symbol])).max(4);
    for (count, bits) in [(near - 257, 5), (far - 1, 5), (written - 4, 4)] {
        out.put(Bits { bits: count as u32, count: bits });
    }
    out.spill();
    for symbol in &ORDER[..written] {
        out.put(Bits { bits: own[*symbol].into(), count: 3 });
        out.spill();
    }
    let codes = codes(&own);
    for (symbol, more) in symbols {
        out.put(codes[usize::from(symbol)]);
        out.put(Bits { bits: more.into(), count: extra(symbol) });
        out.spill();
    }
}

/// How many there are up to the last that is used.
fn used(lengths: &[u8]) -> usize {
    lengths.iter().rposition(|length| *length > 0).map_or(0, |last| last + 1)
}

/// Lengths with what repeats said shortly: symbols, and what belongs to each.
fn shorten(lengths: &[u8]) -> Vec<(u8, u8)> {
    let mut symbols = Vec::with_capacity(lengths.len());
    for same in lengths.chunk_by(|one, other| one == other) {
        let (value, mut left) = (same[0], same.len());
        if value > 0 {
            symbols.push((value, 0));
            left -= 1;
        }
        while left >= 3 {
            let (symbol, least, most) = match value {
                0 if left >= 11 => (MANY, 11, 138),
                0 => (ZEROS, 3, 10),
                _ => (AGAIN, 3, 6),
            };
            let taken = left.min(most);
            symbols.push((symbol, (taken - least) as u8));
            left -= taken;
        }
        symbols.extend(std::iter::repeat_n((value, 0), left));
    }
    symbols
}

/// How many bits follow such a symbol.
fn extra(symbol: u8) -> u32 {
    match symbol {
        AGAIN => 2,
        ZEROS => 3,
        MANY => 7,
        _ => 0,
    }
}
