//! The configuration as a tree in which every part knows its position.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::problem::{Problems, Span};

/// A part of the written configuration, with its position.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its position.
    pub span: Span,
    /// Its content.
    pub kind: NodeKind,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// An empty value, `null` or `~`.
    Null,
    /// A text, a number or a boolean.
    Scalar {
        /// Its text after parsing: without quotes, with escapes and folded lines resolved.
        text: String,
        /// Whether it was quoted; a quoted scalar is never a number or a bool.
        quoted: bool,
        /// Positions of the parts of the text. `None` if the text is on one line exactly as in the file.
        runs: Runs,
    },
    /// A list, in order.
    List(Vec<Node>),
    /// A map, in order, each key once. Keys have their own positions.
    Map(Vec<(Located<String>, Node)>),
}

/// A value with its position in the file. A Rust program writes `value.into()`.
///
/// ```
/// let most: crocodile_pear_spec::settings::Located<u64> = 500.into();
/// assert_eq!(most.value, 500);
/// ```
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its position.
    pub span: Span,
    /// Positions of the parts of a text. `None` if the text is on one line exactly as in the file.
    pub runs: Runs,
}

/// The positions of a text's parts, in order; `None` if the text is on one line exactly as in the file.
pub type Runs = Option<Arc<[TextRun]>>;

/// The text from this offset on, up to the next run, is at this line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRun {
    /// Byte offset in the text.
    pub offset: usize,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// For text that differs from the file (an escape, a variable): how many characters the whole run has in the file.
    /// 0: each character is the same in the file.
    pub written: u32,
    /// Whether this is the value of an environment variable: text, never part of a template or an expression.
    pub inserted: Option<Arc<str>>,
}

impl<T> Located<T> {
    /// A value at this position.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span, runs: None }
    }

    /// The same position with a converted value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: make(self.value), span: self.span, runs: self.runs }
    }
}

impl<T> From<T> for Located<T> {
    fn from(value: T) -> Self {
        Located::new(value, Span::default())
    }
}

impl<T: fmt::Display> fmt::Display for Located<T> {
    /// Writes the value as it is in the file: a value of the environment may be a secret, so `${NAME}` is shown in its place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runs.as_deref().filter(|runs| runs.iter().any(|run| run.inserted.is_some())) {
            None => self.value.fmt(f),
            Some(runs) => show(&self.value.to_string(), runs, f),
        }
    }
}

/// Writes a text with the names of its variables in the place of their values.
fn show(text: &str, runs: &[TextRun], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, run) in runs.iter().enumerate() {
        let end = runs.get(at + 1).map_or(text.len(), |next| next.offset);
        match (&run.inserted, text.get(run.offset..end)) {
            (Some(name), _) => write!(f, "${{{name}}}")?,
            (None, Some(part)) => f.write_str(part)?,
            // It was made of the text, and is no part of it.
            (None, None) => f.write_str("…")?,
        }
    }
    Ok(())
}

