//! Answers to questions about what was counted.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::archive::ArchiveReader;
use super::counts::{BOUNDS, COLUMNS, Counts, milliseconds};
use super::row::{Row, TimeSpan, header};

/// The question of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Since when, in seconds since 1970.
    pub from: u64,
    /// Until when, without that moment.
    pub to: u64,
    /// How much time a row is for.
    pub span: TimeSpan,
    /// Whether a row is for all of the time instead; `span` then says how its ends are rounded.
    pub whole: bool,
    /// The subject of a row, besides its time.
    pub by: Grouping,
}

/// The grouping of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each route.
    Route,
    /// Each consumer, over all routes.
    Consumer,
    /// Each consumer of each route.
    Both,
    /// All requests together.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A line a row, its first one the names.
    Csv,
    /// A list of objects.
    Json,
}

/// Reads what is over from the rows of its span, and what is not from the rows of shorter ones.
pub fn answer(query: &Query, now: u64, reader: &ArchiveReader, current: Vec<Row>) -> Vec<Row> {
    let mut sums: BTreeMap<(u64, String, String), Counts> = BTreeMap::new();
    let mut add = |row: Row| {
        if !(query.from..query.to).contains(&row.time) {
            return;
        }
        let (route, consumer) = match query.by {
            Grouping::Route => (row.route, String::new()),
            Grouping::Consumer => (String::new(), row.consumer),
            Grouping::Both => (row.route, row.consumer),
            Grouping::All => Default::default(),
        };
        let time = if query.whole { query.from } else { query.span.begin(row.time) };
        sums.entry((time, route, consumer)).or_default().add(&row.counts);
    };
    let mut end = query.to;
    for span in TimeSpan::ALL.into_iter().rev().filter(|span| *span <= query.span) {
        // Longer spans end where the one that is not over begins; from there on shorter ones tell more.
        let until = match span {
            TimeSpan::Minute => query.to,
            span => span.begin(now).min(query.to),
        };
        let from = if span == query.span { query.from } else { end.max(query.from) };
        reader.read(span, from, until, &mut add);
        end = until;
    }
    current.into_iter().for_each(&mut add);
    let row = |((time, route, consumer), counts)| Row { time, route, consumer, counts };
    sums.into_iter().map(row).collect()
}

/// Rows as text.
pub fn csv(rows: &[Row]) -> String {
    let mut text = header();
    rows.iter().for_each(|row| row.write(&mut text));
    text
}

/// Rows as a list of objects.
pub fn json(rows: &[Row]) -> Value {
    rows.iter().map(object).collect()
}

fn object(row: &Row) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("time".into(), row.time.into());
    for (name, text) in [("route", &row.route), ("consumer", &row.consumer)] {
        if !text.is_empty() {
            object.insert(name.into(), text.as_str().into());
        }
    }
    for (name, number) in COLUMNS.iter().zip(row.counts.numbers()) {
        object.insert((*name).to_owned(), number.into());
    }
    for percent in [50, 95, 99] {
        object.insert(format!("p{percent}_ms"), json!(row.counts.percentile(percent)));
    }
    let bound = |at: usize| BOUNDS.get(at).map_or_else(|| "inf".to_owned(), |bound| milliseconds(*bound).to_string());
    let met = row.counts.durations.iter().enumerate().filter(|(_, count)| **count > 0);
    let durations: serde_json::Map<String, Value> = met.map(|(at, count)| (bound(at), json!(count))).collect();
    object.insert("durations_ms".into(), durations.into());
    object.into()
}

impl Query {
    /// Reads the query of a URL; `now` is when it is asked.
    ///
    /// # Errors
    /// The fault of the query, and what would be right.
    pub fn read(query: &str, now: u64) -> Result<(Query, ExportFormat), String> {
        let mut asked = Query {
            from: now.saturating_sub(3600),
            to: u64::MAX,
            span: TimeSpan::Minute,
            whole: false,
            by: Grouping::Route,
        };
        let (mut format, mut span) = (ExportFormat::Json, None);
        for (name, value) in
            query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        {
            match name {
                "last" => {
                    let length = length(value).ok_or_else(|| value_problem(name, value, "`90m`, `24h` or `7d`"))?;
                    asked.from = now.saturating_sub(length);
                }
                "from" | "to" => {
                    let moment = value.parse().map_err(|_| value_problem(name, value, "seconds since 1970"))?;
                    if name == "from" { asked.from = moment } else { asked.to = moment }
                }
                "span" if value == "all" => asked.whole = true,
                "span" => {
                    let named = TimeSpan::ALL.into_iter().find(|span| span.name() == value);
                    span = Some(named.ok_or_else(|| value_problem(name, value, "`minute`, `hour`, `day` or `all`"))?);
                }
                "by" => {
                    asked.by = match value {
                        "route" => Grouping::Route,
                        "consumer" => Grouping::Consumer,
                        "route,consumer" => Grouping::Both,
                        "all" => Grouping::All,
                        _ => return Err(value_problem(name, value, "`route`, `consumer`, `route,consumer` or `all`")),
                    }
                }
                "format" => {
                    format = match value {
                        "json" => ExportFormat::Json,
                        "csv" => ExportFormat::Csv,
                        _ => return Err(value_problem(name, value, "`json` or `csv`")),
                    }
                }
                _ => {
                    return Err(format!(
                        "`{name}` is not known; there are `last`, `from`, `to`, `span`, `by` and `format`"
                    ));
                }
            }
        }
        let time = asked.to.min(now).saturating_sub(asked.from);
        // By default no more than some hundred rows for each route.
        asked.span = span.unwrap_or(match time {
            0..=21_600 => TimeSpan::Minute,
            21_601..=1_209_600 => TimeSpan::Hour,
            _ => TimeSpan::Day,
        });
        // A span that has begun before is asked for as a whole.
        asked.from = asked.span.begin(asked.from);
        Ok((asked, format))
    }
}

fn value_problem(name: &str, value: &str, wanted: &str) -> String {
    let mut told = String::new();
    let _ = write!(told, "`{name}` is `{value}`; write {wanted}");
    told
}

/// A number with its unit, in seconds.
fn length(text: &str) -> Option<u64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => 86_400,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::super::report::*;

    #[test]
    fn a_question_is_read_and_a_wrong_one_is_told() {
        let now = 100 * 86_400 + 5000;
        let (query, format) = Query::read("", now).expect("good");
        assert_eq!((query.span, query.by, format), (TimeSpan::Minute, Grouping::Route, ExportFormat::Json));
        let (query, format) = Query::read("last=7d&by=consumer&format=csv", now).expect("good");
        assert_eq!((query.span, query.by, format), (TimeSpan::Hour, Grouping::Consumer, ExportFormat::Csv));
        assert_eq!(query.from, 93 * 86_400 + 3600);
        for (wrong, wanted) in [
            ("last=7", "`last` is `7`; write `90m`, `24h` or `7d`"),
            ("span=week", "`span` is `week`; write `minute`, `hour`, `day` or `all`"),
            ("by=path", "`by` is `path`; write `route`, `consumer`, `route,consumer` or `all`"),
            ("since=1", "`since` is not known; there are `last`, `from`, `to`, `span`, `by` and `format`"),
            ("last=\u{e9}", "`last` is `\u{e9}`; write `90m`, `24h` or `7d`"),
        ] {
            assert_eq!(Query::read(wrong, now), Err(wanted.to_owned()));
        }
    }
}
