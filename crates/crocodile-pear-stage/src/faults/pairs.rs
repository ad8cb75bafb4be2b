//! Pairs of faults that happen at the same time, chosen by a seed.

use super::{Fault, all};

/// So many pairs of faults of different dependencies. The same seed gives the same pairs.
pub fn pairs(seed: u64, count: usize) -> Vec<[&'static Fault; 2]> {
    let faults: Vec<&Fault> = all().collect();
    let mut random = seed;
    let mut next = move || {
        // SplitMix64.
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize
    };
    let mut pairs: Vec<[&Fault; 2]> = Vec::new();
    for _ in 0..count * 100 {
        let [first, second] = [faults[next() % faults.len()], faults[next() % faults.len()]];
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
