//! YAML to nodes, each with its place.

mod align;
mod cause;
mod variable;
mod words;

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use crate::problem::{Problems, Span};
use crate::settings::{Located, Node, NodeKind, Runs};
use saphyr_parser::{Event, Parser, ScalarStyle, Span as Range, Tag};

pub use variable::Environment;

/// How deep maps and lists may lie in each other. What is read is walked recursively, and nobody writes deeper.
const DEEPEST: usize = 64;

/// How many nodes and bytes of text aliases may add: enough for any honest reuse, and far from "billion laughs".
const MOST_ALIASED: usize = 1 << 20;

/// Reads the one document of a file; no node if it is no YAML.
pub fn read(file: u32, text: &str, environment: &Environment<'_>, problems: &mut Problems) -> Option<Node> {
    let reader = ConfigReader {
        file,
        source: text.chars().collect(),
        environment,
        problems,
        open: Vec::new(),
        anchors: HashMap::new(),
        aliased: 0,
        root: None,
    };
    reader.run(text)
}

/// A document while it is read.
struct ConfigReader<'a> {
    file: u32,
    source: Vec<char>,
    environment: &'a Environment<'a>,
    problems: &'a mut Problems,
    /// The maps and lists that have begun and not ended, outermost first.
    open: Vec<OpenNode>,
    /// The nodes with anchors, and their weight.
    anchors: HashMap<usize, (Node, usize)>,
    aliased: usize,
    root: Option<Node>,
}

/// A map or list that has begun.
struct OpenNode {
    span: Span,
    anchor: usize,
    items: NodeItems,
}

enum NodeItems {
    List(Vec<Node>),
    Map { entries: Vec<(Located<String>, Node)>, seen: HashMap<String, u32>, key: PendingKey, merged: Vec<Node> },
}

/// The next event that a map waits for.
enum PendingKey {
    Wanted,
    /// The value of this key.
    Read(Located<String>),
    /// The value of a merge key, `<<`.
    Merge,
    /// The value of a key that cannot be one.
    Refused,
}

/// Why reading ends before the file does; the problem is noted.
struct Stop;

