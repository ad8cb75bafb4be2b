//! `Range` (RFC 9110, 14.2): one part of a file. A request for several parts gets the whole file, which is allowed.

/// The part of a file that is asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Ranged {
    Whole,
    /// From this byte on, so many.
    Part(u64, u64),
    /// No byte of it.
    Outside,
}

/// Reads the field for a file of this length. What is not a range is ignored.
pub fn read(field: &[u8], length: u64) -> Ranged {
    let text = std::str::from_utf8(field).ok().map(str::trim);
    let range =
        text.and_then(|text| text.get(..6).filter(|unit| unit.eq_ignore_ascii_case("bytes=")).map(|_| &text[6..]));
    let Some((first, last)) = range.and_then(|range| range.trim().split_once('-')) else { return Ranged::Whole };
    // Digits only: `parse` would take a sign as well.
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        true => Some(text.parse().unwrap_or(u64::MAX)),
        false => None,
    };
    match (first, number(first), last, number(last)) {
        (_, Some(first), "", _) if first < length => Ranged::Part(first, length - first),
        (_, Some(first), _, Some(last)) if first <= last && first < length => {
            Ranged::Part(first, last.min(length - 1) - first + 1)
        }
        (_, Some(first), _, Some(last)) if first > last => Ranged::Whole,
        (_, Some(_), "", _) | (_, Some(_), _, Some(_)) => Ranged::Outside,
        ("", _, _, Some(last)) if last > 0 && length > 0 => Ranged::Part(length - last.min(length), last.min(length)),
        ("", _, _, Some(_)) => Ranged::Outside,
        _ => Ranged::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_by_the_letter() {
        for (field, ranged) in [
            ("bytes=0-0", Ranged::Part(0, 1)),
            ("bytes=2-", Ranged::Part(2, 8)),
            ("bytes=2-100", Ranged::Part(2, 8)),
            ("bytes=-3", Ranged::Part(7, 3)),
            ("bytes=-100", Ranged::Part(0, 10)),
            ("bytes=10-", Ranged::Outside),
            ("bytes=10-11", Ranged::Outside),
            ("bytes=-0", Ranged::Outside),
            ("bytes=5-2", Ranged::Whole),
            ("bytes=0-1,3-4", Ranged::Whole),
            ("bytes=+1-2", Ranged::Whole),
            ("lines=1-2", Ranged::Whole),
            ("bytes=99999999999999999999-", Ranged::Outside),
            ("bytes=0-99999999999999999999", Ranged::Part(0, 10)),
        ] {
            assert_eq!(read(field.as_bytes(), 10), ranged, "{field}");
        }
    }
}
