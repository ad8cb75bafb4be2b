//! A row: when, what, by whom, how much. As text it is a line of CSV, in files as in reports.

use std::fmt::Write;

use crocodile_pear::unstable::format::csv;

use super::counts::{BOUNDS, COLUMNS, Counts, milliseconds};

/// How much time one row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeSpan {
    Minute,
    Hour,
    /// A day, of UTC.
    Day,
}

impl TimeSpan {
    /// All, the shortest first.
    pub const ALL: [TimeSpan; 3] = [TimeSpan::Minute, TimeSpan::Hour, TimeSpan::Day];

    /// Its length in seconds.
    pub fn seconds(self) -> u64 {
        match self {
            TimeSpan::Minute => 60,
            TimeSpan::Hour => 3600,
            TimeSpan::Day => 86_400,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            TimeSpan::Minute => "minute",
            TimeSpan::Hour => "hour",
            TimeSpan::Day => "day",
        }
    }

    /// When the one began that this moment is in.
    pub fn begin(self, moment: u64) -> u64 {
        moment - moment % self.seconds()
    }
}

/// The counts of one route and one consumer in one span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When its span began, in seconds since 1970.
    pub time: u64,
    /// The endpoint; empty for requests that none served.
    pub route: String,
    /// Whose requests they are; empty where that is not asked.
    pub consumer: String,
    /// How many, and how they went.
    pub counts: Counts,
}

/// The first line of a file and of a report.
pub fn header() -> String {
    format!("time,route,consumer,{},durations\n", COLUMNS.join(","))
}

impl Row {
    /// Writes it as a line.
    pub fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", self.time);
        for text in [&self.route, &self.consumer] {
            let guard = if is_quoted(text) || csv::is_formula(text) { "'" } else { "" };
            let _ = write!(out, ",\"{guard}{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "));
        }
        for number in self.counts.numbers() {
            let _ = write!(out, ",{number}");
        }
        out.push(',');
        let met = self.counts.durations.iter().enumerate().filter(|(_, count)| **count > 0);
        for (nth, (at, count)) in met.enumerate() {
            let space = if nth == 0 { "" } else { " " };
            match BOUNDS.get(at) {
                Some(bound) => drop(write!(out, "{space}{}:{count}", milliseconds(*bound))),
                None => drop(write!(out, "{space}inf:{count}")),
            }
        }
        out.push('\n');
    }

    /// Reads a line; nothing for one that is broken, as the last one may be after a crash.
    pub fn read(line: &str) -> Option<Row> {
        let (time, rest) = line.split_once(',')?;
        let (route, rest) = quoted(rest)?;
        let (consumer, rest) = quoted(rest)?;
        let mut counts = Counts::default();
        let mut fields = rest.split(',');
        for number in counts.numbers_mut() {
            *number = fields.next()?.parse().ok()?;
        }
        for met in fields.next()?.split(' ').filter(|met| !met.is_empty()) {
            let (bound, count) = met.split_once(':')?;
            let at = match bound {
                "inf" => BOUNDS.len(),
                bound => BOUNDS.binary_search_by_key(&bound.parse().ok()?, |bound| milliseconds(*bound)).ok()?,
            };
            counts.durations[at] = count.parse().ok()?;
        }
        (fields.next().is_none()).then_some(Row { time: time.parse().ok()?, route, consumer, counts })
    }
}

/// Whether a text begins as a guarded one does.
fn is_quoted(text: &str) -> bool {
    text.starts_with('\'') && csv::is_formula(text.trim_start_matches('\''))
}

/// The text as it was counted.
fn unguarded(text: &str) -> &str {
    if is_quoted(text) { &text[1..] } else { text }
}

/// A quoted field, and what follows its comma.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let end = from + text[from..].find('"')?;
        match text.as_bytes().get(end + 1)? {
            b'"' => from = end + 2,
            b',' => return Some((unguarded(&text[..end]).replace("\"\"", "\""), &text[end + 2..])),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crocodile_pear::unstable::telemetry::request_record::Totals;

    use super::super::row::*;
    use crate::telemetry::request_end::ended;

    #[test]
    fn a_name_is_no_formula_for_a_spreadsheet() {
        let names = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\u{ff1d}1", "'=1", "''-1", "'a", "a=1", "=\"x\"", ""];
        for name in names {
            let row = Row { time: 60, route: name.into(), consumer: name.into(), counts: Counts::default() };
            let mut line = String::new();
            row.write(&mut line);
            for field in line.split(",\"").skip(1) {
                assert!(!csv::is_formula(field), "{line}");
            }
            assert_eq!(Row::read(line.trim_end()), Some(row));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut counts = Counts::default();
        for milliseconds in [3, 80, 12_000] {
            let duration = Duration::from_millis(milliseconds);
            ended(200, duration, 7, |ended| counts.count(ended, &Totals::default()));
        }
        let row = Row { time: 60, route: "GET /a\"b,c".into(), consumer: "\",\n\"".into(), counts };
        let mut line = String::new();
        row.write(&mut line);
        assert_eq!(line.matches('\n').count(), 1);
        let read = Row::read(line.trim_end()).expect("whole");
        assert_eq!(read, Row { consumer: "\", \"".into(), ..row });
        for end in 1..line.len() - 1 {
            // A number that is cut is another number: only whole lines are read from files.
            let _ = Row::read(&line[..end]);
        }
        assert_eq!(Row::read("1,\"a\",b,1"), None);
        assert_eq!(Row::read(header().trim_end()), None);
    }
}
