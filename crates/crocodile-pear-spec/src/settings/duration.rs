//! Durations: `500ms`, `2s`, `1h30m`.

use std::{str::FromStr, time::Duration};

use serde_json::{Value, json};

use super::decode::Decode;
use super::definitions::Definitions;
use super::node::Node;
use crate::problem::Problems;

const UNITS: [(&str, u64); 6] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Ten years, in nanoseconds: clocks and timers can still add it, and nobody needs a longer wait.
const LONGEST: u64 = 3_650 * 86_400_000_000_000;

const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d))+$";

impl Decode for Duration {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a duration";
        let text = node.expect_text(WANTED, problems)?.value;
        if let Some(nanos) = parse(&text) {
            return match nanos <= LONGEST {
                true => Some(Self::from_nanos(nanos)),
                false => node.wrong("a duration of at most 3650d", "", problems),
            };
        }
        let remedy = match f64::from_str(&text) {
            Ok(number) if number >= 0.0 && number.is_finite() => format!("add the unit: `{text}s` or `{text}ms`"),
            _ => meant(&text).unwrap_or_else(|| "write it as `500ms`, `2s`, `1m` or `1h30m`".to_owned()),
        };
        node.wrong(WANTED, remedy, problems)
    }

    fn schema(definitions: &mut Definitions) -> Value {
        definitions.define("Duration", |definitions| {
            let duration = json!({"type": "string", "pattern": PATTERN, "examples": ["500ms", "2s", "1h30m"]});
            definitions.or_variable(duration)
        })
    }

    fn written(&self) -> Option<Value> {
        let mut rest = u64::try_from(self.as_nanos()).ok()?;
        if rest == 0 {
            return Some("0s".into());
        }
        let mut text = String::new();
        for (unit, nanos) in UNITS.iter().rev().filter(|(unit, _)| *unit != "d") {
            if rest >= *nanos {
                text.push_str(&format!("{}{unit}", rest / nanos));
                rest %= nanos;
            }
        }
        Some(text.into())
    }
}

/// The remedy for a unit with another name: `2 seconds`, `5 min`.
fn meant(text: &str) -> Option<String> {
    const WORDS: [(&str, &[&str]); 5] = [
        ("ms", &["msec", "msecs", "millis", "millisecond", "milliseconds"]),
        ("s", &["S", "sec", "secs", "second", "seconds"]),
        ("m", &["M", "min", "mins", "minute", "minutes"]),
        ("h", &["H", "hr", "hrs", "hour", "hours"]),
        ("d", &["D", "day", "days"]),
    ];
    let (number, word) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let (unit, _) = WORDS.iter().find(|(unit, words)| *unit == word.trim() || words.contains(&word.trim()))?;
    (!number.is_empty()).then(|| format!("write `{number}{unit}`"))
}

/// Nanoseconds. The result saturates, so that a duration that is too long differs from text that is not a duration.
fn parse(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(number);
        let unit = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.saturating_add(scale(number, *nanos)?);
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// A decimal number times an integer, without floating-point rounding.
fn scale(number: &str, by: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(by);
    let mut scale = by;
    let part = part.bytes().fold(0_u64, |sum, digit| {
        scale /= 10;
        sum + u64::from(digit - b'0') * scale
    });
    Some(whole.saturating_add(part))
}

/// How long to wait. The smaller of two is the stricter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timeout {
    /// At most this long.
    After(Duration),
    /// Without limit; written `never`.
    Never,
}

impl Timeout {
    /// The time to wait, if it is limited.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration),
        }
    }
}

impl Decode for Timeout {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_plain() {
            Some("never") => Some(Self::Never),
            Some("none" | "off" | "infinite" | "unlimited" | "false") => {
                node.wrong("a duration or `never`", "write `never`", problems)
            }
            _ => match Duration::decode(node, problems)? {
                Duration::ZERO => node.wrong("a duration above 0, or `never`", "write `never` for no limit", problems),
                duration => Some(Self::After(duration)),
            },
        }
    }

    fn schema(definitions: &mut Definitions) -> Value {
        json!({"anyOf": [{"const": "never"}, Duration::schema(definitions)]})
    }

    fn written(&self) -> Option<Value> {
        self.duration().map_or(Some("never".into()), |duration| duration.written())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::Timeout;
    use crate::problem::Problems;
    use crate::settings::{Decode, Node};

    fn read<T: Decode>(text: &str) -> Result<T, String> {
        let mut problems = Problems::default();
        let value = T::decode(&Node::from_json(&json!(text)), &mut problems);
        value.ok_or_else(|| problems.into_sorted().remove(0).remedy.unwrap_or_default())
    }

    #[test]
    fn durations_are_exact() {
        for (text, millis) in [
            ("2s", 2_000),
            ("500ms", 500),
            ("1m", 60_000),
            ("1h30m", 5_400_000),
            ("0.25s", 250),
            ("0s", 0),
            ("1d", 86_400_000),
        ] {
            assert_eq!(read(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(read("0.000000001s"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn what_has_no_unit_is_refused_with_the_remedy() {
        assert_eq!(read::<Duration>("30"), Err("add the unit: `30s` or `30ms`".to_owned()));
        for (text, wanted) in [("1 s", "1s"), ("1S", "1s"), ("30 seconds", "30s"), ("5min", "5m"), ("7 days", "7d")] {
            assert_eq!(read::<Duration>(text), Err(format!("write `{wanted}`")));
        }
        for text in ["", "s", "-1s", "1s2", "sec", ".5s", "1.s", "1..2s", "é", "NaN", "inf", "5w", "never"] {
            assert_eq!(read::<Duration>(text), Err("write it as `500ms`, `2s`, `1m` or `1h30m`".to_owned()), "{text}");
        }
        assert_eq!(read::<Duration>("4000d"), Err(String::new()));
        assert_eq!(read::<Duration>("99999999999999999999999h"), Err(String::new()));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for millis in [0, 1, 1_500, 5_400_000, 90_061_001] {
            let duration = Duration::from_millis(millis);
            let written = duration.written().expect("a text");
            assert_eq!(read(written.as_str().expect("a text")), Ok(duration));
        }
        assert_eq!(Timeout::After(Duration::from_secs(60)).written(), Some(json!("1m")));
    }
}
