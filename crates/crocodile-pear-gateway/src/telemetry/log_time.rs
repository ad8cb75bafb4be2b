//! The time of day as log lines have it, in UTC.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::runtime::calendar::Day;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment, ready to be written.
#[derive(Clone, Copy)]
pub struct Timestamp {
    second: u64,
    micros: u32,
    /// `2026-11-22T18:51:15.123456Z`
    rfc3339: [u8; 27],
    /// `22/Nov/2026:18:51:15 +0000`
    common: [u8; 26],
}

thread_local! {
    /// The second that this thread last wrote: the calendar is asked once for each.
    static LAST: RefCell<Timestamp> = const {
        RefCell::new(Timestamp { second: u64::MAX, micros: 0, rfc3339: [b'0'; 27], common: [b'0'; 26] })
    };
}

pub fn now() -> Timestamp {
    at(SystemTime::now())
}

/// This moment.
pub fn at(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    LAST.with_borrow_mut(|last| {
        if last.second != since.as_secs() {
            *last = Timestamp::from_second(since.as_secs());
        }
        last.micros = since.subsec_micros();
        let mut rest = last.micros;
        for at in (20..26).rev() {
            last.rfc3339[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        *last
    })
}

impl Timestamp {
    fn from_second(second: u64) -> Self {
        // A year of four digits: the forms end there.
        let seconds = second.min(253_402_300_799);
        let date = Day::of_seconds(seconds.cast_signed());
        let clock = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let month = MONTHS[(date.month as usize - 1) % 12];
        let (mut rfc3339, mut common) = ([b'0'; 27], [b'0'; 26]);
        rfc3339.copy_from_slice(format!("{date}T{clock}.000000Z").as_bytes());
        common.copy_from_slice(format!("{:02}/{month}/{:04}:{clock} +0000", date.day, date.year).as_bytes());
        Timestamp { second, micros: 0, rfc3339, common }
    }

    /// The time as RFC 3339 has it, with microseconds.
    pub fn rfc3339(&self) -> &str {
        std::str::from_utf8(&self.rfc3339).unwrap_or_default()
    }

    /// The same, as bytes.
    pub fn rfc3339_digits(&self) -> &[u8] {
        &self.rfc3339
    }

    /// The time as the NCSA's common log format has it.
    pub fn common(&self) -> &str {
        std::str::from_utf8(&self.common).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::log_time::*;

    #[test]
    fn a_moment_is_written_as_logs_have_it() {
        let moment = |seconds, micros: u32| at(UNIX_EPOCH + Duration::new(seconds, micros * 1000));
        let one = moment(971_211_336, 42);
        assert_eq!((one.rfc3339(), one.common()), ("2000-10-10T20:55:36.000042Z", "10/Oct/2000:20:55:36 +0000"));
        let leap = moment(1_709_164_800, 999_999);
        assert_eq!((leap.rfc3339(), leap.common()), ("2024-02-29T00:00:00.999999Z", "29/Feb/2024:00:00:00 +0000"));
        assert_eq!(moment(0, 0).common(), "01/Jan/1970:00:00:00 +0000");
        assert_eq!(moment(u64::from(u32::MAX) * 1000, 0).common(), "31/Dec/9999:23:59:59 +0000");
    }
}