impl Located<String> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.value
    }

    /// The position of a part of the text, `len` bytes from `offset` on. A part of several lines is shown to the end of
    /// its first line.
    pub fn at(&self, offset: usize, len: usize) -> Span {
        let (line, column, _) = self.place(offset);
        let last = self.value.len().min(offset.saturating_add(len.max(1))).max(offset + 1) - 1;
        let length = match self.place(last) {
            (end, column_of_last, width) if end == line => column_of_last + width - column.min(column_of_last),
            _ => self.rest_of_line(offset, line, column),
        };
        Span { file: self.span.file, line, column, length: length.max(1) }
    }

    /// The part of the text, `len` bytes from `offset` on, as its own text.
    pub fn part(&self, offset: usize, len: usize) -> Self {
        let value = self.value.get(offset..offset + len).unwrap_or_default().to_owned();
        let shifted = |run: &TextRun| TextRun { offset: run.offset.saturating_sub(offset), ..run.clone() };
        let runs = self.runs.as_deref().map(|runs| {
            // The part may begin inside a run: the rest of that run begins at the position of the part.
            let first = self.at(offset, 1);
            let before = runs.partition_point(|run| run.offset <= offset);
            let own = runs.get(before.saturating_sub(1));
            let (written, inserted) = own.map_or((0, None), |run| (run.written, run.inserted.clone()));
            let begin = TextRun { offset: 0, line: first.line, column: first.column, written, inserted };
            let end = runs.partition_point(|run| run.offset < offset + len).max(before);
            std::iter::once(begin).chain(runs[before..end].iter().map(shifted)).collect()
        });
        Self { value, span: self.at(offset, len), runs }
    }

    /// Line and column of the character at an offset, and how many characters it has in the file.
    fn place(&self, offset: usize) -> (u32, u32, u32) {
        let offset = (0..=offset.min(self.value.len())).rev().find(|at| self.value.is_char_boundary(*at)).unwrap_or(0);
        let Some(run) = self.run(offset) else {
            return (self.span.line, self.span.column + self.characters(0, offset), 1);
        };
        match run.written {
            0 => (run.line, run.column + self.characters(run.offset, offset), 1),
            written => (run.line, run.column, written),
        }
    }

    pub(super) fn lacks_space(&self, known: &dyn Fn(&str) -> bool, problems: &mut Problems) -> bool {
        let Some((key, rest)) = self.value.split_once(':').filter(|(key, rest)| !key.is_empty() && !rest.is_empty())
        else {
            return false;
        };
        if rest.starts_with([' ', '/']) || !known(key) {
            return false;
        }
        let remedy = format!("put a space after `{key}:`, as in `{key}: {rest}`");
        problems.error::<()>(self.at(key.len(), 1), format!("there is no space after `{key}:`"), remedy);
        true
    }

    /// The run of a byte, unless the text is exactly as in the file.
    fn run(&self, offset: usize) -> Option<&TextRun> {
        let runs = self.runs.as_deref()?;
        runs.get(runs.partition_point(|run| run.offset <= offset).saturating_sub(1))
    }

    /// Whether the byte at an offset belongs to the value of a variable.
    pub fn inserted(&self, offset: usize) -> bool {
        self.run(offset).is_some_and(|run| run.inserted.is_some())
    }

    fn rest_of_line(&self, offset: usize, line: u32, column: u32) -> u32 {
        let runs = self.runs.as_deref().unwrap_or_default();
        let end = runs.iter().find(|run| run.line > line).map_or(self.value.len(), |run| run.offset);
        let text = self.value.get(offset..end).unwrap_or_default().trim_end();
        let (_, last, width) = self.place(offset + text.char_indices().last().map_or(0, |(at, _)| at));
        (last + width).saturating_sub(column)
    }

    fn characters(&self, from: usize, to: usize) -> u32 {
        let between = self.value.get(from..to).unwrap_or_default();
        u32::try_from(between.chars().count()).unwrap_or(u32::MAX)
    }
}

impl Node {
    /// The tree of a JSON value, for configurations that do not come from a file. It has no positions.
    pub fn from_json(value: &Value) -> Self {
        let scalar = |text: String, quoted| NodeKind::Scalar { text, quoted, runs: None };
        let kind = match value {
            Value::Null => NodeKind::Null,
            Value::Bool(value) => scalar(value.to_string(), false),
            Value::Number(value) => scalar(value.to_string(), false),
            Value::String(value) => scalar(value.clone(), true),
            Value::Array(items) => NodeKind::List(items.iter().map(Self::from_json).collect()),
            Value::Object(fields) => {
                let entry = |(key, value): (&String, &Value)| {
                    (Located::new(key.clone(), Span::default()), Self::from_json(value))
                };
                NodeKind::Map(fields.iter().map(entry).collect())
            }
        };
        Self { span: Span::default(), kind }
    }

    /// The entries, if it is a map.
    pub fn as_map(&self) -> Option<&[(Located<String>, Node)]> {
        match &self.kind {
            NodeKind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under this key, if it is a map.
    pub fn field(&self, name: &str) -> Option<&Node> {
        self.as_map()?.iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.kind {
            NodeKind::List(items) => Some(items),
            _ => None,
        }
    }

    /// The text, if it is a scalar, quoted or not.
    pub fn as_text(&self) -> Option<Located<String>> {
        match &self.kind {
            NodeKind::Scalar { text, runs, .. } => {
                Some(Located { value: text.clone(), span: self.span, runs: runs.clone() })
            }
            _ => None,
        }
    }

    /// The text, if it is a scalar without quotes, which may be a number or a bool.
    pub fn as_plain(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, quoted: false, .. } => Some(text),
            _ => None,
        }
    }

    /// The entries of a node that must be a map; `wanted` names it, as in "an upstream".
    pub fn expect_map(&self, wanted: &str, problems: &mut Problems) -> Option<&[(Located<String>, Node)]> {
        if self.lacks_space(&|_| true, problems) {
            return None;
        }
        let remedy = match self.as_list().and_then(<[_]>::first).and_then(Node::as_map) {
            None => "write a map: `key: value` lines, indented".to_owned(),
            Some([(key, _)]) => format!("leave out the `-`: write `{key}: …`"),
            Some(_) => "write `NAME: …` for each, without a `-`".to_owned(),
        };
        self.as_map().or_else(|| self.wrong(wanted, remedy, problems))
    }

