//! The findings of a probe, as people read them on 80 columns.

use std::fmt::Write;
use std::time::Duration;

use crocodile_pear::unstable::net::tls::TlsVersion;

use crate::certificate::Certificate;
use crate::found::ProbeResult;
use crate::keep::{ConnectionLimits, IdleTime, RequestCount, Resumed};
use crate::link::ServerClose;
use crate::measure::Cell;
use crate::measure::part;
use crate::trouble::{TroubleCause, milliseconds, span};
use crate::trust::Verify;
use crate::way::Http;

/// Columns of a line.
const WIDTH: usize = 79;
/// Columns of a row's name.
const NAME: usize = 15;
/// Columns of a name in the table of times, and of each time.
const ROW: usize = 23;
const TIME: usize = 7;

/// Names of a certificate that are told; it may have a hundred.
const NAMES: usize = 3;

/// The text; empty without findings.
pub fn write(found: &ProbeResult) -> String {
    if found.offers.is_empty() {
        return String::new();
    }
    let mut text = format!("GET {}\n\n", found.target.url());
    for (name, told) in rows(found) {
        text += &row(name, &told);
    }
    for (number, kept) in found.kept.iter().enumerate() {
        let name = if number == 0 { "connections" } else { "" };
        let first = format!("  {name:13}{:10}", kept.http.label());
        text += &wrapped(&first, &" ".repeat(first.len()), &connections(kept));
    }
    text += &times(found);
    for note in &found.notes {
        text += &wrapped("note: ", "      ", note);
    }
    if let Some(advice) = &found.advice {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}\n{}", wrapped("Advice: ", "", &format!("{}.", advice.why)), advice.yaml);
    }
    text
}

/// The problems, one after the other, each with its remedy.
pub fn problems(found: &ProbeResult) -> String {
    let mut text = String::new();
    for problem in &found.problems {
        text += &wrapped("error: ", "  ", &problem.what);
        if let Some(certificate) = found.certificate.as_ref().filter(|_| problem.cause == TroubleCause::Distrusted) {
            text += &wrapped("  ", "  ", &format!("it is {}", told(certificate)));
        }
        if let Some(remedy) = &problem.remedy {
            text += &wrapped("  ", "  ", remedy);
        }
    }
    text
}

fn rows(found: &ProbeResult) -> Vec<(&'static str, String)> {
    let mut rows = vec![("address", address(found)), ("answer", answer(found)), ("HTTP", http(found))];
    if found.is_tls() {
        rows.push(("TLS", tls(found)));
        rows.push(("certificate", certificate(found)));
        rows.push((
            "sessions",
            found.resumed.iter().map(|resumed| session(found, resumed)).collect::<Vec<_>>().join("; "),
        ));
    }
    rows
}

fn address(found: &ProbeResult) -> String {
    let mut text = found.address.map_or_else(String::new, |address| address.to_string());
    if found.addresses.len() > 1 {
        let _ = write!(text, ", one of {}", found.addresses.len());
    }
    let named = found.target.host.parse::<std::net::IpAddr>().is_err();
    if let Some((cold, warm)) = found.resolve.filter(|_| named) {
        let _ = write!(text, "; resolved in {} ms, again in {} ms", milliseconds(cold), milliseconds(warm));
    }
    text
}

fn answer(found: &ProbeResult) -> String {
    let (status, bytes) = (found.status().unwrap_or_default(), found.bytes().unwrap_or_default());
    format!("{status}, {bytes} bytes")
}

/// `a, b; not c`
fn offered(all: impl Iterator<Item = (String, bool)>) -> String {
    let (yes, no): (Vec<_>, Vec<_>) = all.partition(|(_, offered)| *offered);
    let names = |list: Vec<(String, bool)>| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    match no.is_empty() {
        true => names(yes),
        false => format!("{}; not {}", names(yes), names(no)),
    }
}

fn http(found: &ProbeResult) -> String {
    let name = |http| match (http, found.is_tls()) {
        (Http::One, _) if found.answers_10() => "HTTP/1.0",
        (Http::Two, false) => "HTTP/2 (h2c)",
        _ => http.label(),
    };
    offered([Http::One, Http::Two].into_iter().map(|http| (name(http).to_owned(), found.offers_http(http))))
}

fn tls(found: &ProbeResult) -> String {
    let offers = |tls| found.ways().any(|way| way.tls == Some(tls));
    offered([TlsVersion::Tls12, TlsVersion::Tls13].into_iter().map(|tls| (tls.word().to_owned(), offers(tls))))
}

fn certificate(found: &ProbeResult) -> String {
    let told = found.certificate.as_ref().map_or_else(|| "unreadable".to_owned(), told);
    match (found.verify, &found.fault) {
        (Some(Verify::Strictly), _) => format!("verified: {told}"),
        (_, None) => format!("not verified, though it would be good: {told}"),
        (_, Some(fault)) => format!("NOT verified: {fault}; {told}"),
    }
}

