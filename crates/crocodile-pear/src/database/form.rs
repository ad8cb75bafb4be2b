//! The forms that texts must have for a type. PostgreSQL reads more than these, as `now` for a date.

/// 8-4-4-4-12 hexadecimal digits.
pub(super) fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(fits)
}

/// A number in decimal digits, with an exponent or without.
pub(super) fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(number, rest)| (number, Some(rest)));
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, rest)| (whole, Some(rest)));
    digits(whole)
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|rest| digits(rest.strip_prefix(['-', '+']).unwrap_or(rest)))
}

/// The most digits of a number, as many as in a document that is read.
pub(super) const DIGITS: usize = 1000;

/// Whether JSON has a number of more digits, when they are written without an exponent: `jsonb` gives them back so.
pub(super) fn has_endless_number(json: &[u8]) -> bool {
    let (mut at, mut text) = (0, false);
    while let Some(byte) = json.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => text = !text,
            b'0'..=b'9' if !text => {
                let rest = &json[at..];
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                if places(&rest[..length]) > DIGITS {
                    return true;
                }
                at += length;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// The most digits of a number that is written without an exponent.
fn places(number: &[u8]) -> usize {
    let end = number.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(number.len());
    let exponent = std::str::from_utf8(&number[end..]).unwrap_or_default().trim_start_matches(['e', 'E', '+', '-']);
    let exponent = if exponent.is_empty() { 0 } else { exponent.parse().unwrap_or(usize::MAX) };
    end.saturating_add(exponent)
}

/// `2024-05-31`, with years of more digits too; also without an end.
pub(super) fn is_date(text: &str) -> bool {
    is_endless(text) || is_day(text.strip_suffix(" BC").unwrap_or(text))
}

/// A date and a time without an offset.
pub(super) fn is_local(text: &str) -> bool {
    is_endless(text) || parts(text).is_some_and(|(day, time)| is_day(day) && is_time(time))
}

/// A date and a time with an offset (RFC 3339).
pub(super) fn is_moment(text: &str) -> bool {
    is_endless(text) || parts(text).is_some_and(|(day, time)| is_day(day) && is_time_with_zone(time))
}

/// `12:30`, `12:30:00`, `12:30:00.5`
pub(super) fn is_time(text: &str) -> bool {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, rest)| (clock, Some(rest)));
    let fields = clock.split(':').count();
    let fraction = fraction.is_none_or(|rest| fields == 3 && !rest.is_empty() && is_digits(rest));
    matches!(fields, 2 | 3) && clock.split(':').all(|field| field.len() == 2 && is_digits(field)) && fraction
}

/// The same with `Z`, `+02:00` or the like.
pub(super) fn is_time_with_zone(text: &str) -> bool {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return is_time(time);
    }
    let Some(at) = text.rfind(['+', '-']) else { return false };
    let offset = &text[at + 1..];
    is_time(&text[..at]) && !offset.contains('.') && is_time(offset)
}

/// ISO 8601: `P1Y2M3DT4H5M6.5S`.
pub(super) fn is_interval(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else { return false };
    let (days, time) = rest.split_once('T').map_or((rest, None), |(days, time)| (days, Some(time)));
    let time = time.map(|time| count(time, "HMS"));
    match (count(days, "YMWD"), time) {
        (Some(0), None | Some(Some(0))) => false,
        (Some(_), None) => true,
        (Some(_), Some(Some(parts))) => parts > 0,
        _ => false,
    }
}

/// How many numbers with these units follow, in this order; `None` if something else follows.
fn count(mut text: &str, units: &str) -> Option<usize> {
    let mut units = units.chars();
    let mut parts = 0;
    while !text.is_empty() {
        let end = text.find(|c: char| c.is_ascii_alphabetic())?;
        let unit = text[end..].chars().next()?;
        units.by_ref().find(|known| *known == unit)?;
        let number = &text[..end];
        if !is_number(number.strip_prefix('+').unwrap_or(number)) {
            return None;
        }
        (text, parts) = (&text[end + 1..], parts + 1);
    }
    Some(parts)
}

fn is_endless(text: &str) -> bool {
    matches!(text, "infinity" | "-infinity")
}

/// The date and the time, separated as RFC 3339 allows it.
fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix(" BC").unwrap_or(text).split_once(['T', 't', ' '])
}

fn is_day(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut field = |least: usize, most: usize| {
        fields.next().is_some_and(|field| (least..=most).contains(&field.len()) && is_digits(field))
    };
    // Years up to those that PostgreSQL has.
    field(4, 7) && field(2, 2) && field(2, 2) && fields.next().is_none()
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_measured_as_jsonb_writes_them() {
        for json in ["1e999", "[1.5e-900,2]", "\"1e100000\"", "{\"1e5000\":\"\\\"1e5000\"}", "1"] {
            assert!(!has_endless_number(json.as_bytes()), "{json}");
        }
        for json in ["1e1000", "[1,2e-1000]", "{\"a\":1E+100000}", "\"\\\\\",1e99999999999999999999999999"] {
            assert!(has_endless_number(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn each_form_takes_its_own() {
        let check = |is: fn(&str) -> bool, good: &[&str], bad: &[&str]| {
            good.iter().for_each(|text| assert!(is(text), "{text}"));
            bad.iter().for_each(|text| assert!(!is(text), "{text}"));
        };
        check(is_uuid, &["6a2f41a3-c54c-fce8-32d2-0324e1c32e22"], &["6a2f41a3c54cfce832d20324e1c32e22", "", "{}"]);
        check(is_number, &["0", "-1.5", "1e400", "1.5E-3"], &["", "-", "1.", ".5", "0x1", "1e", "1 ", "NaN", "1_000"]);
        check(
            is_date,
            &["2024-05-31", "0044-03-15 BC", "294276-01-01", "infinity"],
            &["today", "2024-5-1", "24-05-31", "2024-05-31x"],
        );
        check(is_local, &["2024-05-31T12:00:00", "2024-05-31 12:00"], &["2024-05-31", "2024-05-31T12:00:00Z", "now"]);
        check(
            is_moment,
            &["2024-05-31T12:00:00.123456Z", "2024-05-31T12:00:00+02:00", "0044-03-15T00:00:00Z BC"],
            &["2024-05-31T12:00:00", "2024-05-31T12:00:00 CET"],
        );
        check(is_time, &["24:00:00", "12:30", "12:30:00.5"], &["12", "12:3", "12:30.5", "allballs"]);
        check(is_time_with_zone, &["12:30:00+02:00", "12:30Z"], &["12:30:00", "12:30:00+2"]);
        check(
            is_interval,
            &["P1Y2M3DT4H5M6.5S", "P-1D", "PT0S", "P1W"],
            &["P", "PT", "1 day", "P1S", "P1DT", "PD", "P1D2Y"],
        );
    }
}
