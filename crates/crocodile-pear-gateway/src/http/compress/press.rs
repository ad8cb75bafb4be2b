//! Deflate in a hurry: blocks that know nothing of each other, so that any of them can follow any other in a stream.
//!
//! Each place of 64 KiB is looked at once, and then codes are made for them. Most time is lost where the processor predicts a
//! branch wrongly, so short and long repetitions take the same steps.

mod code;
mod find;
mod head;
mod writer;

use std::cell::RefCell;

use code::{Bits, codes, lengths};
pub use find::BLOCK;
use find::{Finder, Sequence};
use writer::{BitWriter, DISTANCES, LITERALS};

/// The symbol that ends a block.
const END: usize = 256;

/// The most bits of a literal's code. The standard allows one more; like this, four literals always find room in a word.
const LONG: usize = 14;

/// The most bits of a distance's code.
const FAR: usize = 15;

/// Beyond the longest block that is not dense: its end, and a word.
const SPARE: usize = 64;

/// The result of compressing some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Pressed {
    /// They were appended, and more may follow.
    Done,
    /// They do not get shorter.
    Dense,
}

/// 0.3 MiB for each thread, none for an answer.
struct Press {
    finder: Finder,
    room: Vec<u8>,
}

thread_local! {
    static PRESS: RefCell<Press> = RefCell::new(Press { finder: Finder::new(), room: vec![0; BLOCK + SPARE] });
}

/// Appends at most `BLOCK` bytes as one block, and an empty one that ends at a whole byte.
pub fn press(bytes: &[u8], out: &mut Vec<u8>) -> Pressed {
    PRESS.with_borrow_mut(|Press { finder, room }| {
        finder.find(bytes);
        let counts = SymbolCounts::of(finder);
        let (mut near, mut far) = ([0; LITERALS], [0; DISTANCES]);
        lengths(&counts.literals, LONG, &mut near);
        lengths(&counts.distances, FAR, &mut far);
        let mut writer = BitWriter { room, at: 0, held: 0, count: 0 };
        // Not the last block, and with codes of its own.
        writer.put(Bits { bits: 0b100, count: 3 });
        head::write(&near, &far, &mut writer);
        if writer.at + counts.size(&near, &far) >= bytes.len() {
            return Pressed::Dense;
        }
        body(finder, &codes(&near), &codes(&far), &mut writer);
        let size = writer.mark();
        out.extend_from_slice(&room[..size]);
        Pressed::Done
    })
}

/// How often each symbol occurs, and the bits that go with them.
struct SymbolCounts {
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
    extra: u32,
}

impl SymbolCounts {
    fn of(finder: &Finder) -> Self {
        let mut counts = SymbolCounts { literals: [0; LITERALS], distances: [0; DISTANCES], extra: 0 };
        counts.literals[..END].copy_from_slice(&histogram(finder.literals()));
        let mut lengths = [0; LENGTHS.len()];
        for sequence in &finder.sequences {
            lengths[usize::from(sequence.length)] += 1;
            counts.distances[distance(sequence.distance).0] += 1;
        }
        for (count, length) in lengths.iter().zip(&LENGTHS) {
            counts.literals[length.symbol] += count;
            counts.extra += count * length.extra.count;
        }
        for (symbol, count) in (0..).zip(&counts.distances) {
            counts.extra += count * behind(symbol);
        }
        counts.literals[END] = 1;
        counts
    }

    /// How many bytes the body of the block takes.
    fn size(&self, near: &[u8; LITERALS], far: &[u8; DISTANCES]) -> usize {
        let bits = |counts: &[u32], lengths: &[u8]| -> u32 {
            counts.iter().zip(lengths).map(|(count, length)| count * u32::from(*length)).sum()
        };
        (bits(&self.literals, near) + bits(&self.distances, far) + self.extra).div_ceil(8) as usize
    }
}

/// How often each byte occurs.
fn histogram(bytes: &[u8]) -> [u32; 256] {
    // Four, so that a count does not wait for the same one before it.
    let mut counts = [[0u32; 256]; 4];
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        for (byte, counts) in four.iter().zip(&mut counts) {
            counts[usize::from(*byte)] += 1;
        }
    }
    rest.iter().for_each(|byte| counts[0][usize::from(*byte)] += 1);
    std::array::from_fn(|byte| counts.iter().map(|counts| counts[byte]).sum())
}

/// Writes all sequences, what stands behind them, and the block's end.
fn body(finder: &Finder, near: &[Bits; LITERALS], far: &[Bits; DISTANCES], out: &mut BitWriter<'_>) {
    let lengths = LENGTHS.map(|length| near[length.symbol].and(length.extra));
    let literals = finder.padded();
    let mut at = 0;
    for Sequence { literals: many, length, distance: back } in &finder.sequences {
        let end = at + *many as usize;
        write(literals, at, end, near, out);
        at = end;
        let (symbol, extra) = distance(*back);
        out.put(lengths[usize::from(*length)]);
        out.put(far[symbol].and(extra));
        out.spill();
    }
    write(literals, at, finder.literals().len(), near, out);
    out.put(near[END]);
    out.spill();
}

