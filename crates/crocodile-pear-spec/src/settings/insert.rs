//! Values of environment variables in an expression: they are data, never code.

use serde_json::Value;

use super::node::{Located, TextRun};
use crate::problem::Problems;

/// Makes inserted values safe in an expression. Inside a string they are text; elsewhere only a number, `true`, `false`
/// or `null` is allowed.
pub fn guard(text: Located<String>, problems: &mut Problems) -> Option<Located<String>> {
    let Some(runs) = text.runs.as_deref().filter(|runs| runs.iter().any(|run| run.inserted.is_some())) else {
        return Some(text);
    };
    let mut scanner = Scanner::default();
    let (mut value, mut places, mut sound) = (String::new(), Vec::new(), true);
    for (at, run) in runs.iter().enumerate() {
        let end = runs.get(at + 1).map_or(text.value.len(), |next| next.offset);
        let part = &text.value[run.offset..end];
        places.push(TextRun { offset: value.len(), ..run.clone() });
        if run.inserted.is_none() {
            scanner.read(part);
            value.push_str(part);
        } else if scanner.in_string() {
            value.push_str(&escape(part));
        } else {
            if !scanner.comment && !is_value(part) {
                let message = "a variable outside of a string must be a number, `true`, `false` or `null`";
                let remedy = "put it in double quotes: its value is text, never a part of the expression";
                problems.error::<()>(text.at(run.offset, part.len()), message, remedy);
                sound = false;
            }
            value.push_str(part);
        }
    }
    let span = text.span;
    sound.then(|| Located { value, span, runs: Some(places.into()) })
}

fn is_value(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(Value::Null | Value::Bool(_) | Value::Number(_)))
}

/// The text, escaped for use inside a string.
fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Tracks where the strings of an expression begin and end.
#[derive(Default)]
struct Scanner {
    /// The open strings and brackets, innermost last; empty at the top level.
    open: Vec<OpenQuote>,
    /// Whether a backslash precedes the next character.
    escaped: bool,
    comment: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenQuote {
    String,
    /// `\(…)` in a string, or any other parenthesis.
    Parenthesis,
}

impl Scanner {
    fn in_string(&self) -> bool {
        self.open.last() == Some(&OpenQuote::String)
    }

    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            let escaped = std::mem::take(&mut self.escaped);
            match (byte, self.in_string()) {
                (b'\n', _) if self.comment => self.comment = false,
                _ if self.comment => {}
                (b'(', true) if escaped => self.open.push(OpenQuote::Parenthesis),
                (_, true) if escaped => {}
                (b'\\', true) => self.escaped = true,
                (b'"', true) | (b')', false) => drop(self.open.pop()),
                (b'"', false) => self.open.push(OpenQuote::String),
                (b'(', false) => self.open.push(OpenQuote::Parenthesis),
                (b'#', false) => self.comment = true,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::insert::*;
    use crate::problem::Span;

    /// Guards a text in which `<…>` marks inserted values.
    fn guarded(text: &str) -> Result<String, Vec<u32>> {
        let (mut value, mut runs) = (String::new(), Vec::new());
        for (at, part) in text.split(['<', '>']).enumerate() {
            let column = u32::try_from(value.chars().count()).expect("a short text") + 1;
            runs.push(TextRun {
                offset: value.len(),
                line: 1,
                column,
                written: 0,
                inserted: (at % 2 == 1).then(|| "NAME".into()),
            });
            value.push_str(part);
        }
        let span = Span { file: 0, line: 1, column: 1, length: 1 };
        let (text, mut problems) = (Located { value, span, runs: Some(runs.into()) }, Problems::default());
        let guarded = guard(text, &mut problems).map(|text| text.value);
        guarded.ok_or_else(|| problems.into_sorted().iter().map(|problem| problem.span.column).collect())
    }

    #[test]
    fn within_a_string_a_value_is_text() {
        for (text, wanted) in [
            (r#"{a: "<b>"}"#, r#"{a: "b"}"#),
            (r#""<">" + "<\(.)>""#, r#""\"" + "\\(.)""#),
            (r#""\(.a + "<x"y>")<">""#, r#""\(.a + "x\"y")\"""#),
            ("\"é\\\"<{$x}>\"", "\"é\\\"{$x}\""),
        ] {
            assert_eq!(guarded(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn elsewhere_it_is_a_plain_value() {
        for text in ["limit(<5>; .[])", "<true>", ".a + <-1.50>", "[<null>]", "# <.x>\n."] {
            assert_eq!(guarded(text), Ok(text.replace(['<', '>'], "")));
        }
        assert_eq!(guarded("<.a> + \"\\(<b>)\""), Err(vec![1, 9]));
        assert_eq!(guarded("<> "), Err(vec![1]));
        assert_eq!(guarded("(\")\") + <[1]>"), Err(vec![9]));
    }

    #[test]
    fn places_stay_right() {
        let runs = [(0, 1, false), (1, 2, true), (4, 20, false)];
        let name = |inserted: bool| inserted.then(|| "NAME".into());
        let run =
            |(offset, column, inserted)| TextRun { offset, line: 1, column, written: 0, inserted: name(inserted) };
        let runs = Some(runs.map(run).into_iter().collect());
        let text = Located { value: "\"\"\"\"x".to_owned(), span: Span::default(), runs };
        let guarded = guard(text, &mut Problems::default()).expect("sound");
        assert_eq!((guarded.as_str(), guarded.at(7, 1).column), (r#""\"\"\"x"#, 20));
    }
}
