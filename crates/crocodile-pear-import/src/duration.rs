//! Durations: as Go reads them, and as our configuration writes them.

use std::time::Duration;

/// Go's `time.ParseDuration`, for what is not negative.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = rest[digits..].split_at(unit.unwrap_or(rest.len() - digits));
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number * factor;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// The shortest form: `1h30m`, `2s`, `1500ms`.
pub fn write(duration: Duration) -> String {
    let micros = duration.as_micros().max(1);
    if !micros.is_multiple_of(1000) {
        return format!("{micros}us");
    }
    let millis = micros / 1000;
    if !millis.is_multiple_of(1000) {
        return format!("{millis}ms");
    }
    let seconds = millis / 1000;
    let parts = [(seconds / 86400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    parts.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{parse, write};

    #[test]
    fn durations_are_read_as_go_does_and_written_short() {
        for (text, wanted) in [
            ("2s", Some("2s")),
            ("1h30m", Some("1h30m")),
            ("1.5s", Some("1500ms")),
            ("3000ms", Some("3s")),
            ("100us", Some("100us")),
            ("24h", Some("1d")),
            ("2", None),
            ("", None),
            ("2 s", None),
            ("s", None),
            ("-1s", None),
        ] {
            assert_eq!(parse(text).map(write).as_deref(), wanted, "{text}");
        }
        assert_eq!(parse("0"), Some(std::time::Duration::ZERO));
    }
}
