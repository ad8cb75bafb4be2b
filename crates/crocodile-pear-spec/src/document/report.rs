//! Problems as the operator reads them: with the line they stand in, or as JSON for an editor.

use std::{fmt::Write, io::IsTerminal};

use crate::problem::{ConfigProblem, Severity};
use serde_json::json;

use super::sources::Sources;
use crate::visible;

/// How problems are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemFormat {
    /// For people.
    Text(Colour),
    /// A list of objects, for editors.
    Json,
}

/// Whether a text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The report has colours.
    Always,
    /// The report has no colours.
    Never,
}

impl Colour {
    /// Colours on a terminal, unless the environment says no (no-color.org).
    pub fn on(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if stream.is_terminal() && !refused { Self::Always } else { Self::Never }
    }

    fn paint(self, style: &str, text: &str) -> String {
        match self {
            Self::Always => format!("\x1b[{style}m{text}\x1b[0m"),
            Self::Never => text.to_owned(),
        }
    }
}

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const BLUE: &str = "1;34";
const BOLD: &str = "1";

/// Tells all problems; nothing, or an empty list, if there are none.
pub fn report(problems: &[ConfigProblem], sources: &Sources, format: ProblemFormat) -> String {
    match format {
        ProblemFormat::Json => list(problems, sources),
        ProblemFormat::Text(_) if problems.is_empty() => String::new(),
        ProblemFormat::Text(colour) => {
            let mut text = String::new();
            for problem in problems.iter().take(MOST) {
                text.push_str(&tell(&sources.masked(problem), sources, colour));
                text.push('\n');
            }
            if problems.len() > MOST {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "... and {} more\n", problems.len() - MOST);
            }
            text + &summary(problems) + "\n"
        }
    }
}

/// Problems that are told in full: nobody reads more at once, and a file of one kind of fault has thousands.
const MOST: usize = 500;

/// Characters that are shown of a line, and of those before the problem: JSON may be all in one line.
const WIDTH: usize = 240;
const BEFORE: usize = 100;

/// The bytes of a line that are searched for secrets, before and behind the part that is shown.
const AROUND: usize = 1000;

/// The part of a line that is shown for a problem at this column, without secrets, and how many characters are left out before it.
fn window(line: &str, column: usize) -> (String, usize) {
    let first = column.saturating_sub(BEFORE + AROUND);
    let part: String = line.chars().skip(first).take(2 * AROUND + BEFORE + WIDTH).collect();
    let part: Vec<char> = concealed(&part).chars().collect();
    let begin = match first + part.len() <= WIDTH {
        true => 0,
        false => (column - first).saturating_sub(BEFORE).min(part.len().saturating_sub(WIDTH)),
    };
    let end = part.len().min(begin + WIDTH);
    let mut shown: Vec<char> = part[begin..end].to_vec();
    if let (true, Some(last)) = (end < part.len(), shown.last_mut()) {
        *last = '…';
    }
    if let (true, Some(first)) = (first + begin > 0, shown.first_mut()) {
        *first = '…';
    }
    (shown.into_iter().collect(), first + begin)
}

fn tell(problem: &ConfigProblem, sources: &Sources, colour: Colour) -> String {
    let (word, style) = match problem.severity {
        Severity::Error => ("error", RED),
        Severity::Warning => ("warning", YELLOW),
    };
    let heading = format!("{}: {}\n", colour.paint(style, word), colour.paint(BOLD, &printable(&problem.message)));
    let remedy = printable(problem.remedy.as_deref().unwrap_or_default());
    let Some(source) = sources.file(problem.span.file) else { return heading + &remedy };
    let path = source.path.display();
    let line =
        usize::try_from(problem.span.line).unwrap_or(0).checked_sub(1).and_then(|line| source.text.lines().nth(line));
    let Some(line) = line else {
        let remedy = if remedy.is_empty() { remedy } else { format!("  {remedy}\n") };
        return format!("{heading} {} {path}\n{remedy}", colour.paint(BLUE, "-->"));
    };
    let number = problem.span.line.to_string();
    let margin = " ".repeat(number.len());
    let bar = colour.paint(BLUE, "|");
    let column = problem.span.column.saturating_sub(1) as usize;
    let (line, left_out) = window(line, column);
    let before = " ".repeat(column.saturating_sub(left_out));
    let room = line.chars().count().saturating_sub(before.len()).max(1);
    let carets = "^".repeat((problem.span.length as usize).clamp(1, room));
    let pointer = colour.paint(style, format!("{carets} {remedy}").trim_end());
    let mut text = heading;
    let place = format!("{path}:{number}:{}", problem.span.column);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{margin}{} {place}", colour.paint(BLUE, "-->"));
    let _ = writeln!(text, "{margin} {bar}");
    let _ = writeln!(text, "{} {bar} {}", colour.paint(BLUE, &number), printable(&line));
    let _ = writeln!(text, "{margin} {bar} {before}{pointer}");
    text
}

