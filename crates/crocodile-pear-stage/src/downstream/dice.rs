//! Numbers by chance, the same for the same seed.

use std::collections::BTreeSet;

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % sides as u64) as usize
    }

    /// Whether one of so many throws comes up.
    pub fn rare(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())]
    }

    pub fn some<'a>(&mut self, of: &[&'a str], most: usize) -> BTreeSet<&'a str> {
        (0..self.roll(most + 1)).map(|_| self.one(of)).collect()
    }
}
