//! One block of deflate made by libdeflate, so that others may follow it in the same stream.
//!
//! libdeflate ends every stream that it makes. Where the last block ends inside its last byte is told by nobody, but can be
//! worked out: what follows the block's end symbol is zero bits, and how many zero bits that symbol itself ends with stands in
//! the code at the head of the block.

use std::cell::RefCell;

use libdeflater::{CompressionLvl, Compressor};

/// The order in which the code of the code lengths is written (RFC 1951, 3.2.7).
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The symbol that ends a block.
const END: usize = 256;

/// What became of some bytes.
pub enum Pressed {
    /// They were appended, and more may follow.
    Done,
    /// They do not get shorter.
    Dense,
    /// Not one block with a code of its own.
    Other,
}

/// A compressor and room for what it makes: 0.2 MiB for each thread, none for an answer.
struct Press {
    compressor: Compressor,
    room: Vec<u8>,
}

thread_local! {
    static PRESS: RefCell<Press> = RefCell::new(Press {
        compressor: Compressor::new(CompressionLvl::new(1).expect("libdeflate has this level")),
        room: Vec::new(),
    });
}

/// Appends these bytes as one block, and an empty one that ends at a whole byte.
pub fn press(bytes: &[u8], out: &mut Vec<u8>) -> Pressed {
    PRESS.with_borrow_mut(|Press { compressor, room }| {
        let most = compressor.deflate_compress_bound(bytes.len());
        if room.len() < most {
            room.resize(most, 0);
        }
        let Ok(size) = compressor.deflate_compress(bytes, room) else { return Pressed::Other };
        let block = &mut room[..size];
        match block.first().map(|first| first & 7) {
            // One block, the last, with a code of its own.
            Some(0b101) => {}
            Some(0b000 | 0b001) => return Pressed::Dense,
            _ => return Pressed::Other,
        }
        let Some(spare) = spare(block) else { return Pressed::Other };
        block[0] &= !1;
        out.extend_from_slice(block);
        // Three zero bits begin an empty stored block, whose length begins at the next whole byte.
        let marker: &[u8] = if spare < 3 { &[0, 0, 0, 0xff, 0xff] } else { &[0, 0, 0xff, 0xff] };
        out.extend_from_slice(marker);
        Pressed::Done
    })
}

/// How many bits of a stream's last byte are not used.
fn spare(block: &[u8]) -> Option<u32> {
    let lengths = lengths(block)?;
    let code = code(&lengths, END)?;
    let mut zeros = 0;
    for byte in block.iter().rev() {
        zeros += byte.leading_zeros();
        if *byte != 0 {
            break;
        }
    }
    // A code of zeros alone does not tell where it begins.
    let own = (code != 0).then(|| code.trailing_zeros())?;
    zeros.checked_sub(own).filter(|spare| *spare < 8)
}

/// The code of a symbol (RFC 1951, 3.2.2).
fn code(lengths: &[u8], symbol: usize) -> Option<u32> {
    let own = *lengths.get(symbol).filter(|length| **length > 0)?;
    let mut code = 0;
    for length in 1..=own {
        let shorter = lengths.iter().filter(|other| **other > 0 && **other + 1 == length).count();
        code = (code + shorter as u32) << 1;
    }
    let before = lengths[..symbol].iter().filter(|other| **other == own).count();
    Some(code + before as u32)
}

/// The lengths of the codes of literals and lengths, from the head of a block (RFC 1951, 3.2.7).
fn lengths(block: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Bits { bytes: block, at: 3 };
    let count = bits.take(5) + 257;
    bits.take(5);
    let known = bits.take(4) + 4;
    let mut own = [0; ORDER.len()];
    for place in ORDER.iter().take(known) {
        own[*place] = bits.take(3) as u8;
    }
    let table = table(&own);
    let mut lengths = Vec::with_capacity(count + 138);
    while lengths.len() < count {
        let (symbol, length) = table[bits.peek(7)];
        if length == 0 || bits.at > block.len() * 8 {
            return None;
        }
        bits.at += usize::from(length);
        let (value, times) = match symbol {
            16 => (*lengths.last()?, bits.take(2) + 3),
            17 => (0, bits.take(3) + 3),
            18 => (0, bits.take(7) + 11),
            value => (value, 1),
        };
        lengths.resize(lengths.len() + times, value);
    }
    lengths.truncate(count);
    Some(lengths)
}

/// Symbol and length by the next seven bits, as they are read: the first bit of a code is the lowest.
fn table(lengths: &[u8; ORDER.len()]) -> [(u8, u8); 128] {
    let mut table = [(0, 0); 128];
    for (symbol, &length) in lengths.iter().enumerate() {
        let Some(code) = code(lengths, symbol) else { continue };
        let turned = code.reverse_bits() >> (32 - u32::from(length));
        for place in (turned as usize..128).step_by(1 << length) {
            table[place] = (symbol as u8, length);
        }
    }
    table
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next bits, at most eight; zeros behind the end.
    fn peek(&self, count: usize) -> usize {
        let byte = |place: usize| self.bytes.get(place).map_or(0, |byte| usize::from(*byte));
        let both = byte(self.at / 8) | byte(self.at / 8 + 1) << 8;
        (both >> (self.at % 8)) & ((1 << count) - 1)
    }

    fn take(&mut self, count: usize) -> usize {
        let bits = self.peek(count);
        self.at += count;
        bits
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn blocks_follow_each_other_in_one_stream() {
        let (mut state, mut coded, mut plain, mut pressed) = (1u64, Vec::new(), Vec::new(), 0);
        for round in 1..=2000u64 {
            let spread = 2 + round % 90;
            let size = 40 + (round * 37 % 9000) as usize;
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Low ones are likelier, so that codes differ in length.
                b' ' + ((state >> 40) % spread * ((state >> 52) % spread) / spread) as u8
            })
            .take(size)
            .collect();
            if let Pressed::Done = press(&bytes, &mut coded) {
                plain.extend_from_slice(&bytes);
                pressed += 1;
            }
        }
        // The end of the stream: an empty block.
        coded.extend_from_slice(&[3, 0]);
        let mut read = Vec::new();
        flate2::read::DeflateDecoder::new(&coded[..]).read_to_end(&mut read).expect("one valid stream");
        assert!(read == plain);
        assert!(pressed > 1900, "{pressed}");
    }

    #[test]
    fn what_is_dense_is_told() {
        let (mut state, mut out) = (1u64, Vec::new());
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(5000)
        .collect();
        assert!(matches!(press(&noise, &mut out), Pressed::Dense));
        assert!(out.is_empty());
    }
}
