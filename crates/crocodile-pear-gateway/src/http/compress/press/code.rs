//! Huffman's codes (RFC 1951, 3.2.2): the more often a symbol, the fewer its bits.

/// Some bits, of which the lowest goes first, and how many they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bits {
    pub bits: u32,
    pub count: u32,
}

/// How many bits the symbols have that occur so often, at most `most` each.
pub fn lengths(counts: &[u32], most: usize, lengths: &mut [u8]) {
    lengths.fill(0);
    let occurring = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut order: Vec<(u32, usize)> = occurring.map(|(symbol, count)| (*count, symbol)).collect();
    order.sort_unstable();
    let mut weights: Vec<u32> = order.iter().map(|(count, _)| *count).collect();
    deepen(&mut weights);
    let mut symbols = order.iter().map(|(_, symbol)| *symbol);
    for (length, many) in shares(&weights, most).into_iter().enumerate().skip(1).rev() {
        symbols.by_ref().take(many).for_each(|symbol| lengths[symbol] = length as u8);
    }
}

/// How many symbols have codes of each length, so that all of them together are one code.
fn shares(depths: &[u32], most: usize) -> Vec<usize> {
    let mut shares = vec![0; most + 1];
    depths.iter().for_each(|depth| shares[most.min(*depth as usize)] += 1);
    // What was too deep takes more than there is. A longest code goes beside the next shorter one, which becomes longer.
    let mut taken: usize = (1..=most).map(|length| shares[length] << (most - length)).sum();
    while taken > 1 << most {
        let Some(shorter) = (1..most).rev().find(|length| shares[*length] > 0) else { break };
        shares[most] -= 1;
        shares[shorter] -= 1;
        shares[shorter + 1] += 2;
        taken -= 1;
    }
    shares
}

/// Makes weights in rising order the depths of their leaves (Moffat and Katajainen, In-Place Calculation of
/// Minimum-Redundancy Codes, 1995).
fn deepen(tree: &mut [u32]) {
    let count = tree.len();
    if count < 2 {
        tree.fill(1);
        return;
    }
    // Joins what is lightest. What was joined keeps the place of its parent.
    let (mut leaf, mut joined) = (0, 0);
    for next in 0..count - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            if leaf < count && (joined >= next || tree[leaf] <= tree[joined]) {
                weight += tree[leaf];
                leaf += 1;
            } else {
                weight += std::mem::replace(&mut tree[joined], next as u32);
                joined += 1;
            }
        }
        tree[next] = weight;
    }
    // From parents to depths.
    tree[count - 2] = 0;
    for next in (0..count - 2).rev() {
        tree[next] = tree[tree[next] as usize] + 1;
    }
    // From the depths of what was joined to those of the leaves.
    let (mut inner, mut leaf, mut open, mut depth) = (count - 1, count, 1, 0);
    while open > 0 {
        let above = tree[..inner].iter().rev().take_while(|own| **own == depth).count();
        inner -= above;
        for _ in above..open {
            leaf -= 1;
            tree[leaf] = depth;
        }
        open = 2 * above;
        depth += 1;
    }
}

/// The codes of symbols with so many bits.
pub fn codes<const MANY: usize>(lengths: &[u8; MANY]) -> [Bits; MANY] {
    let mut shares = [0; 16];
    lengths.iter().filter(|length| **length > 0).for_each(|length| shares[usize::from(*length)] += 1);
    let mut next = [0u32; 16];
    for length in 1..16 {
        next[length] = (next[length - 1] + shares[length - 1]) << 1;
    }
    lengths.map(|length| {
        if length == 0 {
            return Bits::default();
        }
        let code = next[usize::from(length)];
        next[usize::from(length)] += 1;
        Bits { bits: code.reverse_bits() >> (32 - u32::from(length)), count: length.into() }
    })
}

#[cfg(test)]
mod tests {
    use super::super::code::*;

    /// The part of all codes that these take: 1 is all of them.
    fn taken(lengths: &[u8]) -> f64 {
        lengths.iter().filter(|length| **length > 0).map(|length| 0.5f64.powi((*length).into())).sum()
    }

    #[test]
    fn what_is_rare_has_long_codes_and_none_is_too_long() {
        let mut counts = [0; 24];
        // Each weighs as much as the two before it: the deepest tree there is.
        (counts[3], counts[4]) = (1, 1);
        for next in 5..counts.len() {
            counts[next] = counts[next - 1] + counts[next - 2];
        }
        for most in [5, 7, 14] {
            let mut found = [0; 24];
            lengths(&counts, most, &mut found);
            assert!((taken(&found) - 1.0).abs() < 1e-9, "{found:?}");
            assert!(found.iter().all(|length| usize::from(*length) <= most));
            assert!(found[3..].is_sorted_by(|rare, common| rare >= common), "{found:?}");
            assert_eq!(found[..3], [0; 3]);
        }
        let mut found = [9; 3];
        lengths(&[0, 0, 0], 7, &mut found);
        assert_eq!(found, [0; 3]);
        lengths(&[0, 5, 0], 7, &mut found);
        assert_eq!(found, [0, 1, 0]);
    }

    #[test]
    fn codes_are_as_in_the_standard() {
        // RFC 1951, 3.2.2: ABCDEFGH of the lengths 3 3 3 3 3 2 4 4.
        let found = codes(&[3, 3, 3, 3, 3, 2, 4, 4]).map(|code| code.bits.reverse_bits() >> (32 - code.count));
        assert_eq!(found, [0b010, 0b011, 0b100, 0b101, 0b110, 0b00, 0b1110, 0b1111]);
    }
}
