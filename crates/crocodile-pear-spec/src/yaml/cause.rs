//! Why a file is no YAML: the mistakes that people make, told apart by the text around the place where the parser stopped.

use crate::problem::Span;
use saphyr_parser::ScanError;

pub struct ProbableCause {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// How many characters are meant.
    pub length: usize,
    pub message: String,
    pub remedy: String,
}

/// Keys whose value is an expression.
const EXPRESSIONS: [&str; 14] = [
    "allow",
    "body",
    "by",
    "each",
    "for_each",
    "in",
    "items",
    "jq",
    "key",
    "link",
    "merge",
    "next",
    "transform",
    "when",
];

/// Keys that these take where they are written as a map.
const FIELDS: [&str; 6] = ["concurrency", "in", "jq", "limit", "max_body", "request"];

/// A longer text is not repeated in a remedy.
const SHORT: usize = 60;

/// Looks for the cause of a fault; `opened` is the innermost bracket that is not closed.
pub fn find(source: &[char], opened: Option<Span>, fault: &ScanError) -> Option<ProbableCause> {
    let lines: Vec<SourceLine<'_>> = source.split(|letter| *letter == '\n').map(SourceLine).collect();
    let scene = Scene {
        line: fault.marker().line().checked_sub(1).filter(|line| *line < lines.len())?,
        column: fault.marker().col(),
        info: fault.info(),
        opened,
        lines,
    };
    let looks = [
        Scene::tab,
        Scene::star,
        Scene::quote,
        Scene::bracket,
        Scene::space,
        Scene::dash,
        Scene::colon,
        Scene::value,
        Scene::indent,
    ];
    looks.iter().find_map(|look| look(&scene))
}

/// A space at the begin of a line that is none to YAML, as web pages and word processors have them.
pub fn odd_space(source: &[char]) -> Option<ProbableCause> {
    let odd = |letter: &char| !letter.is_ascii() && (letter.is_whitespace() || *letter == '\u{200b}');
    let found = |line: &[char]| line.iter().take_while(|letter| letter.is_whitespace() || odd(letter)).position(odd);
    let lines = source.split(|letter| *letter == '\n').enumerate();
    let (line, column, letter) =
        lines.filter_map(|(at, line)| found(line).map(|column| (at, column, line[column]))).next()?;
    let message = format!("a space that is none to YAML (U+{:04X})", u32::from(letter));
    let remedy = "replace it with an ordinary space".to_owned();
    Some(ProbableCause { line: line + 1, column: column + 1, length: 1, message, remedy })
}

/// The text, and where the parser stopped; lines and columns are from 0.
struct Scene<'a> {
    lines: Vec<SourceLine<'a>>,
    line: usize,
    column: usize,
    info: &'a str,
    opened: Option<Span>,
}

#[derive(Clone, Copy)]
struct SourceLine<'a>(&'a [char]);

/// `key: value` on a line; columns are from 0.
struct KeyLine {
    /// Where the key begins.
    at: usize,
    key: String,
    /// Where the value begins, if there is one.
    value: Option<usize>,
}

impl SourceLine<'_> {
    fn text(self, from: usize, to: usize) -> String {
        self.0.get(from..to.min(self.0.len())).unwrap_or_default().iter().collect()
    }

    fn end(self) -> usize {
        self.0.iter().rposition(|letter| !letter.is_whitespace()).map_or(0, |last| last + 1)
    }

    fn indent(self) -> usize {
        self.0.iter().take_while(|letter| letter.is_whitespace()).count()
    }

    fn is_blank(self) -> bool {
        self.end() == 0 || self.0.get(self.indent()) == Some(&'#')
    }

    fn is_item(self) -> bool {
        self.0.get(self.indent()) == Some(&'-') && self.0.get(self.indent() + 1).is_none_or(|next| *next == ' ')
    }

    /// Where the text begins, behind the dashes of lists.
    fn begin(self) -> usize {
        let mut at = self.indent();
        while self.0.get(at) == Some(&'-') && self.0.get(at + 1) == Some(&' ') {
            at += 1 + self.0[at + 1..].iter().take_while(|letter| **letter == ' ').count();
        }
        at
    }

    /// Its key, if it looks like one that is meant.
    fn entry(self) -> Option<KeyLine> {
        let (at, end) = (self.begin(), self.end());
        let ends = |colon: &usize| self.0[*colon] == ':' && self.0.get(colon + 1).is_none_or(|next| *next == ' ');
        let colon = (at..end).find(ends)?;
        let key = self.text(at, colon);
        let value = (colon + 1..end).find(|at| !self.0[*at].is_whitespace()).filter(|at| self.0[*at] != '#');
        is_key(&key).then_some(KeyLine { at, key, value })
    }

    /// `key:value` without a space: the key, and the column of its colon.
    fn glued(self) -> Option<(String, usize)> {
        let (at, end) = (self.begin(), self.end());
        let colon = (at..end).find(|at| self.0[*at] == ':')?;
        let (key, rest) = (self.text(at, colon), self.text(colon + 1, end));
        let address = self.is_item() && rest.chars().all(|letter| letter.is_ascii_digit());
        let whole = rest.is_empty() || rest.starts_with(' ') || rest.starts_with("//") || rest.contains(": ");
        (is_key(&key) && !whole && !address && !rest.ends_with(':')).then_some((key, colon))
    }
}

