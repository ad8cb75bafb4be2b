//! Moments, and the dates of HTTP (RFC 9110, 5.6.7).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::runtime::calendar::Day;

/// Milliseconds since 1970. Gateways that share a store compare them, so it is the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// So many seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Self {
        Moment(seconds.saturating_mul(1000))
    }

    /// How long ago `earlier` was; `None` if it is in the future.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// So much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Moment(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// So much earlier.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Moment(self.0.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Writes the moment as a date of HTTP.
    pub fn to_date(self) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(self.0))
    }
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Parses a date in one of the three forms, strictly except for upper and lower case.
pub fn parse(text: &[u8]) -> Option<Moment> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let (day, rest) = match text.split_once(", ") {
        Some((day, rest)) => (day, rest),
        None => return asctime(&text),
    };
    if DAYS.iter().any(|known| known[..3] == *day) { imf(rest) } else { rfc850(day, rest) }
}

/// `06 Nov 1994 08:49:37 GMT`
fn imf(text: &str) -> Option<Moment> {
    let parts: [&str; 5] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let [day, month, year, time, zone] = parts;
    moment(digits(year, 4)?, month, digits(day, 2)?, time).filter(|_| zone == "gmt")
}

/// `06-Nov-94 08:49:37 GMT`, with the day in full. A year that seems to be more than 50 years ahead is past.
fn rfc850(day: &str, text: &str) -> Option<Moment> {
    let parts: [&str; 3] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let [date, time, zone] = parts;
    let [date, month, year]: [&str; 3] = date.split('-').collect::<Vec<_>>().try_into().ok()?;
    let now = i64::try_from(Moment::now().0 / 1000).unwrap_or(i64::MAX);
    let (year, now) = (digits(year, 2)?, Day::of_seconds(now).year.unsigned_abs());
    let year = now - now % 100 + year;
    let year = if year > now + 50 { year - 100 } else { year };
    moment(year, month, digits(date, 2)?, time).filter(|_| zone == "gmt" && DAYS.contains(&day))
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &str) -> Option<Moment> {
    let (day, rest) = text.split_at_checked(4)?;
    let (month, rest) = rest.split_at_checked(4)?;
    let (date, rest) = rest.split_at_checked(3)?;
    let (time, year) = rest.split_once(' ')?;
    let date = date.strip_suffix(' ')?;
    let date = digits(date.strip_prefix(' ').unwrap_or(date), date.trim_start().len())?;
    let known = DAYS.iter().any(|known| day.strip_suffix(' ') == Some(&known[..3]));
    moment(digits(year, 4)?, month.strip_suffix(' ')?, date, time).filter(|_| known)
}

fn digits(text: &str, count: usize) -> Option<u64> {
    let sound = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| sound)
}

fn moment(year: u64, month: &str, day: u64, time: &str) -> Option<Moment> {
    let month = MONTHS.iter().position(|known| *known == month)? as i64 + 1;
    let [hour, minute, second]: [&str; 3] = time.split(':').collect::<Vec<_>>().try_into().ok()?;
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    let [year, day] = [year, day].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let date = Day { year, month, day };
    if !date.exists() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = u64::try_from(date.number()).ok()?;
    Some(Moment::of_seconds(((days * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::super::date::*;

    #[test]
    fn the_three_forms_are_one_moment() {
        let wanted = Some(Moment::of_seconds(784_111_777));
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "SUN, 06 nov 1994 08:49:37 gmt",
        ] {
            assert_eq!(parse(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(wanted.map(Moment::to_date).as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    }

    #[test]
    fn far_dates_are_read() {
        assert_eq!(parse(b"Mon, 18 Jan 2038 03:14:07 GMT"), Some(Moment::of_seconds(2_147_397_247)));
        assert_eq!(parse(b"Sun, 21 Nov 2286 04:46:39 GMT"), Some(Moment::of_seconds(10_000_039_599)));
        assert!(parse(b"Thu, 29 Feb 2024 00:00:00 GMT").is_some() && parse(b"Wed, 29 Feb 2023 00:00:00 GMT").is_none());
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        for text in [
            "",
            "0",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050  02:01:18  GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:19 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Foo, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