impl ConfigReader<'_> {
    fn run(mut self, text: &str) -> Option<Node> {
        if let Some(cause) = cause::odd_space(&self.source) {
            return words::note(self.file, cause, self.problems);
        }
        let mut documents = 0;
        for event in Parser::new_from_str(&variable::shield(text)) {
            let (event, range) = match event {
                Ok(event) => event,
                Err(fault) => {
                    // A single pair in a list has no bracket of its own.
                    let opened = self.open.iter().rev().map(|open| open.span).find(|span| span.length > 0);
                    return words::tell(self.file, &self.source, opened, &fault, self.problems);
                }
            };
            if matches!(event, Event::DocumentStart(_)) {
                documents += 1;
            }
            if documents > 1 {
                let span = self.place(range.start.line(), range.start.col(), 3);
                return self.problems.error(
                    span,
                    "a second document begins here",
                    "keep to one, or `include` the other",
                );
            }
            self.take(event, range).ok()?;
        }
        let start = Span { file: self.file, line: 1, column: 1, length: 1 };
        Some(self.root.unwrap_or(Node { span: start, kind: NodeKind::Null }))
    }

    fn take(&mut self, event: Event<'_>, range: Range) -> Result<(), Stop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse(tag.as_deref(), range);
                let node = self.scalar(variable::unshield(text), style, range, anchor != 0 || tag.is_some());
                self.finish(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse(tag.as_deref(), range);
                self.begin(NodeItems::List(Vec::new()), anchor, range)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse(tag.as_deref(), range);
                let map = NodeItems::Map {
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    key: PendingKey::Wanted,
                    merged: Vec::new(),
                };
                self.begin(map, anchor, range)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, range),
            _ => Ok(()),
        }
    }

    fn refuse(&mut self, tag: Option<&Tag>, range: Range) {
        let Some(tag) = tag else { return };
        let rest = self.source.get(range.start.index()..).unwrap_or_default();
        let begin = rest.iter().position(|letter| *letter == '!').unwrap_or(0);
        let written: String = rest[begin..].iter().take_while(|letter| !letter.is_whitespace()).collect();
        let span = self.place(range.start.line(), range.start.col() + begin, written.chars().count());
        let remedy = match tag.is_yaml_core_schema() && tag.suffix == "str" {
            true => "leave it out, and put the text in quotes",
            false => "leave it out",
        };
        self.problems.error::<()>(span, format!("YAML tags are not supported: `{written}`"), remedy);
    }

    fn begin(&mut self, items: NodeItems, anchor: usize, range: Range) -> Result<(), Stop> {
        let mut span = self.span(range);
        // Of a flow collection its bracket is shown; a block has none, and shows its first entry.
        if !range.is_empty()
            && let Some('{' | '[') = range.end.index().checked_sub(1).and_then(|last| self.source.get(last))
        {
            span = self.place(range.end.line(), range.end.col().saturating_sub(1), 1);
        }
        if self.open.len() == DEEPEST {
            let message = format!("more than {DEEPEST} maps and lists lie in each other here");
            self.problems.error::<()>(span, message, "");
            return Err(Stop);
        }
        self.open.push(OpenNode { span, anchor, items });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        let Some(OpenNode { span, anchor, items }) = self.open.pop() else { return Ok(()) };
        let kind = match items {
            NodeItems::List(items) => NodeKind::List(items),
            NodeItems::Map { mut entries, seen, merged, .. } => {
                let mut known: HashSet<String> = seen.into_keys().collect();
                merged.iter().for_each(|from| self.merge(&mut entries, &mut known, from));
                NodeKind::Map(entries)
            }
        };
        let span = match &kind {
            NodeKind::Map(entries) if span.length == 0 => entries.first().map_or(span, |(key, _)| key.span),
            _ => Span { length: span.length.max(1), ..span },
        };
        self.finish(Node { span, kind }, anchor)
    }

    /// Adds the entries of another map, where they are not known: written in the map itself, or merged before.
    fn merge(&mut self, entries: &mut Vec<(Located<String>, Node)>, known: &mut HashSet<String>, from: &Node) {
        match &from.kind {
            NodeKind::Map(others) => {
                for (key, value) in others {
                    if known.insert(key.value.clone()) {
                        entries.push((key.clone(), value.clone()));
                    }
                }
            }
            NodeKind::List(maps) => maps.iter().for_each(|map| self.merge(entries, known, map)),
            _ => drop(from.wrong::<()>("a map to merge", "name one by its alias: `<<: *name`", self.problems)),
        }
    }

    fn alias(&mut self, anchor: usize, range: Range) -> Result<(), Stop> {
        let span = self.span(range);
        let Some((node, weight)) = self.anchors.get(&anchor) else {
            self.problems.error::<()>(span, "the alias is inside of what it names", "");
            return Err(Stop);
        };
        self.aliased += weight;
        if self.aliased > MOST_ALIASED {
            self.problems.error::<()>(span, "aliases make this configuration too large", "write fewer of them");
            return Err(Stop);
        }
        let node = node.clone();
        self.finish(node, 0)
    }

    /// Puts a whole node where it belongs.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            let weight = weigh(&node);
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.items {
            NodeItems::List(items) => items.push(node),
            NodeItems::Map { entries, seen, key, merged } => match mem::replace(key, PendingKey::Wanted) {
                PendingKey::Wanted => *key = read_key(&node, seen, self.problems),
                PendingKey::Read(name) => entries.push((name, node)),
                PendingKey::Merge => merged.push(node),
                PendingKey::Refused => {}
            },
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, range: Range, named: bool) -> Node {
        let start = (range.start.index(), range.start.line(), range.start.col());
        let (index, line, column) = if named { align::content(&self.source, style, start) } else { start };
        let one_line = line == range.end.line();
        let rest = self.source.get(index..range.end.index()).unwrap_or_default();
        let written = rest.split(|letter| *letter == '\n').next().unwrap_or_default();
        let width = written.iter().rposition(|letter| !letter.is_whitespace()).map_or(0, |last| last + 1);
        let span = self.place(line, column, width.max(1));
        let quoted = style != ScalarStyle::Plain;
        if !quoted && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
            return Node { span, kind: NodeKind::Null };
        }
        let runs: Runs = match quoted || !one_line {
            true => Some(align::runs(rest, &text, style, span)),
            false => None,
        };
        let mut text = Located { value: text, span, runs };
        let key =
            matches!(self.open.last(), Some(OpenNode { items: NodeItems::Map { key: PendingKey::Wanted, .. }, .. }));
        if !key {
            text = variable::fill(text, self.environment, self.problems);
        }
        Node { span, kind: NodeKind::Scalar { text: text.value, quoted, runs: text.runs } }
    }

    fn span(&self, range: Range) -> Span {
        let length = match range.start.line() == range.end.line() {
            true => range.end.col().saturating_sub(range.start.col()),
            false => 1,
        };
        self.place(range.start.line(), range.start.col(), length)
    }

    /// A place by its line (from 1) and column (from 0).
    fn place(&self, line: usize, column: usize, length: usize) -> Span {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Span { file: self.file, line: number(line), column: number(column + 1), length: number(length) }
    }
}