/// A line with stars for the secrets that are written in it; as many characters as before.
fn concealed(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(':') {
        let (before, after) = rest.split_at(at + 1);
        shown.push_str(before);
        let (from, to) = match after.strip_prefix("//") {
            Some(authority) => credentials(authority).map_or((0, 0), |length| (2, 2 + length)),
            None if is_secret(before) => value(after),
            None => (0, 0),
        };
        shown.push_str(&after[..from]);
        shown.extend(after[from..to].chars().map(|_| '*'));
        rest = &after[to..];
    }
    shown + rest
}

/// Parts of the keys of secrets.
const SECRETS: [&str; 6] = ["secret", "password", "passwd", "authorization", "api-key", "api_key"];

/// Whether the key before a colon is that of a secret.
fn is_secret(before: &str) -> bool {
    let key = before.trim_end_matches([':', '"', '\'', ' ']);
    let other = key.trim_end_matches(|letter: char| letter.is_alphanumeric() || "_-".contains(letter));
    // A path is no field: `GET /secret`.
    if other.ends_with('/') {
        return false;
    }
    let key = key[other.len()..].to_ascii_lowercase();
    SECRETS.iter().any(|word| key.contains(word)) || key.ends_with("token")
}

/// Where the secret behind a colon begins and ends. A variable is shown as it is written; a map, a list or a URL is no secret, though
/// it may be called so: `secret: http://127.0.0.1:8000` is an upstream.
fn value(after: &str) -> (usize, usize) {
    const NONE: [&str; 5] = ["${", "{", "[", "http://", "https://"];
    let begin = after.len() - after.trim_start().len();
    let value = &after[begin..];
    let bare = value.trim_start_matches(['\'', '"']);
    let end = value.find([',', '}']).unwrap_or(value.len());
    match NONE.iter().any(|other| bare.starts_with(other)) {
        true => (0, 0),
        false => (begin, begin + value[..end].trim_end().len()),
    }
}

/// How long the credentials are that a URL has before its host.
fn credentials(authority: &str) -> Option<usize> {
    let end = authority.find(['/', '?', '#', ' ', '\'', '"', ',']).unwrap_or(authority.len());
    authority[..end].rfind('@')
}

/// A text that does nothing to a terminal; as many characters as before.
fn printable(text: &str) -> String {
    visible::plain(&text.replace('\t', " "))
}

