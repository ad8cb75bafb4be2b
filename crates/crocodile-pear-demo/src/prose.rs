//! Made-up text of an exact length: the same seed, the same text.

const WORDS: [&str; 48] = [
    "answer",
    "avenue",
    "basement",
    "bicycle",
    "board",
    "bridge",
    "building",
    "call",
    "citizen",
    "clinic",
    "corner",
    "council",
    "damage",
    "decision",
    "drain",
    "form",
    "garden",
    "harbour",
    "heating",
    "invoice",
    "lamp",
    "lease",
    "letter",
    "library",
    "meeting",
    "neighbour",
    "noise",
    "notice",
    "office",
    "parking",
    "path",
    "permit",
    "playground",
    "pump",
    "repair",
    "report",
    "road",
    "school",
    "sewer",
    "sign",
    "snow",
    "square",
    "station",
    "street",
    "tree",
    "visit",
    "water",
    "window",
];

/// Words, ASCII and safe inside a JSON string, `length` bytes of them.
pub fn prose(seed: u64, length: usize) -> String {
    let mut text = String::with_capacity(length + 12);
    for turn in 0.. {
        if text.len() >= length {
            break;
        }
        text.push_str(choose(&WORDS, mix(seed, turn)));
        text.push(' ');
    }
    text.truncate(length);
    text
}

/// The document that `write` makes around just enough text to be `size` bytes long.
pub fn fill(size: usize, seed: u64, write: impl Fn(&str) -> String) -> String {
    let bare = write("").len();
    write(&prose(seed, size.saturating_sub(bare)))
}

pub fn choose<'a>(list: &[&'a str], number: u64) -> &'a str {
    list[(number % list.len() as u64) as usize]
}

/// A well spread number for a pair of them (the finalizer of SplitMix64).
pub fn mix(seed: u64, turn: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(turn.wrapping_mul(0xD1B5_4A32_D192_ED03)) ^ seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_long_as_asked_and_always_the_same() {
        for length in [0, 1, 7, 100, 4_000] {
            assert_eq!(prose(7, length).len(), length);
            assert_eq!(prose(7, length), prose(7, length));
        }
        assert_ne!(prose(7, 100), prose(8, 100));
    }
}