/// Whether a text looks like a key: a word, or a method and a path.
fn is_key(text: &str) -> bool {
    let count = |sign| text.matches(sign).count();
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || "/'\"*".contains(letter));
    begins && !text.contains(['|', '(', '[', ',']) && count('{') == count('}')
}

impl Scene<'_> {
    fn told(&self, (line, from, to): (usize, usize, usize), message: String, remedy: String) -> Option<ProbableCause> {
        Some(ProbableCause {
            line: line + 1,
            column: from + 1,
            length: to.saturating_sub(from).max(1),
            message,
            remedy,
        })
    }

    fn here(&self) -> SourceLine<'_> {
        self.lines[self.line]
    }

    /// The lines above, the nearest first, without those that say nothing.
    fn above(&self) -> impl Iterator<Item = usize> {
        (0..self.line).rev().filter(|line| !self.lines[*line].is_blank())
    }

    fn tab(&self) -> Option<ProbableCause> {
        let indents = |line: &usize| {
            let line = self.lines.get(*line)?;
            line.0[..line.indent()].iter().position(|letter| *letter == '\t')
        };
        let line = [self.line, self.line + 1].into_iter().find(|line| indents(line).is_some());
        let line = line.filter(|_| self.info.contains("tab"))?;
        let at = indents(&line)?;
        self.told((line, at, at + 1), "a tab: YAML needs spaces".into(), "indent with spaces".into())
    }

    /// A `*` for everything.
    fn star(&self) -> Option<ProbableCause> {
        let star = self.here().0.get(self.column..self.column + 2)?;
        let any = self.info.contains("unknown anchor") && star[0] == '*' && ": /".contains(star[1]);
        let place = (self.line, self.column, self.column + 1);
        any.then(|| self.told(place, "a key cannot begin with `*`".into(), "write `/{*path}` for every path".into()))?
    }

    fn quote(&self) -> Option<ProbableCause> {
        if self.info.contains("trailing content") {
            return self.quote_within();
        }
        let open = self.info.contains("indentation in quoted") || self.info.contains("scalar, found unexpected end");
        let sign = *self.here().0.get(self.column).filter(|sign| open && matches!(sign, '\'' | '"'))?;
        self.shallow(sign).or_else(|| self.never_closed(self.line, self.column, sign))
    }

    /// A text of several lines, one of which is not indented further than its key.
    fn shallow(&self, sign: char) -> Option<ProbableCause> {
        let least = self.here().begin() + 1;
        let rest = self.line + 1..self.lines.len();
        let ends =
            rest.clone().find(|line| self.lines[*line].0.iter().filter(|letter| **letter == sign).count() % 2 == 1)?;
        let others = |line: &SourceLine<'_>| line.is_item() || line.text(0, line.end()).ends_with(':');
        if self.lines[self.line + 1..=ends].iter().any(others) {
            return None;
        }
        let line = rest.take_while(|line| *line <= ends).find(|line| self.lines[*line].indent() < least)?;
        let place = (line, self.lines[line].indent(), self.lines[line].end());
        let message =
            format!("the text in quotes goes on here, not indented further than its key in line {}", self.line + 1);
        self.told(place, message, format!("indent it by {least} spaces or more"))
    }

    fn never_closed(&self, line: usize, column: usize, sign: char) -> Option<ProbableCause> {
        let remedy = format!("write a `{sign}` where the text ends");
        self.told((line, column, column + 1), "this quote is never closed".into(), remedy)
    }

    /// A quote ends a text, and more follows: it was meant to stand in the text, or to begin one.
    fn quote_within(&self) -> Option<ProbableCause> {
        let before = self.here().0.get(..self.column)?;
        let at = before.iter().rposition(|letter| matches!(letter, '\'' | '"'))?;
        let sign = before[at];
        let count = |letters: &[char]| letters.iter().filter(|letter| **letter == sign).count();
        if count(before) % 2 == 1 {
            let line = self.above().find(|line| count(self.lines[*line].0) % 2 == 1)?;
            let column = self.lines[line].0.iter().rposition(|letter| *letter == sign)?;
            return self.never_closed(line, column, sign);
        }
        let message = "the text ends at this quote, and more follows".to_owned();
        let jq = self.here().entry().is_some_and(|entry| EXPRESSIONS.contains(&entry.key.as_str()));
        let remedy = match sign {
            '\'' if jq => "the strings of an expression have double quotes: write `\"`",
            '\'' => "write `''` for a `'` within the text",
            _ => "write `\\\"` for a `\"` within the text",
        };
        self.told((self.line, at, at + 1), message, remedy.into())
    }

    fn bracket(&self) -> Option<ProbableCause> {
        let opened = self.opened.filter(|_| self.info.contains("flow") || self.info.contains("placement"))?;
        let (line, column) = (opened.line as usize - 1, opened.column as usize - 1);
        let outer = *self.lines.get(line)?.0.get(column)?;
        let before = self.lines[line].text(0, column);
        let key = before.trim_end().strip_suffix(':').and_then(|before| before.split_whitespace().last());
        let inner = self.lines[line].text(column + 1, self.lines[line].end());
        let field = inner.split_once(':').is_some_and(|(field, _)| FIELDS.contains(&field.trim()));
        if !field && key.is_some_and(|key| EXPRESSIONS.contains(&key)) {
            let message = format!("an expression that begins with `{outer}` needs quotes");
            return self.told((line, column, column + 1), message, quoted("expression", &self.lines[line], column));
        }
        let within = self.line == line || self.here().indent() > self.lines[line].indent();
        if let Some(cause) = self.braces(outer).or_else(|| self.comma()).filter(|_| within) {
            return Some(cause);
        }
        let close = if outer == '{' { '}' } else { ']' };
        let message = format!("this `{outer}` is never closed");
        self.told((line, column, column + 1), message, format!("write a `{close}` where it ends"))
    }

    /// A value that goes on with a bracket.
    fn braces(&self, outer: char) -> Option<ProbableCause> {
        let letters = self.here().0;
        let sign = *letters.get(self.column).filter(|sign| matches!(sign, '{' | '['))?;
        // The value begins behind the last sign that means something to YAML, and may have spaces.
        let sign_before =
            |at: &usize| ",{[".contains(letters[*at]) || letters[*at] == ':' && letters.get(at + 1) == Some(&' ');
        let before = (0..self.column).rev().find(sign_before)?;
        let begins = before + 1 + letters[before + 1..].iter().take_while(|letter| **letter == ' ').count();
        if begins == self.column {
            return None;
        }
        let mut depth = 0;
        let ends = letters[self.column..].iter().position(|letter| {
            depth += i32::from("{[".contains(*letter)) - i32::from("}]".contains(*letter));
            depth < 0 || depth == 0 && *letter == ','
        });
        let ends = ends.map_or(self.here().end(), |length| self.column + length);
        let ends = begins + self.here().text(begins, ends).trim_end().chars().count();
        let (all, what) = (if outer == '{' { "{ }" } else { "[ ]" }, if sign == '{' { "braces" } else { "brackets" });
        let message = format!("inside `{all}` a value with {what} needs quotes");
        let remedy = format!("write `'{}'`", self.here().text(begins, ends));
        self.told((self.line, begins, ends), message, remedy)
    }

    /// A key behind a value.
    fn comma(&self) -> Option<ProbableCause> {
        let letters = self.here().0;
        if letters.get(self.column) != Some(&':') {
            return None;
        }
        let begins = letters[..self.column].iter().rposition(|letter| *letter == ' ').map_or(0, |space| space + 1);
        let key = self.here().text(begins, self.column);
        let message = format!("a `,` is missing before `{key}`");
        self.told((self.line, begins, self.column), message, format!("write `, {key}:`"))
    }

    fn space(&self) -> Option<ProbableCause> {
        let lines = self.above().next().into_iter().chain([self.line]);
        let (line, (key, colon)) = lines.filter_map(|line| Some((line, self.lines[line].glued()?))).next()?;
        let rest = self.lines[line].text(colon + 1, self.lines[line].end());
        let message = format!("there is no space after `{key}:`");
        self.told((line, colon, colon + 1), message, format!("put a space after `{key}:`, as in `{key}: {rest}`"))
    }

    fn colon(&self) -> Option<ProbableCause> {
        let bare = |line: &usize| {
            let text = self.lines[*line].text(self.lines[*line].begin(), self.lines[*line].end());
            (!text.contains(':') && is_key(&text)).then_some(text)
        };
        self.here().entry().or_else(|| self.info.contains("simple key").then_some(KeyLine::NONE))?;
        let lines = self.above().next().into_iter().chain([self.line]);
        let (line, key) = lines.filter_map(|line| Some((line, bare(&line)?))).next()?;
        let place = (line, self.lines[line].begin(), self.lines[line].end());
        if let Some(comment) = key.strip_prefix("//") {
            return self.told(place, "a comment begins with `#`".to_owned(), format!("write `#{comment}`"));
        }
        self.told(place, format!("there is no `:` after `{key}`"), format!("write `{key}:`"))
    }

    /// A text that has `: ` in it.
    fn value(&self) -> Option<ProbableCause> {
        if !self.info.contains("mapping values") {
            return None;
        }
        // On its own line, or begun above if this line is none of its own.
        let own = self.here().entry();
        let line = if own.is_some() { self.line } else { self.above().next()? };
        let at = self.lines[line].entry()?.value.filter(|at| line < self.line || *at < self.column)?;
        let text = self.lines[line].text(at, self.lines[line].end());
        if text.starts_with(['\'', '"', '|', '>', '&', '*', '{', '[']) {
            return None;
        }
        let what = if text.starts_with(['.', '$', '(']) { "expression" } else { "value" };
        let message = format!("without quotes, this {what} cannot have a `: ` in it");
        let whole = line == self.line;
        let remedy =
            if whole { quoted(what, &self.lines[line], at) } else { format!("put the whole {what} in quotes") };
        self.told((line, at, self.lines[line].end()), message, remedy)
    }

    /// A key between the items of a list.
    fn dash(&self) -> Option<ProbableCause> {
        let entry = self.here().entry().filter(|_| !self.here().is_item())?;
        let above = self.lines[self.above().next()?];
        if !above.is_item() || above.indent() != entry.at {
            return None;
        }
        let place = (self.line, entry.at, entry.at + entry.key.chars().count());
        if let Some(outer) = above.entry().filter(|outer| outer.value.is_none()) {
            let message = format!("`{}` is beside `{}`, not inside it", entry.key, outer.key);
            let remedy = format!("indent {} further than `{}`", self.keys(entry.at).join(", "), outer.key);
            return self.told(place, message, remedy);
        }
        let message = format!("`{}` is between the items of a list", entry.key);
        self.told(place, message, format!("write `- {}:`", entry.key))
    }

    /// The keys from here on that are indented alike, in quotes.
    fn keys(&self, indent: usize) -> Vec<String> {
        let lines = self.lines[self.line..].iter().filter(|line| !line.is_blank() && line.indent() <= indent);
        let keys = lines.map_while(|line| line.entry().filter(|entry| entry.at == indent && !line.is_item()));
        keys.map(|entry| format!("`{}`", entry.key)).collect()
    }

    fn indent(&self) -> Option<ProbableCause> {
        let fits = ["mapping values", "block mapping", "block collection", "block sequence"];
        let (here, begin) = (self.here(), self.here().begin());
        let entry = here.entry().filter(|_| fits.iter().any(|info| self.info.contains(info)))?;
        let place = (self.line, here.indent(), begin + entry.key.chars().count());
        let above = self.above().next()?;
        let before = self.lines[above].entry();
        if let Some(before) = before.filter(|before| before.value.is_some() && begin > before.at + 1 && !here.is_item())
        {
            let message = format!("`{}` has a value on its own line, so nothing can be below it", before.key);
            let remedy =
                format!("indent `{}` like `{}`, or move that value to a line of its own", entry.key, before.key);
            return self.told(place, message, remedy);
        }
        let distance = |line: &usize| self.lines[*line].indent().abs_diff(here.indent());
        let like = self.blocks().into_iter().filter(|line| self.lines[*line].is_item() == here.is_item());
        let like = like.min_by_key(distance).filter(|line| distance(line) > 0)?;
        let spaces = self.lines[like].indent();
        let message = "the indentation of this line fits no line above".to_owned();
        let plural = if spaces == 1 { "" } else { "s" };
        self.told(place, message, format!("indent it by {spaces} space{plural}, like line {}", like + 1))
    }

    /// The lines above that this one could stand beside, the nearest first.
    fn blocks(&self) -> Vec<usize> {
        let mut least = usize::MAX;
        let mut open = Vec::new();
        for line in self.above() {
            let indent = self.lines[line].indent();
            if indent < least {
                open.push(line);
                least = indent;
            }
        }
        open
    }
}

impl KeyLine {
    const NONE: KeyLine = KeyLine { at: 0, key: String::new(), value: None };
}

/// "put the whole value in quotes: `'…'`"
fn quoted(what: &str, line: &SourceLine<'_>, at: usize) -> String {
    let text = line.text(at, line.end()).replace('\'', "''");
    match text.chars().count() > SHORT {
        true => format!("put the whole {what} in quotes"),
        false => format!("put the whole {what} in quotes: `'{text}'`"),
    }
}
