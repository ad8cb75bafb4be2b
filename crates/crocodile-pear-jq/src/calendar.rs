//! The Gregorian calendar, before 1582 too: days and their dates (Howard Hinnant, "chrono-compatible low-level date
//! algorithms").

use std::fmt;

/// Seconds of a day.
pub const SECONDS: i64 = 86_400;

/// A day by its date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    /// The year; 0 is before 1, without a year of its own in history.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
}

/// Days from the first of March of the year 0 to 1970. A year begins in March here, so that a leap day is its last.
const EPOCH: i64 = 719_468;

/// Days of 400 years, after which everything repeats.
const ERA: i64 = 146_097;

impl Day {
    /// The day so many days after the first of 1970.
    #[inline]
    pub fn at(number: i64) -> Self {
        let days = number.saturating_add(EPOCH);
        let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = (from_march + 2) % 12 + 1;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        Day { year: year + era * 400 + i64::from(month <= 2), month, day }
    }

    /// The day of a moment, in seconds since 1970.
    #[inline]
    pub fn of_seconds(seconds: i64) -> Self {
        Day::at(seconds.div_euclid(SECONDS))
    }

    /// Days after the first of 1970. A month or a day beyond its range counts on from there.
    #[inline]
    pub fn number(self) -> i64 {
        let months = self.month - 1;
        let year = self.year + months.div_euclid(12);
        let month = months.rem_euclid(12) + 1;
        let year = if month <= 2 { year - 1 } else { year };
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + self.day - 1;
        era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
    }

    /// Whether there is such a day.
    pub fn exists(self) -> bool {
        (1..=12).contains(&self.month) && (1..=31).contains(&self.day) && Day::at(self.number()) == self
    }
}

impl fmt::Display for Day {
    /// Writes the date as ISO 8601 has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::super::calendar::*;

    #[test]
    fn every_day_of_eight_centuries_has_its_number() {
        let mut day = Day { year: 1599, month: 12, day: 31 };
        for number in day.number()..Day::number(Day { year: 2401, month: 1, day: 1 }) {
            assert_eq!((Day::at(number), day.number()), (day, number));
            assert!(day.exists());
            let next = [
                Day { day: day.day + 1, ..day },
                Day { month: day.month + 1, day: 1, ..day },
                Day { year: day.year + 1, month: 1, day: 1 },
            ];
            day = next.into_iter().find(|next| next.exists()).expect("there is a next day");
        }
    }

    #[test]
    fn days_are_written_as_people_write_them() {
        for (seconds, wanted) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (4_107_542_400, "2100-03-01"),
            (-62_135_596_800, "0001-01-01"),
            (253_402_300_800, "10000-01-01"),
        ] {
            assert_eq!(Day::of_seconds(seconds).to_string(), wanted);
        }
    }

    #[test]
    fn a_day_that_is_none_does_not_exist() {
        for (year, month, day) in
            [(2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 13, 1), (2024, 0, 1), (2024, 1, 0), (2024, 1, 32)]
        {
            assert!(!Day { year, month, day }.exists(), "{year}-{month}-{day}");
        }
        assert_eq!(Day { year: 2023, month: 14, day: 0 }.number(), Day { year: 2024, month: 1, day: 31 }.number());
    }
}
