//! A rate as written: `100/1m`.

use std::fmt;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Located, Node};

/// A number of requests per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub requests: u64,
    /// In which time.
    pub window: Duration,
}

const WANTED: &str = "a rate, as `100/1m`";
const USUAL: &str = "write it as `100/1m`: so many requests in so much time";

/// The least time between two requests, in nanoseconds.
const CLOSEST: u64 = 100;

impl Rate {
    /// The time between two requests at this rate, in nanoseconds.
    pub fn interval(&self) -> u64 {
        u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX) / self.requests
    }
}

impl fmt::Display for Rate {
    /// Writes the rate as in a configuration: `100/1m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.window.written().and_then(|written| written.as_str().map(str::to_owned));
        write!(f, "{}/{}", self.requests, window.unwrap_or_default())
    }
}

/// The value of an expression that gives a rate.
pub enum RateValue {
    Some(Rate),
    /// No request at all: `0/1m`. The time is in nanoseconds.
    Zero(u64),
}

impl Rate {
    /// Reads the value of an expression; `None` if it is not a rate.
    pub fn of(text: &str) -> Option<RateValue> {
        if let Some((requests, time)) = text.split_once('/')
            && requests.trim().parse() == Ok(0)
        {
            let nanos = window(time.trim()).ok()?.as_nanos();
            return u64::try_from(nanos).ok().map(RateValue::Zero);
        }
        parse(text.trim()).ok().map(RateValue::Some)
    }
}

impl Decode for Rate {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = node.expect_text(WANTED, problems)?;
        match parse(text.as_str()) {
            Ok(rate) => Some(rate),
            Err(_) if problems.found_within(text.span) => None,
            Err(remedy) => problems.error(text.span, format!("`{text}` is not a rate"), remedy),
        }
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({"type": "string", "examples": ["100/1m", "10/1s", "100000/1d"]})
    }
}

/// Parses a duration; a unit without a number means one.
fn window(text: &str) -> Result<Duration, String> {
    let one = if text.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        format!("1{text}")
    } else {
        text.to_owned()
    };
    let node = Located::new(one, Span::default());
    let node = Node::from_json(&Json::from(node.value));
    let mut problems = Problems::default();
    match Duration::decode(&node, &mut problems) {
        Some(window) => Ok(window),
        None => {
            let remedy = problems.into_sorted().into_iter().find_map(|problem| problem.remedy).unwrap_or_default();
            Err(remedy.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`')).unwrap_or_default().to_owned())
        }
    }
}

/// Parses a rate; the error says what to write.
fn parse(text: &str) -> Result<Rate, String> {
    let Some((requests, time)) = text.split_once('/') else { return Err(meant(text)) };
    let (requests, time) = (requests.trim(), time.trim());
    let Ok(number) = requests.parse::<u64>() else { return Err(meant(text)) };
    let window = window(time).map_err(|meant| match meant.is_empty() {
        true => USUAL.to_owned(),
        false => format!("write `{number}/{meant}`"),
    })?;
    let rate = Rate { requests: number, window };
    match (number, window) {
        (0, _) => Err("write a rate above 0; who may not ask at all is for `addresses` or `allow`".to_owned()),
        (_, Duration::ZERO) => Err(USUAL.to_owned()),
        _ if rate.interval() < CLOSEST => Err("the highest rate is `10000000/1s`".to_owned()),
        _ => Ok(rate),
    }
}

/// Suggests a rate for notations of other products: `100r/s`, `100 per minute`, a plain number.
fn meant(text: &str) -> String {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let unit = rest.trim().trim_start_matches("requests").trim_start_matches(['r', 'R']).trim();
    let unit = unit.trim_start_matches(['/', 'p']).trim_start_matches("er").trim();
    let unit = match unit {
        "s" | "sec" | "second" => "1s",
        "m" | "min" | "minute" => "1m",
        "h" | "hour" => "1h",
        "d" | "day" => "1d",
        _ if !number.is_empty() && rest.is_empty() => return format!("add the time: `{number}/1s` or `{number}/1m`"),
        _ => return USUAL.to_owned(),
    };
    if number.is_empty() { USUAL.to_owned() } else { format!("write `{number}/{unit}`") }
}

#[cfg(test)]
mod tests {
    use super::super::rate::*;

    #[test]
    fn a_rate_is_a_number_and_a_time() {
        let seconds = |text| parse(text).map(|rate| (rate.requests, rate.window.as_secs()));
        assert_eq!(seconds("100/1m"), Ok((100, 60)));
        assert_eq!(seconds("100/m"), Ok((100, 60)));
        assert_eq!(seconds("5/30s"), Ok((5, 30)));
        assert_eq!(seconds("100000 / 1d"), Ok((100_000, 86_400)));
    }

    #[test]
    fn what_is_no_rate_is_told_with_what_to_write() {
        for (text, remedy) in [
            ("100", "add the time: `100/1s` or `100/1m`"),
            ("100r/s", "write `100/1s`"),
            ("10 per minute", "write `10/1m`"),
            ("10 requests/s", "write `10/1s`"),
            ("10/minute", "write `10/1m`"),
            ("10/2 hours", "write `10/2h`"),
            ("10/5", USUAL),
            ("1m/100", USUAL),
            ("1/0s", USUAL),
            ("20000000/1s", "the highest rate is `10000000/1s`"),
        ] {
            assert_eq!(parse(text), Err(remedy.to_owned()), "{text}");
        }
        assert!(parse("0/1s").is_err());
    }
}
