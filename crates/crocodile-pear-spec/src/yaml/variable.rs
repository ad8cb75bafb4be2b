//! `${NAME}` and `${NAME:-default}` in scalars, filled from the environment: with text, never with more configuration.

use std::{borrow::Cow, sync::Arc};

use crate::problem::{Problems, Span};
use crate::settings::{Located, TextRun};

/// Where variables come from.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// A piece of text at a `$` that means something.
enum VariablePiece<'a> {
    /// `$${`: a `${` as it stands.
    Escape,
    /// A variable, and what it is if unset.
    Variable { name: &'a str, default: Option<&'a str>, length: usize },
}

/// Characters that mean something to YAML and may be in a variable, and their substitutes while YAML is read: characters that
/// Unicode keeps for a program's own use, so that no text has them.
const SHIELDS: [(char, char); 8] = [
    ('{', '\u{fdd0}'),
    ('}', '\u{fdd1}'),
    ('[', '\u{fdd2}'),
    (']', '\u{fdd3}'),
    (',', '\u{fdd4}'),
    (':', '\u{fdd5}'),
    ('#', '\u{fdd6}'),
    (' ', '\u{fdd7}'),
];

/// Keeps YAML from reading the braces of variables as its own, so that `{ limit: ${LIMIT} }` needs no quotes. Every
/// character keeps its place.
pub fn shield(text: &str) -> Cow<'_, str> {
    if !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let mut shielded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let length = match piece(&rest[at..]) {
            Some(VariablePiece::Variable { length, .. }) if !rest[at..at + length].contains('\n') => length,
            _ => 1,
        };
        shielded.push_str(&rest[..at]);
        shielded.extend(rest[at..at + length].chars().map(|letter| swap(letter, |(plain, shield)| (plain, shield))));
        rest = &rest[at + length..];
    }
    shielded.push_str(rest);
    Cow::Owned(shielded)
}

/// The text as it was before it was shielded.
pub fn unshield(text: Cow<'_, str>) -> String {
    if !text.contains(|letter| SHIELDS.iter().any(|(_, shield)| *shield == letter)) {
        return text.into_owned();
    }
    text.chars().map(|letter| swap(letter, |(plain, shield)| (shield, plain))).collect()
}

fn swap(letter: char, order: impl Fn((char, char)) -> (char, char)) -> char {
    let pair = SHIELDS.iter().map(|pair| order(*pair)).find(|(from, _)| *from == letter);
    pair.map_or(letter, |(_, to)| to)
}

/// Puts in the variables of a text; its places stay right. jq's `$name`, `{$x}` and a template's `{x}` are left alone.
pub fn fill(text: Located<String>, environment: &Environment<'_>, problems: &mut Problems) -> Located<String> {
    if !text.value.contains("${") {
        return text;
    }
    let mut filled = Filled { text: &text, value: String::new(), runs: Vec::new() };
    let mut copied = 0;
    let mut next = 0;
    while let Some(at) = text.value[next..].find('$').map(|found| found + next) {
        let Some(piece) = piece(&text.value[at..]) else {
            next = at + 1;
            continue;
        };
        filled.copy(copied, at);
        next = match piece {
            VariablePiece::Escape => {
                filled.put("${", filled.place(at, 3));
                at + 3
            }
            VariablePiece::Variable { name, default, length } => {
                let value = value(name, default, environment, text.at(at, length), problems);
                let place = filled.place(at, length);
                filled.put(&value.unwrap_or_default(), TextRun { inserted: Some(name.into()), ..place });
                at + length
            }
        };
        copied = next;
    }
    filled.copy(copied, text.value.len());
    let Filled { value, runs, .. } = filled;
    Located { value, span: text.span, runs: Some(Arc::from(runs)) }
}

/// The value of a variable. As in a shell, `:-` also replaces an empty value.
fn value(
    name: &str,
    default: Option<&str>,
    environment: &Environment<'_>,
    place: Span,
    problems: &mut Problems,
) -> Option<String> {
    let set = environment(name).filter(|value| !value.is_empty() || default.is_none());
    let Some(value) = set.or_else(|| default.map(str::to_owned)) else {
        let remedy = format!("set it in the environment, or give a default: `${{{name}:-…}}`");
        return problems.error(place, format!("the variable `{name}` is not set"), remedy);
    };
    if value.contains(['\n', '\r']) {
        let message = format!("the value of the variable `{name}` has a line break");
        return problems.error(place, message, "set it to a text of one line, without a line break at its end");
    }
    Some(value)
}

/// Reads what stands at the begin of a text that begins with `$`.
fn piece(text: &str) -> Option<VariablePiece<'_>> {
    if text.starts_with("$${") {
        return Some(VariablePiece::Escape);
    }
    let inner = text.strip_prefix("${")?;
    let end = inner.find(|letter: char| !matches!(letter, 'A'..='Z' | '0'..='9' | '_')).unwrap_or(inner.len());
    let (name, rest) = inner.split_at(end);
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    if rest.starts_with('}') {
        return Some(VariablePiece::Variable { name, default: None, length: end + 3 });
    }
    let (default, _) = rest.strip_prefix(":-")?.split_once('}')?;
    Some(VariablePiece::Variable { name, default: Some(default), length: end + 5 + default.len() })
}

