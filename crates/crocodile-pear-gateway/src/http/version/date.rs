//! Dates as they are written in a configuration: `2026-06-01`, or a time of that day (RFC 3339).

use std::fmt;
use std::time::{Duration, SystemTime};

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Node};
use crocodile_pear::unstable::runtime::calendar::Day;

/// A point in time, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    seconds: u64,
    written: String,
}

impl Date {
    pub fn parse(text: &str) -> Option<Self> {
        let (day, time) = match text.split_once(['T', 't', ' ']) {
            Some((day, time)) => (day, time),
            None => (text, "00:00:00Z"),
        };
        let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
        let [year, month, day] = [year, month, day].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let date = Some(Day { year, month, day }).filter(|date| date.exists())?;
        let days = u64::try_from(date.number()).ok()?;
        let seconds = (days * 86_400).checked_add_signed(clock(time)?)?;
        Some(Date { seconds, written: text.to_owned() })
    }

    /// Seconds since 1970.
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Writes the date as HTTP has it (RFC 9110, 5.6.7).
    pub fn http(&self) -> String {
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(self.seconds))
    }
}

/// Seconds of a time of day with its zone: `12:30:00Z`, `12:30:00+02:00`.
fn clock(text: &str) -> Option<i64> {
    let zone = text.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = text.split_at(zone);
    let [hours, minutes, seconds] = numbers(time, ':', [2, 2, 2])?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let [hours, minutes] =
                numbers(&zone[1..], ':', [2, 2]).filter(|[hours, minutes]| *hours < 24 && *minutes < 60)?;
            let offset = i64::try_from(hours * 3600 + minutes * 60).ok()?;
            if zone.starts_with('+') { offset } else { -offset }
        }
    };
    Some(i64::try_from(hours * 3600 + minutes * 60 + seconds).ok()? - offset)
}

/// Numbers of so many digits each, and nothing else.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut read = [0; N];
    for (number, digits) in read.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(read)
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Decode for Date {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a date";
        let text = node.expect_text(WANTED, problems)?.value;
        Date::parse(text.trim())
            .or_else(|| node.wrong(WANTED, "write it as `2026-06-01` or `2026-06-01T12:00:00Z`", problems))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let date = serde_json::json!({"type": "string", "examples": ["2026-06-01", "2026-06-01T12:00:00Z"]});
        definitions.or_variable(date)
    }
}

#[cfg(test)]
mod tests {
    use super::super::date::*;

    #[test]
    fn a_date_is_its_first_second_unless_it_has_a_time() {
        let seconds = |text: &str| Date::parse(text).map(|date| date.seconds);
        assert_eq!(seconds("1970-01-01"), Some(0));
        // The example of RFC 9745.
        assert_eq!(seconds("2023-06-30T23:59:59Z"), Some(1_688_169_599));
        assert_eq!(seconds("2023-07-01T01:59:59+02:00"), Some(1_688_169_599));
        assert_eq!(seconds("2024-02-29"), Some(1_709_164_800));
        assert_eq!(
            Date::parse("2018-12-31T23:59:59Z").map(|date| date.http()).as_deref(),
            Some("Mon, 31 Dec 2018 23:59:59 GMT")
        );
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "true",
            "2023-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "24-01-01",
            "2024-1-1",
            "01.02.2024",
            "1688169599",
            "2024-01-01T25:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00+1",
            "2024-01-01-01",
            "1969-12-31",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }
}