    /// The items of a node that must be a list.
    pub fn expect_list(&self, wanted: &str, problems: &mut Problems) -> Option<&[Node]> {
        let remedy = match (&self.kind, self.as_map().and_then(<[_]>::first)) {
            (NodeKind::Scalar { text, quoted: false, .. }, _) => format!("write a list: `[{text}]`"),
            (_, Some((key, _))) if key.span != self.span => "write `[ ]` instead of `{ }`".to_owned(),
            (_, Some((key, _))) => match key.value.strip_prefix('-') {
                Some(key) => format!("put a space after the `-`: write `- {key}:`"),
                None => format!("begin each item with a `-`: write `- {key}:`"),
            },
            _ => "write a list: `- item` lines, or `[a, b]`".to_owned(),
        };
        self.as_list().or_else(|| self.wrong(wanted, remedy, problems))
    }

    /// The text of a node that must be a scalar.
    pub fn expect_text(&self, wanted: &str, problems: &mut Problems) -> Option<Located<String>> {
        let remedy = match self.kind {
            NodeKind::List(ref items) if !items.is_empty() && items.iter().all(|item| item.as_text().is_some()) => {
                "write one text here, not a list; if it is a text with brackets, put it in quotes"
            }
            NodeKind::Map(_) | NodeKind::List(_) => "put the whole text in quotes: YAML reads `{` and `[` itself",
            _ => "",
        };
        self.as_text().or_else(|| self.wrong(wanted, remedy, problems))
    }

    /// Records a problem if the text is `key:value` without the space and `known` accepts the key. Returns whether it
    /// did.
    pub fn lacks_space(&self, known: &dyn Fn(&str) -> bool, problems: &mut Problems) -> bool {
        let text = self.as_text().filter(|_| self.as_plain().is_some());
        text.is_some_and(|text| text.lacks_space(known, problems))
    }

    /// The only entry of a node that must be a map with one key, such as a step.
    pub fn expect_one(&self, wanted: &str, problems: &mut Problems) -> Option<(&Located<String>, &Node)> {
        match self.expect_map(wanted, problems)? {
            [(key, value)] => Some((key, value)),
            [] => self.wrong(wanted, "", problems),
            [(first, _), (second, _), ..] => problems.error(
                second.span,
                format!("{wanted} has one key, and `{first}` is there already"),
                format!("indent `{second}` below `{first}`, or begin a new item with `-`"),
            ),
        }
    }

    /// Records that something else was expected here, unless this part already has a problem. Returns `None`.
    pub fn wrong<T>(&self, wanted: &str, remedy: impl Into<String>, problems: &mut Problems) -> Option<T> {
        self.refuse(wanted, remedy.into(), problems);
        None
    }

    fn refuse(&self, wanted: &str, remedy: String, problems: &mut Problems) {
        if self.span.line == 0 || !problems.found_within(self.span) {
            problems.error::<()>(self.span, format!("found {}, wanted {wanted}", self.found()), remedy);
        }
    }

    /// A description of what was found.
    pub fn found(&self) -> String {
        match &self.kind {
            NodeKind::Null => "nothing".to_owned(),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Map(_) => "a map".to_owned(),
            NodeKind::Scalar { text, quoted, runs } => {
                let shown = Located { value: text, span: self.span, runs: runs.clone() }.to_string();
                if *quoted { format!("the text {:?}", short(&shown)) } else { format!("`{}`", short(&shown)) }
            }
        }
    }
}

/// A text shortened for a message.
fn short(text: &str) -> String {
    const FITS: usize = 40;
    match text.char_indices().nth(FITS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stands_where_it_is_written() {
        let whole = Located::new("shop /orders?q={.x}".to_owned(), Span { file: 0, line: 3, column: 10, length: 19 });
        let part = whole.part(5, 14);
        assert_eq!((part.value.as_str(), part.span.column, part.at(9, 2).column), ("/orders?q={.x}", 15, 24));
    }

    #[test]
    fn a_part_has_the_runs_of_its_own_text() {
        let name = |inserted: bool| inserted.then(|| "NAME".into());
        let run = |offset| TextRun { offset, line: 1, column: 1, written: 0, inserted: name(offset == 4) };
        let runs = Some([0, 4, 8].map(run).into_iter().collect());
        let whole = Located { runs, ..Located::new("0123456789".to_owned(), Span::default()) };
        let offsets =
            |from, len| whole.part(from, len).runs.expect("runs").iter().map(|run| run.offset).collect::<Vec<_>>();
        assert_eq!((offsets(1, 2), offsets(1, 4), offsets(5, 5)), (vec![0], vec![0, 3], vec![0, 3]));
        assert!(whole.part(5, 2).inserted(0));
    }
}
