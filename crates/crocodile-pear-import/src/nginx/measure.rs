//! Times, sizes and rates as nginx reads them.

use std::time::Duration;

/// A time: `1m30s`, `500ms`; a number without a unit is in seconds.
pub fn time(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units: [(&str, u64); 8] = [
            ("ms", 1),
            ("s", 1000),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", 86_400_000),
            ("w", 7 * 86_400_000),
            ("M", 30 * 86_400_000),
            ("y", 365 * 86_400_000),
        ];
        let (unit, factor) = match units.into_iter().find(|(unit, _)| rest.starts_with(unit)) {
            Some(found) => found,
            None if rest.is_empty() || rest.starts_with(' ') => ("", 1000),
            None => return None,
        };
        rest = rest[unit.len()..].trim_start();
        millis = millis.checked_add(number.checked_mul(factor)?)?;
    }
    Some(Duration::from_millis(millis))
}

/// A size in bytes: `10m`, `8k`, `1g`.
pub fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(digits) => (
            digits,
            match lower.as_bytes().last() {
                Some(b'k') => 1 << 10,
                Some(b'm') => 1 << 20,
                _ => 1 << 30,
            },
        ),
        None => (lower.as_str(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size as we write it.
pub fn bytes(size: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.iter().find(|(bits, _)| size >= 1 << bits && size.is_multiple_of(1 << bits));
    fits.map_or_else(|| size.to_string(), |(bits, unit)| format!("{}{unit}", size >> bits))
}

/// A rate as we write it: `10r/s` is `10/1s`.
pub fn rate(text: &str) -> Option<String> {
    let (number, unit) = text.split_once("r/")?;
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    matches!(unit, "s" | "m").then(|| format!("{number}/1{unit}"))
}

#[cfg(test)]
mod tests {
    use super::{bytes, rate, size, time};
    use crate::duration::write;

    #[test]
    fn nginx_times_sizes_and_rates_are_read() {
        for (text, wanted) in
            [("60", Some("1m")), ("1m30s", Some("1m30s")), ("500ms", Some("500ms")), ("1d", Some("1d")), ("x", None)]
        {
            assert_eq!(time(text).map(write).as_deref(), wanted, "{text}");
        }
        assert_eq!(
            ["10m", "8K", "1g", "1500"].map(|text| size(text).map(bytes)).map(Option::unwrap_or_default),
            ["10MiB", "8KiB", "1GiB", "1500"]
        );
        assert_eq!((size("x"), rate("10r/s"), rate("0r/s")), (None, Some("10/1s".to_owned()), None));
    }
}
