//! `${NAME}` and `${NAME:-default}` in scalars, filled from the environment.

use std::sync::Arc;

use crocodile_pear::{
    problem::Problems,
    spec::{Located, Run},
};

/// Where variables come from.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What stands at a `$` that means something.
enum Piece<'a> {
    /// `$${`: a `${` as it stands.
    Escape,
    /// A variable, and what it is if unset.
    Variable { name: &'a str, default: Option<&'a str>, length: usize },
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
            Piece::Escape => {
                filled.put("${", at, 3);
                at + 3
            }
            Piece::Variable { name, default, length } => {
                let value = environment(name).or_else(|| default.map(str::to_owned));
                let unset = || {
                    let remedy = format!("set it in the environment, or give a default: `${{{name}:-…}}`");
                    problems.error(text.at(at, length), format!("the variable `{name}` is not set"), remedy)
                };
                filled.put(&value.or_else(unset).unwrap_or_default(), at, length);
                at + length
            }
        };
        copied = next;
    }
    filled.copy(copied, text.value.len());
    let Filled { value, runs, .. } = filled;
    Located { value, span: text.span, runs: Some(Arc::from(runs)) }
}

/// Reads what stands at the begin of a text that begins with `$`.
fn piece(text: &str) -> Option<Piece<'_>> {
    if text.starts_with("$${") {
        return Some(Piece::Escape);
    }
    let inner = text.strip_prefix("${")?;
    let end = inner.find(|letter: char| !matches!(letter, 'A'..='Z' | '0'..='9' | '_')).unwrap_or(inner.len());
    let (name, rest) = inner.split_at(end);
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    if rest.starts_with('}') {
        return Some(Piece::Variable { name, default: None, length: end + 3 });
    }
    let (default, _) = rest.strip_prefix(":-")?.split_once('}')?;
    Some(Piece::Variable { name, default: Some(default), length: end + 5 + default.len() })
}

/// A text while its variables are put in.
struct Filled<'a> {
    text: &'a Located<String>,
    value: String,
    runs: Vec<Run>,
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
            self.runs.push(Run { offset: into, line: span.line, column: span.column, written: 0 });
        }
        let inside = runs.iter().filter(|run| (from..to).contains(&run.offset));
        self.runs.extend(inside.map(|run| Run { offset: run.offset - from + into, ..*run }));
        self.value.push_str(&self.text.value[from..to]);
    }

    /// Puts a value in the place of what is written.
    fn put(&mut self, value: &str, at: usize, length: usize) {
        let span = self.text.at(at, length);
        let offset = self.value.len();
        self.runs.push(Run { offset, line: span.line, column: span.column, written: span.length });
        self.value.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::{
        problem::{Problems, Span},
        spec::Located,
    };

    use super::fill;

    fn filled(text: &str) -> (Located<String>, Problems) {
        let mut problems = Problems::default();
        let span = Span { file: 0, line: 3, column: 10, length: 1 };
        let environment = |name: &str| (name == "PORT").then(|| "8080".to_owned());
        (fill(Located::new(text.to_owned(), span), &environment, &mut problems), problems)
    }

    #[test]
    fn variables_are_put_in_and_nothing_else_is() {
        for (text, wanted) in [
            ("${PORT}", "8080"),
            ("a:${PORT}/é${PORT}!", "a:8080/é8080!"),
            ("${HOST:-localhost}:${PORT:-1}", "localhost:8080"),
            ("${EMPTY:-}", ""),
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
    fn places_behind_a_variable_stay_right() {
        let (text, _) = filled("a ${PORT} b");
        assert_eq!(text.value, "a 8080 b");
        assert_eq!((text.at(0, 1).column, text.at(7, 1).column), (10, 20));
        assert_eq!((text.at(3, 1).column, text.at(3, 1).length), (12, 7));
    }
}
