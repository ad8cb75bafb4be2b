//! The bits of a block, and how many symbols there are.

use super::code::Bits;

/// Literals, the end, and lengths (RFC 1951, 3.2.5).
pub const LITERALS: usize = 286;

/// Distances (RFC 1951, 3.2.5).
pub const DISTANCES: usize = 30;

/// Puts bits into bytes.
pub struct BitWriter<'a> {
    pub room: &'a mut [u8],
    pub at: usize,
    pub held: u64,
    pub count: u32,
}

impl BitWriter<'_> {
    /// At most 57 bits find room before they are spilled.
    #[inline]
    pub fn put(&mut self, bits: Bits) {
        self.held |= u64::from(bits.bits) << self.count;
        self.count += bits.count;
    }

    /// Writes the whole bytes of what is held.
    #[inline]
    pub fn spill(&mut self) {
        self.room[self.at..self.at + 8].copy_from_slice(&self.held.to_le_bytes());
        self.at += (self.count / 8) as usize;
        self.held >>= self.count & !7;
        self.count %= 8;
    }

    /// An empty stored block, which ends at a whole byte (RFC 1951, 3.2.4). How many bytes there are.
    pub fn mark(&mut self) -> usize {
        self.put(Bits { bits: 0, count: 3 });
        self.count = self.count.next_multiple_of(8);
        self.put(Bits { bits: 0xffff_0000, count: 32 });
        self.spill();
        self.at
    }
}
