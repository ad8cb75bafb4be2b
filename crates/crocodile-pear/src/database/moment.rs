//! Dates and times of PostgreSQL, as ISO 8601 and RFC 3339 have them.

use std::io::Write;

use crate::runtime::calendar::Day;

const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400 * MICROS;

/// Days from 1970 to 2000-01-01, where PostgreSQL begins to count.
const EPOCH: i64 = 10_957;

type WriteResult = Result<(), Garbled>;

/// A date by its days since 2000.
pub(super) fn date(days: i32, out: &mut Vec<u8>) -> WriteResult {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        days => {
            let era = day(i64::from(days), out);
            out.extend_from_slice(era);
        }
    }
    Ok(())
}

/// A moment by its microseconds since 2000.
pub(super) fn timestamp(micros: i64, zone: &str, out: &mut Vec<u8>) -> WriteResult {
    match micros {
        i64::MAX => out.extend_from_slice(b"infinity"),
        i64::MIN => out.extend_from_slice(b"-infinity"),
        micros => {
            let era = day(micros.div_euclid(DAY), out);
            out.push(b'T');
            clock(micros.rem_euclid(DAY), out);
            out.extend_from_slice(zone.as_bytes());
            out.extend_from_slice(era);
        }
    }
    Ok(())
}

/// A time of the day by its microseconds.
pub(super) fn time(micros: i64, out: &mut Vec<u8>) -> WriteResult {
    // Up to 24:00:00.
    if !(0..=DAY).contains(&micros) {
        return Err(Garbled);
    }
    clock(micros, out);
    Ok(())
}

/// The same with the seconds west of Greenwich.
pub(super) fn time_with_zone(bytes: [u8; 12], out: &mut Vec<u8>) -> WriteResult {
    let [a, b, c, d, e, f, g, h, zone @ ..] = bytes;
    time(i64::from_be_bytes([a, b, c, d, e, f, g, h]), out)?;
    let east = -i64::from(i32::from_be_bytes(zone));
    let (sign, seconds) = if east < 0 { ('-', -east) } else { ('+', east) };
    // Writing to a vector does not fail.
    let _ = write!(out, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if seconds % 60 > 0 {
        let _ = write!(out, ":{:02}", seconds % 60);
    }
    Ok(())
}

/// A length of time: microseconds, days and months, each with its sign. As PostgreSQL writes it for `iso_8601`.
pub(super) fn interval(bytes: [u8; 16], out: &mut Vec<u8>) -> WriteResult {
    let [a, b, c, d, e, f, g, h, i, j, k, l, months @ ..] = bytes;
    let micros = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let (days, months) = (i32::from_be_bytes([i, j, k, l]), i32::from_be_bytes(months));
    let part = |out: &mut Vec<u8>, number: i64, unit: char| {
        if number != 0 {
            let _ = write!(out, "{number}{unit}");
        }
    };
    out.push(b'P');
    part(out, i64::from(months / 12), 'Y');
    part(out, i64::from(months % 12), 'M');
    part(out, i64::from(days), 'D');
    let (seconds, fraction) = (micros / MICROS % 60, micros % MICROS);
    if micros != 0 {
        out.push(b'T');
        part(out, micros / (3600 * MICROS), 'H');
        part(out, micros / (60 * MICROS) % 60, 'M');
        if seconds != 0 || fraction != 0 {
            let sign = if micros < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{}", seconds.abs());
            decimals(fraction.abs(), out);
            out.push(b'S');
        }
    } else if (days, months) == (0, 0) {
        out.extend_from_slice(b"T0S");
    }
    Ok(())
}

/// A day of the Gregorian calendar; gives what must stand behind it all, before the year 1.
fn day(days: i64, out: &mut Vec<u8>) -> &'static [u8] {
    let Day { year, month, day } = Day::at(days + EPOCH);
    let (shown, behind): (i64, &[u8]) = if year > 0 { (year, b"") } else { (1 - year, b" BC") };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}");
    behind
}

fn clock(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros / MICROS;
    let two = |out: &mut Vec<u8>, number: i64| out.extend([b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
    two(out, seconds / 3600);
    out.push(b':');
    two(out, seconds / 60 % 60);
    out.push(b':');
    two(out, seconds % 60);
    decimals(micros % MICROS, out);
}

/// Microseconds without the zeros at their end.
fn decimals(micros: i64, out: &mut Vec<u8>) {
    if micros > 0 {
        let _ = write!(out, ".{micros:06}");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Bytes that are no value of their type.
#[derive(Debug, PartialEq)]
pub(super) struct Garbled;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> WriteResult) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("sound");
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [0, -1, 59, 60, 366, 8_889, -730_119, -730_120, i32::MAX, i32::MIN];
        let texts = days.map(|days| text(|out| date(days, out)));
        assert_eq!(texts[..4], ["2000-01-01", "1999-12-31", "2000-02-29", "2000-03-01"]);
        assert_eq!(texts[4..8], ["2001-01-01", "2024-05-03", "0001-01-01", "0001-12-31 BC"]);
        assert_eq!(texts[8..], ["infinity", "-infinity"]);
    }

    #[test]
    fn moments_have_their_microseconds() {
        assert_eq!(text(|out| timestamp(-1, "Z", out)), "1999-12-31T23:59:59.999999Z");
        assert_eq!(text(|out| timestamp(1_500_000, "", out)), "2000-01-01T00:00:01.5");
        assert_eq!(text(|out| time(DAY, out)), "24:00:00");
    }

    #[test]
    fn lengths_of_time_keep_their_signs() {
        let length = |micros: i64, days: i32, months: i32| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&micros.to_be_bytes());
            bytes[8..12].copy_from_slice(&days.to_be_bytes());
            bytes[12..].copy_from_slice(&months.to_be_bytes());
            text(|out| interval(bytes, out))
        };
        assert_eq!(length(0, 0, 0), "PT0S");
        assert_eq!(length(14_706_500_000, 3, 14), "P1Y2M3DT4H5M6.5S");
        assert_eq!(length(-500_000, -3, -14), "P-1Y-2M-3DT-0.5S");
        assert_eq!(length(3_600_000_000, 0, 0), "PT1H");
    }
}
