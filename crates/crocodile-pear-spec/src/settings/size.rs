//! Amounts of bytes: `512`, `64KiB`, `10MB`.

use serde_json::{Value, json};

use super::decode::Decode;
use super::definitions::Definitions;
use super::node::Node;
use crate::problem::Problems;

/// A number of bytes; written as a number, or with a unit (`64KiB`, `10MB`).
///
/// ```
/// assert_eq!(crocodile_pear_spec::settings::Size(1 << 20).bytes(), 1_048_576);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

impl Size {
    /// The size as a length in memory; a size that does not fit becomes the largest length.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Decode for Size {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a size in bytes";
        let text = node.expect_text(WANTED, problems)?.value;
        let (number, unit) = text.split_at(text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len()));
        let factor = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).map(|(_, factor)| *factor);
        match (number.parse::<u64>(), factor) {
            (Ok(number), Some(factor)) => match number.checked_mul(factor) {
                Some(bytes) => Some(Self(bytes)),
                None => node.wrong("a size below 16EiB", "", problems),
            },
            (Ok(number), None) => node.wrong(WANTED, meant(number, unit.trim_start()), problems),
            _ => node.wrong(WANTED, "write it as `512`, `64KiB` or `10MB`", problems),
        }
    }

    fn schema(definitions: &mut Definitions) -> Value {
        let size = json!({
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": "^[0-9]+ ?([KMG]iB|[kKMG]?B)?$"},
            ],
            "examples": ["64KiB", "10MB", 512],
        });
        definitions.define("Size", |definitions| definitions.or_variable(size))
    }

    fn written(&self) -> Option<Value> {
        let whole = UNITS[..3].iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        Some(match whole {
            Some((unit, factor)) => format!("{}{unit}", self.0 / factor).into(),
            None => self.0.into(),
        })
    }
}

/// The remedy for an ambiguous unit.
fn meant(number: u64, unit: &str) -> String {
    match unit.chars().next().map(|letter| letter.to_ascii_uppercase()) {
        Some(letter @ ('K' | 'M' | 'G')) => {
            format!("write `{number}{letter}iB` (powers of 1024) or `{number}{letter}B`")
        }
        _ => "the units are B, KiB, MiB, GiB, KB, MB and GB".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Size;
    use crate::problem::Problems;
    use crate::settings::{Decode, Node};

    fn read(text: &str) -> Result<u64, Option<String>> {
        let mut problems = Problems::default();
        let size = Size::decode(&Node::from_json(&json!(text)), &mut problems);
        size.map(|size| size.0).ok_or_else(|| problems.into_sorted().remove(0).remedy)
    }

    #[test]
    fn sizes_have_clear_units() {
        for (text, bytes) in
            [("512", 512), ("64KiB", 65_536), ("10MB", 10_000_000), ("1 GiB", 1 << 30), ("0", 0), ("3B", 3)]
        {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn unclear_sizes_are_refused_with_the_remedy() {
        assert_eq!(read("10m"), Err(Some("write `10MiB` (powers of 1024) or `10MB`".to_owned())));
        assert_eq!(read("1TB"), Err(Some("the units are B, KiB, MiB, GiB, KB, MB and GB".to_owned())));
        assert_eq!(read("-1"), Err(Some("write it as `512`, `64KiB` or `10MB`".to_owned())));
        assert_eq!(read("99999999999GiB"), Err(None));
    }
}
