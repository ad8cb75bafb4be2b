//! Pairs of faults that happen at the same time, chosen by a seed.

use super::{Fault, all};
use crate::test_rng::TestRng;

/// So many pairs of faults of different dependencies. The same seed gives the same pairs.
pub fn pairs(seed: u64, count: usize) -> Vec<[&'static Fault; 2]> {
    let faults: Vec<&Fault> = all().collect();
    let mut dice = TestRng(seed);
    let mut pairs: Vec<[&Fault; 2]> = Vec::new();
    for _ in 0..count * 100 {
        let [first, second] = [dice.of(&faults), dice.of(&faults)];
        let known = pairs.iter().any(|[one, other]| one.name == first.name && other.name == second.name);
        if first.dependency() != second.dependency() && !known && pairs.len() < count {
            pairs.push([first, second]);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_pairs() {
        let names = |seed| pairs(seed, 3).iter().map(|pair| pair.map(|fault| fault.name)).collect::<Vec<_>>();
        assert_eq!(names(7).len(), 3);
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
    }
}
