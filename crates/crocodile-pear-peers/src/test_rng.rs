//! The random numbers of tests.

/// Pseudo-random numbers (SplitMix64). The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct TestRng(pub u64);

impl TestRng {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// An index from 0 to `end`, without `end` itself.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number(end as u64)).expect("below a usize")
    }

    /// A number from 0 to `end`, without `end` itself.
    pub fn number(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// `true` once in so many throws, on average.
    pub fn rare(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    /// An element of the list.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