/// "2 problems, 1 warning".
fn summary(problems: &[ConfigProblem]) -> String {
    let count = |severity, word| {
        let count = problems.iter().filter(|problem| problem.severity == severity).count();
        (count > 0).then(|| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
    };
    let parts = [count(Severity::Error, "problem"), count(Severity::Warning, "warning")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn list(problems: &[ConfigProblem], sources: &Sources) -> String {
    let object = |problem: &ConfigProblem| {
        json!({
            "file": sources.file(problem.span.file).map(|source| source.path.display().to_string()),
            "line": problem.span.line,
            "column": problem.span.column,
            "length": problem.span.length,
            "severity": match problem.severity { Severity::Error => "error", Severity::Warning => "warning" },
            "message": problem.message,
            "remedy": problem.remedy,
        })
    };
    let list = problems.iter().map(|problem| object(&sources.masked(problem))).collect::<Vec<_>>();
    visible::json(&format!("{:#}\n", serde_json::Value::from(list))).into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::problem::{ConfigProblem, Problems, Span};

    use super::{Colour, ProblemFormat, report};
    use crate::document::Sources;

    fn faults() -> (Vec<ConfigProblem>, Sources) {
        let mut sources = Sources::default();
        let lines = "\n".repeat(6) + "  é:\ttiemout: 2s\n";
        let file = sources.add(PathBuf::from("gateway.yaml"), lines);
        let mut problems = Problems::default();
        let span = Span { file, line: 7, column: 6, length: 7 };
        problems.error::<()>(span, "unknown field `tiemout`", "did you mean `timeout`?");
        problems.warning(Span { column: 15, length: 90, ..span }, "long\u{1b}", "");
        (problems.into_sorted(), sources)
    }

    #[test]
    fn a_problem_is_shown_with_its_line() {
        let (problems, sources) = faults();
        let wanted = "\
error: unknown field `tiemout`
 --> gateway.yaml:7:6
  |
7 |   é: tiemout: 2s
  |      ^^^^^^^ did you mean `timeout`?

warning: long\u{fffd}
 --> gateway.yaml:7:15
  |
7 |   é: tiemout: 2s
  |               ^^

1 problem, 1 warning
";
        assert_eq!(report(&problems, &sources, ProblemFormat::Text(Colour::Never)), wanted);
        assert_eq!(report(&[], &sources, ProblemFormat::Text(Colour::Never)), "");
    }

    #[test]
    fn colours_change_nothing_else() {
        let (problems, sources) = faults();
        let plain = report(&problems, &sources, ProblemFormat::Text(Colour::Never));
        let mut painted = report(&problems, &sources, ProblemFormat::Text(Colour::Always));
        assert!(painted.contains("\u{1b}[1;31merror\u{1b}[0m"));
        for style in ["1;31", "1;33", "1;34", "1", "0"] {
            painted = painted.replace(&format!("\u{1b}[{style}m"), "");
        }
        assert_eq!(painted, plain);
    }

    #[test]
    fn editors_get_a_list() {
        let (problems, sources) = faults();
        let list: serde_json::Value =
            serde_json::from_str(&report(&problems, &sources, ProblemFormat::Json)).expect("JSON");
        assert_eq!(list[0]["remedy"], "did you mean `timeout`?");
        assert_eq!(
            (&list[0]["file"], &list[0]["column"], &list[1]["severity"]),
            (&"gateway.yaml".into(), &6.into(), &"warning".into())
        );
        assert_eq!(report(&[], &sources, ProblemFormat::Json), "[]\n");
    }

    #[test]
    fn secrets_are_not_shown() {
        for (line, shown) in [
            ("  client_secret: hunter2", "  client_secret: *******"),
            ("a: { client_secret: 'hunter2', b: c }", "a: { client_secret: *********, b: c }"),
            ("{\"my-password\" : x}, d: e", "{\"my-password\" : *}, d: e"),
            ("client_secret: ${SECRET}", "client_secret: ${SECRET}"),
            ("secret: a, client_secret: é", "secret: *, client_secret: *"),
            ("url: https://ada:hunter2@id.example/a:b", "url: https://***********@id.example/a:b"),
            ("url: 'http://127.0.0.1:80/@a', x: y", "url: 'http://127.0.0.1:80/@a', x: y"),
            ("token_url: a, scope: b", "token_url: a, scope: b"),
            ("client_secret:", "client_secret:"),
            ("  secret: http://ada:hunter2@127.0.0.1", "  secret: http://***********@127.0.0.1"),
            (
                "  secret: { url: 'http://127.0.0.1', password: hunter2 }",
                "  secret: { url: 'http://127.0.0.1', password: ******* }",
            ),
            ("  secrets: [a, b]", "  secrets: [a, b]"),
            ("  GET /secret: shop /a", "  GET /secret: shop /a"),
            ("  'GET /my-password': shop /a", "  'GET /my-password': shop /a"),
            ("🦀: shop /a", "🦀: shop /a"),
            ("🦀token: hunter2", "🦀token: *******"),
        ] {
            assert_eq!(super::concealed(line), shown);
        }
    }
}