/// Writes the literals before `end`, four at a time. Of the last four, those that are not meant are written as no bits:
/// the steps are always the same, and no branch can be predicted wrongly. Inlined, since a call costs a tenth of the time.
#[inline(always)]
fn write(literals: &[u8], mut at: usize, end: usize, near: &[Bits; LITERALS], out: &mut BitWriter<'_>) {
    loop {
        let four: [u8; 4] = literals[at..at + 4].try_into().expect("so many bytes");
        for (place, literal) in four.into_iter().enumerate() {
            out.put(near[usize::from(literal)].only(at + place < end));
        }
        out.spill();
        at += 4;
        if at >= end {
            return;
        }
    }
}

impl Bits {
    /// These, and others behind them.
    #[inline]
    fn and(self, other: Bits) -> Bits {
        Bits { bits: self.bits | other.bits << self.count, count: self.count + other.count }
    }

    /// These or none.
    #[inline]
    fn only(self, these: bool) -> Bits {
        let mask = u32::from(these).wrapping_neg();
        Bits { bits: self.bits & mask, count: self.count & mask }
    }
}

/// The code of a length.
#[derive(Clone, Copy)]
struct Length {
    symbol: usize,
    extra: Bits,
}

/// By length (RFC 1951, 3.2.5).
static LENGTHS: [Length; 259] = {
    let mut lengths = [Length { symbol: END, extra: Bits { bits: 0, count: 0 } }; 259];
    let mut length = 3usize;
    while length < 258 {
        let above = length - 3;
        // Four symbols for each power of two.
        let count = if above < 8 { 0 } else { above.ilog2() - 2 };
        let symbol = END + 1 + 4 * count as usize + (above >> count);
        lengths[length] = Length { symbol, extra: Bits { bits: above as u32 & ((1 << count) - 1), count } };
        length += 1;
    }
    lengths[258].symbol = LITERALS - 1;
    lengths
};

/// How many bits follow the symbol of a distance.
fn behind(symbol: u32) -> u32 {
    (symbol / 2).saturating_sub(1)
}

/// The code of a distance: two symbols for each power of two (RFC 1951, 3.2.5).
#[inline]
fn distance(distance: u16) -> (usize, Bits) {
    let above = u32::from(distance) - 1;
    let count = (above | 2).ilog2() - 1;
    let symbol = 2 * count + (above >> count);
    (symbol as usize, Bits { bits: above & ((1 << count) - 1), count })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::press::*;

    /// Deterministic noise.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % below
        }

        /// Bytes with few kinds of them or many, and repetitions near and far, of all lengths.
        fn bytes(&mut self, size: usize) -> Vec<u8> {
            let (kinds, repeats) = (1 + self.next(256), self.next(8));
            let mut bytes: Vec<u8> = Vec::with_capacity(size + 600);
            while bytes.len() < size {
                if self.next(8) < repeats && !bytes.is_empty() {
                    let (long, short) = (self.next(600) as usize, self.next(12) as usize);
                    let from = self.next(bytes.len() as u64) as usize;
                    let length = if self.next(4) == 0 { long } else { short };
                    (0..length).for_each(|place| bytes.push(bytes[from + place]));
                } else {
                    // Low ones are likelier, so that codes differ in length.
                    let spread = self.next(kinds) + 1;
                    bytes.push(self.next(spread) as u8);
                }
            }
            bytes.truncate(size);
            bytes
        }
    }

    #[test]
    fn blocks_follow_each_other_in_one_stream() {
        let (mut noise, mut coded, mut plain, mut pressed) = (Noise(1), Vec::new(), Vec::new(), 0);
        for round in 0..4000 {
            let size = 1 + noise.next(if round % 8 == 0 { BLOCK as u64 } else { 3000 }) as usize;
            let bytes = noise.bytes(size);
            let before = coded.len();
            if press(&bytes, &mut coded) == Pressed::Done {
                assert!(coded.len() - before <= bytes.len() + 8);
                plain.extend_from_slice(&bytes);
                pressed += 1;
            } else {
                assert_eq!(coded.len(), before);
            }
        }
        // The end of the stream: an empty block.
        coded.extend_from_slice(&[3, 0]);
        let mut read = Vec::new();
        flate2::read::DeflateDecoder::new(&coded[..]).read_to_end(&mut read).expect("one valid stream");
        assert!(read == plain);
        assert!(pressed > 2000, "{pressed}");
    }

    #[test]
    fn a_whole_block_of_one_byte_is_small() {
        let mut coded = Vec::new();
        assert_eq!(press(&[7; BLOCK], &mut coded), Pressed::Done);
        assert!(coded.len() < 200, "{}", coded.len());
    }

    #[test]
    fn what_is_dense_is_told() {
        let (mut noise, mut out) = (Noise(1), Vec::new());
        let bytes: Vec<u8> = (0..BLOCK).map(|_| noise.next(256) as u8).collect();
        assert_eq!(press(&bytes, &mut out), Pressed::Dense);
        assert!(out.is_empty());
    }
}
