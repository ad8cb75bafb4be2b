//! The periods of quotas: hours, days, weeks and months of the calendar, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::runtime::calendar::{Day, SECONDS};

crocodile_pear::unstable::choice! {
    /// The period of a quota, in UTC.
    pub enum Period {
        /// From the full hour.
        Hour = "hour",
        /// From midnight.
        Day = "day",
        /// From Monday.
        Week = "week",
        /// From the first of the month.
        Month = "month",
    }
}

/// A period with its place in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarPeriod {
    /// Its number: that of the next one is larger.
    pub number: u64,
    /// The seconds from its begin to its end.
    pub whole: u64,
    /// The seconds until its end, at least one.
    pub left: u64,
}

const HOUR: i64 = 3600;

/// The first of 1970 was a Thursday.
const MONDAY: i64 = 3;

impl Period {
    pub fn now(self) -> CalendarPeriod {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.at(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
    }

    /// The period of a moment, in seconds since 1970.
    fn at(self, now: i64) -> CalendarPeriod {
        let (number, begin, end) = match self {
            Period::Hour => even(now, HOUR),
            Period::Day => even(now, SECONDS),
            Period::Week => {
                let shift = MONDAY * SECONDS;
                let (number, begin, end) = even(now + shift, 7 * SECONDS);
                (number, begin - shift, end - shift)
            }
            Period::Month => {
                let first = Day { day: 1, ..Day::of_seconds(now) };
                let next = Day { month: first.month + 1, ..first };
                (first.year * 12 + first.month, first.number() * SECONDS, next.number() * SECONDS)
            }
        };
        let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
        CalendarPeriod { number: seconds(number), whole: seconds(end - begin), left: seconds(end - now).max(1) }
    }
}

/// The number, the begin and the end of a period of this length.
fn even(now: i64, length: i64) -> (i64, i64, i64) {
    let number = now.div_euclid(length);
    (number, number * length, (number + 1) * length)
}

#[cfg(test)]
mod tests {
    use super::super::period::*;

    #[test]
    fn periods_are_those_of_the_calendar() {
        // 2024-02-29, a Thursday, 23:59:58.
        let now = Day { year: 2024, month: 2, day: 29 }.number() * SECONDS + SECONDS - 2;
        let span = |period: Period| {
            let span = period.at(now);
            assert_eq!(period.at(now + i64::try_from(span.left).expect("a time")).number, span.number + 1);
            (span.whole, span.left)
        };
        assert_eq!(span(Period::Hour), (3600, 2));
        assert_eq!(span(Period::Day), (86_400, 2));
        assert_eq!(span(Period::Week), (7 * 86_400, 3 * 86_400 + 2));
        assert_eq!(span(Period::Month), (29 * 86_400, 2));
        // A year ends in the same second for all.
        let now = Day { year: 2025, month: 1, day: 1 }.number() * SECONDS;
        assert_eq!((Period::Month.at(now - 1).left, Period::Month.at(now).left), (1, 31 * 86_400));
    }
}
