//! The word that was probably meant.

/// Longer words are nobody's slip of the pen, and comparing them costs the square of their length.
const LONGEST: usize = 64;

/// The candidate nearest to a word, if it is near enough to have been meant.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect();
    let allowed = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour (optimal string alignment).
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    if from.len() > LONGEST || to.len() > LONGEST {
        return usize::MAX;
    }
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, &letter) in from.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, &other) in to.iter().enumerate() {
            let changed = above[column] + usize::from(letter != other);
            let mut least = changed.min(above[column + 1] + 1).min(line[column] + 1);
            if row > 0 && column > 0 && letter == to[column - 1] && from[row - 1] == other {
                least = least.min(before[column - 1] + 1);
            }
            line.push(least);
        }
        before = std::mem::replace(&mut above, line);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn a_slip_of_the_pen_is_understood() {
        let known = ["timeout", "url", "forward", "in_flight", "as"];
        assert_eq!(suggest("tiemout", known), Some("timeout"));
        assert_eq!(suggest("Timeout", known), Some("timeout"));
        assert_eq!(suggest("inflight", known), Some("in_flight"));
        assert_eq!(suggest("ulr", known), Some("url"));
        assert_eq!(suggest("forwards", known), Some("forward"));
    }

    #[test]
    fn another_word_is_not_taken_for_a_slip() {
        assert_eq!(suggest("balance", ["timeout", "url"]), None);
        assert_eq!(suggest("x", ["y"]), None);
        assert_eq!(suggest("", ["a"]), None);
        assert_eq!(suggest(&"a".repeat(10_000), ["a"]), None);
    }
}