fn told(certificate: &Certificate) -> String {
    let Certificate { names, issuer, from, until } = certificate;
    let more = names.len().saturating_sub(NAMES);
    let mut list = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    match (list.is_empty(), more) {
        (true, _) => list += "no name",
        (false, 0) => {}
        (false, more) => list += &format!(" and {more} more"),
    }
    format!("for {list}, by {issuer}, valid from {from} to {until}")
}

fn session(found: &ProbeResult, resumed: &Resumed) -> String {
    let version = resumed.tls.word();
    let Some(short) = part(resumed.handshakes.iter().copied(), 0.5) else {
        return format!("TLS {version} not resumed");
    };
    let cells = found.cells.iter().filter(|cell| cell.way.tls == Some(resumed.tls));
    match cells.filter_map(|cell| cell.tls()[0]).min() {
        Some(full) => {
            let (short, full) = (milliseconds(short), milliseconds(full));
            format!("TLS {version} resumed, {short} ms instead of {full}")
        }
        None => format!("TLS {version} resumed, {} ms", milliseconds(short)),
    }
}

fn connections(kept: &ConnectionLimits) -> String {
    let mut told = vec![match kept.requests {
        RequestCount { answered: 1, ended: Some(_) } => "closed after every answer".to_owned(),
        RequestCount { answered, ended: Some(ending) } => format!("closed after {answered} requests{}", way(ending)),
        RequestCount { answered, ended: None } => format!("still open after {answered} requests"),
    }];
    match kept.idle.filter(|_| kept.reusable()) {
        Some(IdleTime { time, ended: Some(ending) }) => {
            told.push(format!("closed after {} idle{}", span(time), way(ending)));
        }
        Some(IdleTime { time, ended: None }) => told.push(format!("still open after {} idle", span(time))),
        None => {}
    }
    let announced = [("timeout", kept.announced.timeout), ("max", kept.announced.max)];
    let announced = announced.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let announced = announced.collect::<Vec<_>>().join(", ");
    if !announced.is_empty() {
        told.push(format!("says Keep-Alive: {announced}"));
    }
    if let Some(most) = kept.streams {
        told.push(format!("{most} calls at once"));
    }
    told.join("; ")
}

fn way(ending: ServerClose) -> &'static str {
    match ending {
        ServerClose::Close => "",
        ServerClose::GoAway => " (GOAWAY)",
    }
}

fn times(found: &ProbeResult) -> String {
    let mut text = format!("\n  {:21}", "times in ms");
    for phase in ["connect", "TLS", "first byte", "total"] {
        let _ = write!(text, "{phase:>14}");
    }
    let _ = write!(text, "\n{:ROW$}", "");
    for _ in 0..4 {
        let _ = write!(text, "{:>TIME$}{:>TIME$}", "p50", "p99");
    }
    text.push('\n');
    for cell in &found.cells {
        let _ = write!(text, "  {:21}", cell.label());
        for time in [Cell::connect, Cell::tls, Cell::first, Cell::total].into_iter().flat_map(|phase| phase(cell)) {
            let _ = write!(text, "{:>TIME$}", time.map_or_else(|| "-".to_owned(), milliseconds));
        }
        text.push('\n');
    }
    text + &format!("  {}; took {} of at most {}\n", calls(found), span(found.took), whole(found.limit))
}

fn calls(found: &ProbeResult) -> String {
    match found.short() {
        None => format!("{} calls a row", found.calls),
        Some(fewest) => format!("{fewest} of {} calls a row", found.calls),
    }
}

fn whole(limit: Duration) -> String {
    crate::advice::written(limit)
}

fn row(name: &str, told: &str) -> String {
    wrapped(&format!("  {name:13}"), &" ".repeat(NAME), told)
}

/// Lines of at most the width, where there is a space to break at.
fn wrapped(first: &str, others: &str, text: &str) -> String {
    let mut lines = first.to_owned();
    let mut width = first.len();
    let mut begun = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if !begun && width + 1 + length > WIDTH {
            lines = format!("{lines}\n{others}{word}");
            width = others.len() + length;
        } else {
            let space = if begun { "" } else { " " };
            lines = format!("{lines}{space}{word}");
            width += space.len() + length;
        }
        begun = false;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_words_stay_whole() {
        let word = "x".repeat(90);
        let text = row("name", &format!("{} {word} end", "some words ".repeat(9).trim_end()));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  name         some words") && lines[0].len() <= WIDTH);
        assert!(lines.iter().skip(1).all(|line| line.starts_with("               ")));
        assert!(lines.iter().any(|line| line.trim() == word) && text.ends_with(" end\n"), "{text}");
    }
}
