//! What of a block stands in it before.

/// What finds it.
pub struct Finder {
    /// Where in the block something like this stood last.
    places: Box<[u16; 1 << BITS]>,
}

/// Bytes as they are, and a repetition behind them; none at the end of a block.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub literals: u32,
    pub length: u16,
    pub distance: u16,
}

/// 32 KiB of places, which a core's first cache holds.
const BITS: u32 = 14;

/// The shortest repetition that is looked for. Of four bytes, those that are found in numbers and keys cost more than they
/// save.
const SHORTEST: u32 = 5;

/// The longest (RFC 1951, 3.2.5).
const LONGEST: usize = 258;

/// How far back one may lie (RFC 1951, 3.2.5).
const FARTHEST: usize = 32 << 10;

/// What is read at once.
const WORD: usize = 8;

impl Finder {
    pub fn new() -> Self {
        Finder { places: Box::new([0; 1 << BITS]) }
    }

    /// Divides a block of 64 KiB at most into runs.
    pub fn find(&mut self, block: &[u8], runs: &mut Vec<Run>) {
        runs.clear();
        self.places.fill(0);
        let end = block.len().saturating_sub(WORD + 1);
        let (mut at, mut from) = (1, 0);
        while at < end {
            let here = word(block, at);
            let before = self.note(here, at);
            if (word(block, before) ^ here) << SPARE != 0 || at - before > FARTHEST {
                at += 1;
                continue;
            }
            let common = common(&block[from..at], &block[..before]);
            let (start, length) = (at - common, same(block, before - common, at - common));
            let (literals, distance) = ((start - from) as u32, (at - before) as u16);
            runs.push(Run { literals, length: length as u16, distance });
            from = start + length;
            at = from;
            if at < end {
                // Two places of a repetition say nearly as much as all of them.
                for place in [start + 1, at - 2] {
                    self.note(word(block, place), place);
                }
            }
        }
        runs.push(Run { literals: (block.len() - from) as u32, length: 0, distance: 0 });
    }

    /// Where something like this stood last. Now it stands here.
    #[inline]
    fn note(&mut self, word: u64, at: usize) -> usize {
        let place = ((word << SPARE).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - BITS)) as usize;
        usize::from(std::mem::replace(&mut self.places[place], at as u16))
    }
}

/// What of a word is more than the shortest repetition.
const SPARE: u32 = 64 - 8 * SHORTEST;

#[inline]
fn word(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + WORD].try_into().expect("so many bytes"))
}

/// How many bytes both end with.
#[inline]
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

/// How long the repetition is.
#[inline]
fn same(block: &[u8], before: usize, at: usize) -> usize {
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
