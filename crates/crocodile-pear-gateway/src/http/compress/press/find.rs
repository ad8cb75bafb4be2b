//! Repetitions within a block.

/// The most that one block takes: places are counted in 16 bits.
pub const BLOCK: usize = 64 << 10;

/// The finder of repetitions.
pub struct Finder {
    /// Where in the block something like this stood last.
    places: Box<[u16; 1 << BITS]>,
    /// The repetitions, in order.
    pub sequences: Vec<Sequence>,
    /// All bytes that no repetition covers, one after the other, with room behind them.
    literals: Vec<u8>,
    many: usize,
}

/// Bytes as they are, and a repetition behind them.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    pub literals: u32,
    pub length: u16,
    pub distance: u16,
}

/// 32 KiB of places, which a core's first cache holds.
const BITS: u32 = 14;

/// The shortest repetition that is looked for. Shorter ones cost more time than they save, and in numbers more bits too.
const SHORTEST: u32 = 6;

/// The longest (RFC 1951, 3.2.5).
const LONGEST: usize = 258;

/// How far back one may lie (RFC 1951, 3.2.5).
const FARTHEST: usize = 32 << 10;

/// The bytes that are read at once.
const WORD: usize = 8;

/// The bytes that are compared and copied at once: most repetitions and most literals between them are shorter.
const WIDE: usize = 16;

impl Finder {
    pub fn new() -> Self {
        Finder {
            places: Box::new([0; 1 << BITS]),
            sequences: Vec::new(),
            // What is copied or read at once may begin at the last byte.
            literals: vec![0; BLOCK + WIDE],
            many: 0,
        }
    }

    /// The bytes that no repetition covers.
    pub fn literals(&self) -> &[u8] {
        &self.literals[..self.many]
    }

    /// These, and at least four bytes behind them that mean nothing.
    pub fn padded(&self) -> &[u8] {
        &self.literals[..self.many + WIDE]
    }

    /// Divides a block of 64 KiB at most into sequences. What stands behind the last one is literals.
    pub fn find(&mut self, block: &[u8]) {
        // Its own while the block is looked at: a list behind `self` is read again for each sequence.
        let mut sequences = std::mem::take(&mut self.sequences);
        sequences.clear();
        self.many = 0;
        self.places.fill(0);
        let end = block.len().saturating_sub(WIDE + 1);
        let (mut at, mut from) = (1, 0);
        while at < end {
            let here = word(block, at);
            let before = self.note(here, at);
            // One question, so that the processor guesses once.
            if ((word(block, before) ^ here) << SPARE != 0) | (at - before > FARTHEST) {
                at += 1;
                continue;
            }
            let common = common(block, before, at).min(at - from);
            let start = at - common;
            let length = (common + same(block, before, at)).min(LONGEST);
            let (literals, distance) = ((start - from) as u32, (at - before) as u16);
            sequences.push(Sequence { literals, length: length as u16, distance });
            self.gather(block, from, start);
            from = start + length;
            at = from;
            if at < end {
                // The first and the last places of a repetition say as much as all of them, and are noted while the
                // processor waits for what it compared.
                for near in 1..=4 {
                    for place in [start + near, at - near] {
                        self.note(word(block, place), place);
                    }
                }
            }
        }
        self.sequences = sequences;
        let rest = &block[from..];
        self.literals[self.many..self.many + rest.len()].copy_from_slice(rest);
        self.many += rest.len();
    }

    /// Takes bytes as they are. Most are few: they are copied with some that are not meant.
    #[inline]
    fn gather(&mut self, block: &[u8], from: usize, to: usize) {
        let (mut at, mut room) = (from, self.many);
        loop {
            self.literals[room..room + WIDE].copy_from_slice(&block[at..at + WIDE]);
            at += WIDE;
            room += WIDE;
            if at >= to {
                break;
            }
        }
        self.many += to - from;
    }

    /// Where something like this stood last. Now it stands here.
    #[inline]
    fn note(&mut self, word: u64, at: usize) -> usize {
        let place = ((word << SPARE).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - BITS)) as usize;
        usize::from(std::mem::replace(&mut self.places[place], at as u16))
    }
}

/// The bits of a word beyond the shortest repetition.
const SPARE: u32 = 64 - 8 * SHORTEST;

#[inline]
fn word(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + WORD].try_into().expect("so many bytes"))
}

#[inline]
fn wide(block: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(block[at..at + WIDE].try_into().expect("so many bytes"))
}

/// How many bytes before both are the same: at most a word.
#[inline]
fn common(block: &[u8], before: usize, at: usize) -> usize {
    if before < WORD {
        return 0;
    }
    ((word(block, at - WORD) ^ word(block, before - WORD)).leading_zeros() / 8) as usize
}

/// How many bytes are the same from here.
#[inline]
fn same(block: &[u8], before: usize, at: usize) -> usize {
    let other = wide(block, at) ^ wide(block, before);
    if other == 0 { WIDE + more(block, before + WIDE, at + WIDE) } else { (other.trailing_zeros() / 8) as usize }
}

/// How many bytes are the same after those.
fn more(block: &[u8], before: usize, at: usize) -> usize {
    let most = LONGEST.min(block.len() - at);
    let mut length = 0;
    while length + WORD <= most {
        let other = word(block, before + length) ^ word(block, at + length);
        if other != 0 {
            return length + (other.trailing_zeros() / 8) as usize;
        }
        length += WORD;
    }
    while length < most && block[before + length] == block[at + length] {
        length += 1;
    }
    length
}
