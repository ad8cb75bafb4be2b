//! Random numbers for jitter and choices: fast, per thread, not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

thread_local! {
    /// Never 0: xorshift would stay at 0.
    static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish() | 1);
}

/// A number from 0 to `end`, not `end` itself; 0 if that is 0.
pub fn below(end: u64) -> u64 {
    // xorshift64* (Vigna, 2016); its upper half is the better one.
    let mut state = STATE.get();
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    STATE.set(state);
    ((u128::from(state.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(end)) >> 64) as u64
}

/// A part of 1, not 1 itself.
pub fn share() -> f64 {
    below(1 << 53) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::super::random::*;

    #[test]
    fn every_number_has_its_chance() {
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[below(7) as usize] += 1);
        assert!(seen.iter().all(|&times| (700..1_300).contains(&times)), "{seen:?}");
        assert_eq!(below(0), 0);
    }

    #[test]
    fn a_share_is_part_of_one() {
        let shares: Vec<f64> = (0..100).map(|_| share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        assert!(shares.iter().any(|share| *share < 0.5) && shares.iter().any(|share| *share > 0.5));
    }
}