/// The meaning of a node as the key of a map.
fn read_key(node: &Node, seen: &mut HashMap<String, u32>, problems: &mut Problems) -> PendingKey {
    let Some(key) = node.as_text() else {
        problems.error::<()>(node.span, format!("found {}, wanted a key", node.found()), "write a word before the `:`");
        return PendingKey::Refused;
    };
    if node.as_plain() == Some("<<") {
        return PendingKey::Merge;
    }
    if let Some(line) = seen.get(&key.value) {
        let message = format!("`{key}` is written twice in this map");
        problems.error::<()>(node.span, message, format!("the first is in line {line}; leave out one"));
        return PendingKey::Refused;
    }
    seen.insert(key.value.clone(), key.span.line);
    PendingKey::Read(key)
}

/// Nodes and bytes of text.
fn weigh(node: &Node) -> usize {
    1 + match &node.kind {
        NodeKind::Null => 0,
        NodeKind::Scalar { text, .. } => text.len(),
        NodeKind::List(items) => items.iter().map(weigh).sum(),
        NodeKind::Map(entries) => entries.iter().map(|(key, value)| key.value.len() + weigh(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use crate::problem::Problems;
    use crate::settings::{Located, Node, NodeKind};

    use super::read;

    fn parse(text: &str) -> (Option<Node>, Vec<String>) {
        let mut problems = Problems::default();
        let environment = |name: &str| (name == "PORT").then(|| "8080".to_owned());
        let node = read(0, text, &environment, &mut problems);
        let told = |problem: crate::problem::ConfigProblem| {
            format!("{}:{}+{} {}", problem.span.line, problem.span.column, problem.span.length, problem.message)
        };
        (node, problems.into_sorted().into_iter().map(told).collect())
    }

    fn sound(text: &str) -> Node {
        let (node, told) = parse(text);
        assert_eq!(told, <[&str; 0]>::default());
        node.expect("a tree")
    }

    fn told(text: &str) -> Vec<String> {
        parse(text).1
    }

    /// A node as compact text: quoted scalars in quotes.
    fn show(node: &Node) -> String {
        let list = |parts: Vec<String>| parts.join(", ");
        match &node.kind {
            NodeKind::Null => "null".to_owned(),
            NodeKind::Scalar { text, quoted: true, .. } => format!("{text:?}"),
            NodeKind::Scalar { text, .. } => text.clone(),
            NodeKind::List(items) => format!("[{}]", list(items.iter().map(show).collect())),
            NodeKind::Map(entries) => {
                format!("{{{}}}", list(entries.iter().map(|(key, value)| format!("{key}: {}", show(value))).collect()))
            }
        }
    }

    fn value(text: &str) -> Located<String> {
        let node = sound(text);
        node.as_map().and_then(|entries| entries[0].1.as_text()).expect("a text below the first key")
    }

    /// Every word of a scalar must be found where the file has it.
    #[track_caller]
    fn aligned(source: &str, words: &[&str]) {
        let text = value(source);
        let lines: Vec<Vec<char>> = source.lines().map(|line| line.chars().collect()).collect();
        for word in words {
            let offset = text.value.find(word).unwrap_or_else(|| panic!("{word:?} in {:?}", text.value));
            let span = text.at(offset, word.len());
            let line = &lines[span.line as usize - 1];
            let from = span.column as usize - 1;
            let found: String = line[from..from + span.length as usize].iter().collect();
            assert_eq!(found, *word, "at {span:?} of {:?}", text.value);
        }
    }

    #[test]
    fn scalars_lists_and_maps_are_read() {
        let text = "a: 1\nb: [x, 'y', {z: null}]\nc:\n  - d: ~\n    e: \"f\"\n  -\ng: |\n  h\n404: ${PORT}\n";
        let shown = "{a: 1, b: [x, \"y\", {z: null}], c: [{d: null, e: \"f\"}, null], g: \"h\\n\", 404: 8080}";
        assert_eq!(show(&sound(text)), shown);
        assert_eq!(show(&sound("")), "null");
        assert_eq!(show(&sound("# nothing\n")), "null");
    }

    #[test]
    fn every_node_knows_its_place() {
        let node = sound("a:\n  b: {c: [1]}\n  d: word # note\n");
        let place = |node: &Node| (node.span.line, node.span.column, node.span.length);
        let inner = &node.as_map().expect("a map")[0].1;
        let entries = inner.as_map().expect("a map");
        assert_eq!((place(&node), place(inner)), ((1, 1, 1), (2, 3, 1)));
        assert_eq!((place(&entries[0].1), place(&entries[1].1)), ((2, 6, 1), (3, 6, 4)));
    }

    #[test]
    fn an_alias_is_what_its_anchor_names() {
        let text = "a: &x {p: 1, q: 2}\nb: *x\nc:\n  <<: *x\n  q: 3\nd: &y word\ne: *y\n";
        assert_eq!(show(&sound(text)), "{a: {p: 1, q: 2}, b: {p: 1, q: 2}, c: {q: 3, p: 1}, d: word, e: word}");
    }

    #[test]
    fn a_billion_laughs_are_refused() {
        let mut text = "l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for level in 1..12 {
            let names = vec![format!("*l{}", level - 1); 9].join(", ");
            text.push_str(&format!("l{level}: &l{level} [{names}]\n"));
        }
        let (node, told) = parse(&text);
        assert!(node.is_none());
        assert_eq!(told.len(), 1);
        assert!(told[0].ends_with("aliases make this configuration too large"));
    }

    #[test]
    fn depth_is_bounded() {
        for text in ["[".repeat(100_000), "- ".repeat(10_000), "{a: ".repeat(100_000)] {
            assert_eq!(told(&text).len(), 1, "{}", &text[..8]);
        }
        assert!(told(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_empty());
    }

    #[test]
    fn what_yaml_allows_and_we_do_not_is_told_and_read_on() {
        let text = "a: !t 1\n? [k]\n: v\n'': ok\nb: 1\nb: 2\n: n\nc: &x [*x]\n";
        assert_eq!(
            told(text),
            [
                "1:4+2 YAML tags are not supported: `!t`",
                "2:3+1 found a list, wanted a key",
                "6:1+1 `b` is written twice in this map",
                "7:1+1 found nothing, wanted a key",
                "8:8+2 the alias is inside of what it names",
            ]
        );
        assert_eq!(told("a: 1\n---\nb: 2\n"), ["2:1+3 a second document begins here"]);
    }

    #[test]
    fn syntax_errors_are_told_in_plain_words() {
        for (text, message) in [
            ("a:\n\tb: 1\n", "2:1+1 a tab: YAML needs spaces"),
            ("a: b: c\n", "1:4+4 without quotes, this value cannot have a `: ` in it"),
            ("a: \"b\n", "1:4+1 this quote is never closed"),
            ("a: @b\n", "1:4+1 a text cannot begin with `@`"),
            ("a: *b\n", "1:4+1 this alias is not defined"),
            ("a: {b: 1\n", "1:4+1 this `{` is never closed"),
            ("a: {id, x: .y[:10]}\n", "1:12+7 inside `{ }` a value with brackets needs quotes"),
            ("a: {b: c /{d} e, f: g}\n", "1:8+8 inside `{ }` a value with braces needs quotes"),
            ("a: [b: c /{d}, e: f]\n", "1:8+6 inside `[ ]` a value with braces needs quotes"),
            ("a: {b: c\n  d: e}\n", "2:3+1 a `,` is missing before `d`"),
            ("a: 1\n  b: 2\n", "2:3+1 `a` has a value on its own line, so nothing can be below it"),
            ("a: [1\nb: 2\n", "1:4+1 this `[` is never closed"),
            ("a:\n  - b\n  c: d\n", "3:3+1 `c` is between the items of a list"),
            ("a: 1\nword\n", "2:1+4 there is no `:` after `word`"),
            (
                "a:\n  b: 'c,\n  d: e}'\n",
                "3:3+6 the text in quotes goes on here, not indented further than its key in line 2",
            ),
            ("a:\n  b: 'c,\n  d: 'e'\n", "2:6+1 this quote is never closed"),
            ("a:\n \u{a0}b: c\n", "2:2+1 a space that is none to YAML (U+00A0)"),
            ("a: 'b 'c' d'\n", "1:7+1 the text ends at this quote, and more follows"),
        ] {
            assert_eq!(told(text), [message], "{text:?}");
        }
    }

    #[test]
    fn parts_of_scalars_are_found_where_they_stand() {
        aligned("a: .b | é | .d # note\n", &[".b", "é", ".d"]);
        aligned("a: 'it''s é \"x\" y'\n", &["it", "s é", "y"]);
        aligned("a: \"b\\n\\u00e9 c\\t\\\\ d\"\n", &["b", "c", " d"]);
        aligned("a: |\n  .x\n    | .y\n\n  | .z\n", &[".x", "| .y", "| .z"]);
        aligned("a: >-\n  .x\n  | .y\n\n  | .z\n    more\n  end\n", &[".x", ".y", ".z", "more", "end"]);
        aligned("a: .x |\n   .y\n\n   | .z\n", &[".x", ".y", ".z"]);
        aligned("a: '{id, it''s,  \n     priority: (.p\n\n   | q)}'\n", &["{id, it", "s,", "priority:", ".p", "| q"]);
        aligned("a: \"one \\\n   two\n   three \\\n\n   \\  four\"\n", &["one", "two", "three", "four"]);
    }

    #[test]
    fn parts_are_found_behind_anchors_windows_lines_and_variables() {
        aligned("a: &n 'b ''c'\n", &["b", "c"]);
        aligned("a: &n !x\n  b c\n".replace(" !x", "").as_str(), &["b", "c"]);
        aligned("a: &n | # note\n   b c\n   d\n", &["b", "c", "d"]);
        aligned("a: 'b\r\n   c\r\n\r\n   d'\r\n", &["b", "c", "d"]);
        aligned("a: 'b ${PORT} c\n   d ${PORT} e'\n", &["b", "c", "d", "e"]);
        aligned("a:\n  .x\n  .y\n", &[".x", ".y"]);
    }

    #[test]
    fn what_goes_over_lines_is_shown_to_the_end_of_the_first() {
        let text = value("a: '{id,  \n   x}'\n");
        let span = text.at(0, text.value.len());
        assert_eq!((span.line, span.column, span.length), (1, 5, 4));
        let escape = value("a: \"b\\n.c\"\n").at(1, 1);
        assert_eq!((escape.column, escape.length), (6, 2));
        let end = value("a: .b +\n").at(4, 1);
        assert_eq!((end.line, end.column, end.length), (1, 8, 1));
    }

    #[test]
    fn no_text_stops_the_reader() {
        let seed = "a: &x {b: 'c''d', e: [\"f\\n\\u00e9 ${PORT:-1}\", *x]}\n<<: *x\ng: !t |2-\n   h\n\n  i\n? j\n: >\n k\n - l\r\n";
        let seed: Vec<char> = seed.chars().collect();
        // A fixed sequence (Knuth's MMIX constants), so that a failure comes again.
        let mut state = 1_u64;
        let mut pick = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..3_000 {
            let mut text = seed.clone();
            for _ in 0..=pick(6) {
                let (at, from) = (pick(text.len()), seed[pick(seed.len())]);
                match pick(3) {
                    0 => drop(text.remove(at)),
                    1 => text.insert(at, from),
                    _ => text[at] = from,
                }
            }
            let text: String = text.into_iter().map(|letter| if letter == '\r' { '\n' } else { letter }).collect();
            let (node, told) = parse(&text);
            assert!(node.is_some() || !told.is_empty(), "{text:?}");
            let lines: Vec<Vec<char>> = text.split('\n').map(|line| line.chars().collect()).collect();
            node.iter().for_each(|node| walk(node, &lines));
        }
    }

    /// Asks for every place there is; a character that stands for itself must be found at its own.
    fn walk(node: &Node, lines: &[Vec<char>]) {
        if let Some(text) = node.as_text() {
            (0..=text.value.len() + 1).for_each(|at| assert!(text.at(at, 2).length > 0 && text.at(at, 0).line > 0));
            for (offset, letter) in text.value.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
                let span = text.at(offset, letter.len_utf8());
                let found = lines[span.line as usize - 1].get(span.column as usize - 1);
                assert!(span.length > 1 || found == Some(&letter), "{letter:?} at {span:?} of {text:?} in {lines:?}");
            }
        }
        node.as_list().unwrap_or_default().iter().for_each(|node| walk(node, lines));
        node.as_map().unwrap_or_default().iter().for_each(|(_, value)| walk(value, lines));
    }
}
