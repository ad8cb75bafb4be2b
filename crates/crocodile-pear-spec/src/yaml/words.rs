//! The reader's faults in plain words.

use crate::problem::{Problems, Span};
use saphyr_parser::{Marker, ScanError};

use super::cause::{self, ProbableCause};

const QUOTE: &str = "put a text with `: `, ` #`, or one that begins with a sign, in quotes";

/// Messages of the YAML reader (a part of each), their meaning, and the remedy.
const WORDS: [(&str, &str, &str); 12] = [
    ("tab", "a tab: YAML needs spaces", "indent with spaces"),
    ("mapping values are not allowed", "a `:` where no value can begin", QUOTE),
    ("illegal placement of ':'", "a `:` where no value can begin", "is a `[`, a `{` or a quote above not closed?"),
    ("unknown anchor", "this alias is not defined", "write `&name` at what it stands for, above"),
    ("end of stream", "this quote is never closed", "close it; a `'` within `'…'` is written `''`"),
    ("flow mapping", "the `{` is not closed, or a `,` is missing", "a jq expression that begins with `{` needs quotes"),
    (
        "flow sequence",
        "the `[` is not closed, or a `,` is missing",
        "a jq expression that begins with `[` needs quotes",
    ),
    ("flow collection", "a `{` or `[` is not closed", "a jq expression that begins with one needs quotes"),
    ("expected key", "this line does not fit: a `key:` was wanted here", "check its indentation"),
    ("simple key", "this line does not fit: a `key:` was wanted here", "is a `:` missing? Check the indentation"),
    ("block collection", "this line does not fit its list", "check its indentation"),
    ("recursion limit", "too many `[` and `{` lie in each other here", ""),
];

/// Tells why a file cannot be read; `opened` is the innermost bracket that is not closed.
pub fn tell<T>(
    file: u32,
    source: &[char],
    opened: Option<Span>,
    fault: &ScanError,
    problems: &mut Problems,
) -> Option<T> {
    if let Some(cause) = cause::find(source, opened, fault) {
        return note(file, cause, problems);
    }
    let mut span = place(file, source, fault.marker());
    if let Some(sign) = fault.info().strip_prefix("unexpected character: ") {
        let sign = sign.trim_matches('\'').trim_start_matches('`');
        return refuse(span, sign, &rest_of_text(source, opened, fault), problems);
    }
    let known = WORDS.iter().find(|(part, _, _)| fault.info().contains(part));
    let (message, remedy) = known.map_or((fault.info(), ""), |(_, message, remedy)| (message, remedy));
    if let Some(opened) = opened.filter(|_| fault.info().contains("flow")) {
        span = opened;
    }
    problems.error(span, message, remedy)
}

pub fn note<T>(file: u32, cause: ProbableCause, problems: &mut Problems) -> Option<T> {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (line, column) = (number(cause.line), number(cause.column));
    problems.error(Span { file, line, column, length: number(cause.length) }, cause.message, cause.remedy)
}

/// A text that begins with a sign that means something to YAML.
fn refuse<T>(span: Span, sign: &str, text: &str, problems: &mut Problems) -> Option<T> {
    if sign.is_empty() {
        return problems.error(span, "a text cannot begin with a backtick", "write `'` for each backtick");
    }
    let message = format!("a text cannot begin with `{sign}`");
    problems.error(span, message, format!("put it in quotes: `'{text}'`"))
}

/// The text that begins where the parser stopped: to the end of its line, or of its place between brackets.
fn rest_of_text(source: &[char], opened: Option<Span>, fault: &ScanError) -> String {
    let rest = source.get(fault.marker().index()..).unwrap_or_default();
    let ends = |letter: &char| *letter == '\n' || opened.is_some() && ",]}".contains(*letter);
    let text: String = rest.iter().take_while(|letter| !ends(letter)).collect();
    text.trim_end().to_owned()
}

/// Where a fault is: the tab before it if that is what is refused, and at the end of the file its last word.
fn place(file: u32, source: &[char], marker: &Marker) -> Span {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let span = Span { file, line: number(marker.line()), column: number(marker.col() + 1), length: 1 };
    let before = marker.index().checked_sub(1).and_then(|before| source.get(before));
    if before == Some(&'\t') && marker.col() > 0 {
        return Span { column: span.column - 1, ..span };
    }
    let rest = source.get(marker.index()..).unwrap_or_default();
    let last = source.iter().rposition(|letter| !letter.is_whitespace());
    match last {
        Some(last) if rest.iter().all(|letter| letter.is_whitespace()) && last < marker.index() => {
            let line = source[..last].iter().filter(|letter| **letter == '\n').count() + 1;
            let column = source[..=last].iter().rev().take_while(|letter| **letter != '\n').count();
            Span { line: number(line), column: number(column), ..span }
        }
        _ => span,
    }
}