/// A text while its variables are put in.
struct Filled<'a> {
    text: &'a Located<String>,
    value: String,
    runs: Vec<TextRun>,
}

impl Filled<'_> {
    /// Takes over a part as it is.
    fn copy(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let into = self.value.len();
        let runs = self.text.runs.as_deref().unwrap_or_default();
        if !runs.iter().any(|run| run.offset == from) {
            let span = self.text.at(from, 1);
            let run = TextRun { offset: into, line: span.line, column: span.column, written: 0, inserted: None };
            self.runs.push(run);
        }
        let inside = runs.iter().filter(|run| (from..to).contains(&run.offset));
        self.runs.extend(inside.map(|run| TextRun { offset: run.offset - from + into, ..run.clone() }));
        self.value.push_str(&self.text.value[from..to]);
    }

    /// The place of what is written, for a value that comes next.
    fn place(&self, at: usize, length: usize) -> TextRun {
        let span = self.text.at(at, length);
        let offset = self.value.len();
        TextRun { offset, line: span.line, column: span.column, written: span.length, inserted: None }
    }

    fn put(&mut self, value: &str, place: TextRun) {
        self.runs.push(place);
        self.value.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use crate::problem::{Problems, Span};
    use crate::settings::Located;

    use super::{fill, shield, unshield};

    fn filled(text: &str) -> (Located<String>, Problems) {
        let mut problems = Problems::default();
        let span = Span { file: 0, line: 3, column: 10, length: 1 };
        let environment = |name: &str| match name {
            "PORT" => Some("8080".to_owned()),
            "EMPTY" => Some(String::new()),
            "LINES" => Some("a\n".to_owned()),
            _ => None,
        };
        (fill(Located::new(text.to_owned(), span), &environment, &mut problems), problems)
    }

    #[test]
    fn variables_are_put_in_and_nothing_else_is() {
        for (text, wanted) in [
            ("${PORT}", "8080"),
            ("a:${PORT}/é${PORT}!", "a:8080/é8080!"),
            ("${HOST:-localhost}:${PORT:-1}", "localhost:8080"),
            ("${NOTHING:-}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:-1}", "1"),
            ("${PORT:-1}", "8080"),
            ("$${PORT}", "${PORT}"),
            (
                ". as $x | {$x} ${port} ${} $PORT {PORT} ${1A} ${PORT ${PORT-1}",
                ". as $x | {$x} ${port} ${} $PORT {PORT} ${1A} ${PORT ${PORT-1}",
            ),
        ] {
            let (text, problems) = filled(text);
            assert_eq!(text.value, wanted);
            assert!(!problems.fatal());
        }
    }

    #[test]
    fn an_unset_variable_is_told_with_its_place() {
        let (_, problems) = filled("http://${HOST}:${PORT}");
        let problems = problems.into_sorted();
        assert_eq!(problems[0].message, "the variable `HOST` is not set");
        assert_eq!(problems[0].span, Span { file: 0, line: 3, column: 17, length: 7 });
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_value_of_several_lines_is_refused() {
        let (_, problems) = filled("Bearer ${LINES}");
        let problems = problems.into_sorted();
        assert_eq!(problems[0].message, "the value of the variable `LINES` has a line break");
        assert_eq!((problems[0].span.column, problems[0].span.length, problems.len()), (17, 8, 1));
    }

    #[test]
    fn only_variables_are_shielded_and_keep_their_length() {
        for text in ["{ a: ${A}, b: [${B:-x, y: #}] } $${C}", "${A:-b\n}", "{a} $ ${a} é ${É}"] {
            let shielded = shield(text);
            assert_eq!(shielded.chars().count(), text.chars().count());
            assert_eq!(unshield(shielded), text);
        }
        assert_eq!(shield("{ a: ${A}, b: 1 }").matches(['{', '}', ',']).count(), 3);
        assert_eq!(shield("${A:-b\n}"), "${A:-b\n}");
    }

    #[test]
    fn what_was_inserted_is_known() {
        let (text, _) = filled("a ${PORT}${EMPTY} $${b}");
        let inserted: Vec<usize> = (0..text.value.len()).filter(|at| text.inserted(*at)).collect();
        assert_eq!((text.as_str(), inserted), ("a 8080 ${b}", vec![2, 3, 4, 5]));
        assert!(text.part(4, 3).inserted(0) && !text.part(4, 3).inserted(2));
    }

    #[test]
    fn places_behind_a_variable_stay_right() {
        let (text, _) = filled("a ${PORT} b");
        assert_eq!(text.value, "a 8080 b");
        assert_eq!((text.at(0, 1).column, text.at(7, 1).column), (10, 20));
        assert_eq!((text.at(3, 1).column, text.at(3, 1).length), (12, 7));
    }
}
