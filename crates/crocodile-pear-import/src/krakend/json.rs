//! JSON as a tree in which every part knows its place.

use crocodile_pear_spec::problem::Span;
use crocodile_pear_spec::settings::{Located, Node, NodeKind};

/// How deep values may lie in each other: far more than KrakenD needs.
const DEEPEST: usize = 100;

/// Why a text cannot be parsed, and where.
pub struct ParseError {
    pub span: Span,
    pub message: String,
    pub remedy: &'static str,
}

/// A tree, and the keys that the same object names again further down: the last one counts, as in Go.
pub struct Tree {
    pub root: Node,
    pub repeated: Vec<Located<String>>,
}

/// Reads a text as one value of JSON.
///
/// # Errors
/// The first place where it is not JSON.
pub fn read(text: &str) -> Result<Tree, ParseError> {
    let mut reader = JsonReader { rest: text, line: 1, column: 1, depth: 0, repeated: Vec::new() };
    let root = reader.value()?;
    reader.space();
    match reader.rest.is_empty() {
        true => Ok(Tree { root, repeated: reader.repeated }),
        false => Err(reader.fault("found more text after the end of the JSON value", "remove it")),
    }
}

struct JsonReader<'a> {
    rest: &'a str,
    line: u32,
    column: u32,
    depth: usize,
    repeated: Vec<Located<String>>,
}

impl<'a> JsonReader<'a> {
    fn fault(&self, message: impl Into<String>, remedy: &'static str) -> ParseError {
        ParseError { span: self.span(1), message: message.into(), remedy }
    }

    fn span(&self, length: u32) -> Span {
        Span { file: 0, line: self.line, column: self.column, length }
    }

    /// The place from a span's begin to here; of a value of several lines, its first character.
    fn since(&self, begin: Span) -> Span {
        let length = if self.line == begin.line { self.column.saturating_sub(begin.column).max(1) } else { 1 };
        Span { length, ..begin }
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        for letter in taken.chars() {
            match letter {
                '\n' => (self.line, self.column) = (self.line + 1, 1),
                _ => self.column += 1,
            }
        }
        self.rest = rest;
        taken
    }

    fn space(&mut self) {
        let end = self.rest.find(|letter| !matches!(letter, ' ' | '\t' | '\n' | '\r')).unwrap_or(self.rest.len());
        self.advance(end);
    }

    fn accept(&mut self, letter: char) -> bool {
        self.space();
        let found = self.rest.starts_with(letter);
        if found {
            self.advance(letter.len_utf8());
        }
        found
    }

    fn value(&mut self) -> Result<Node, ParseError> {
        self.space();
        let begin = self.span(1);
        let kind = match self.rest.chars().next() {
            Some('{') => self.nested(Self::object)?,
            Some('[') => self.nested(Self::array)?,
            Some('"') => NodeKind::Scalar { text: self.string()?, quoted: true, runs: None },
            Some(_) => self.word()?,
            None => return Err(self.fault("the file ends here, and a value is missing", "")),
        };
        Ok(Node { span: self.since(begin), kind })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<NodeKind, ParseError>) -> Result<NodeKind, ParseError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.fault(format!("more than {DEEPEST} values lie in each other here"), ""));
        }
        let kind = read(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn object(&mut self) -> Result<NodeKind, ParseError> {
        self.advance(1);
        let mut entries: Vec<(Located<String>, Node)> = Vec::new();
        if self.accept('}') {
            return Ok(NodeKind::Map(entries));
        }
        loop {
            self.space();
            let begin = self.span(1);
            if !self.rest.starts_with('"') {
                return Err(self.fault("expected a key in double quotes", self.hint()));
            }
            let key = self.string()?;
            let key = Located::new(key, self.since(begin));
            if !self.accept(':') {
                return Err(self.fault("expected `:` after the key", ""));
            }
            let value = self.value()?;
            match entries.iter_mut().find(|(other, _)| other.value == key.value) {
                Some(entry) => {
                    let (first, _) = std::mem::replace(entry, (key, value));
                    self.repeated.push(first);
                }
                None => entries.push((key, value)),
            }
            if self.accept('}') {
                return Ok(NodeKind::Map(entries));
            }
            if !self.accept(',') {
                return Err(self.fault("expected `,` or `}`", self.hint()));
            }
        }
    }

    fn array(&mut self) -> Result<NodeKind, ParseError> {
        self.advance(1);
        let mut items = Vec::new();
        if self.accept(']') {
            return Ok(NodeKind::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.accept(']') {
                return Ok(NodeKind::List(items));
            }
            if !self.accept(',') {
                return Err(self.fault("expected `,` or `]`", self.hint()));
            }
        }
    }

    /// A hint at the syntax that people write in JSON files and that is not JSON.
    fn hint(&self) -> &'static str {
        match self.rest.as_bytes() {
            [b'{', b'{', ..] => {
                "this is a template: render it first with `FC_ENABLE=1 FC_OUT=out.json krakend check -c FILE`"
            }
            [b'/', b'/' | b'*', ..] | [b'#', ..] => "JSON has no comments",
            [b'}' | b']', ..] => "remove the `,` before it",
            [b'\'', ..] => "write `\"` instead of `'`",
            _ => "",
        }
    }

    fn word(&mut self) -> Result<NodeKind, ParseError> {
        let stop = |letter: char| letter.is_whitespace() || ",:{}[]\"".contains(letter);
        let end = self.rest.find(stop).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        let is_number = serde_json::from_str::<serde_json::Number>(word).is_ok();
        if word != "null" && word != "true" && word != "false" && !is_number {
            return Err(self.fault("expected a value", self.hint()));
        }
        let text = self.advance(end).to_owned();
        Ok(if text == "null" { NodeKind::Null } else { NodeKind::Scalar { text, quoted: false, runs: None } })
    }

    fn string(&mut self) -> Result<String, ParseError> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '\n' || (*letter == '"' && !escaped);
            escaped = *letter == '\\' && !escaped;
            ends
        });
        let end = end.filter(|(at, _)| self.rest[*at..].starts_with('"')).map(|(at, _)| at + 1);
        let Some(end) = end else { return Err(self.fault("this text has no `\"` at its end", "")) };
        match serde_json::from_str(&self.rest[..end]) {
            Ok(text) => {
                self.advance(end);
                Ok(text)
            }
            Err(_) => Err(self.fault("this text has an escape or a character that JSON does not allow", "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn every_part_has_its_place() {
        let tree = read("{\n  \"é\": [1, {\"a\\n\": null}],\n \"b\": true, \"b\": \"x\" }\n").ok().expect("JSON");
        let map = tree.root.as_map().expect("an object");
        let place = |span: crocodile_pear_spec::problem::Span| (span.line, span.column, span.length);
        assert_eq!(place(map[0].0.span), (2, 3, 3));
        let list = map[0].1.as_list().expect("a list");
        assert_eq!((place(map[0].1.span), place(list[0].span)), ((2, 8, 18), (2, 9, 1)));
        assert_eq!(list[1].as_map().expect("an object")[0].0.value, "a\n");
        assert_eq!((map.len(), map[1].1.as_text().map(|text| text.value)), (2, Some("x".to_owned())));
        assert_eq!(tree.repeated.iter().map(|key| place(key.span)).collect::<Vec<_>>(), [(3, 2, 3)]);
    }

    #[test]
    fn the_first_fault_is_named_with_its_place() {
        for (text, line, column, message) in [
            ("", 1, 1, "the file ends here"),
            ("{\n  a: 1}", 2, 3, "a key in double quotes"),
            ("{\"a\": 1,}", 1, 9, "a key in double quotes"),
            ("[1 2]", 1, 4, "expected `,` or `]`"),
            ("{\"a\" 1}", 1, 6, "expected `:`"),
            ("[1] 2", 1, 5, "more text"),
            ("[\"a]", 1, 2, "no `\"` at its end"),
            ("[\"\\x\"]", 1, 2, "an escape"),
            ("[01]", 1, 2, "expected a value"),
            ("[NaN]", 1, 2, "expected a value"),
            ("[\"\\ud800\"]", 1, 2, "an escape"),
        ] {
            let fault = read(text).err().expect(text);
            assert_eq!((fault.span.line, fault.span.column), (line, column), "{text}");
            assert!(fault.message.contains(message), "{text}: {}", fault.message);
        }
        assert!(read(&"[".repeat(100_000)).is_err());
        assert!(read(&("[".repeat(100) + &"]".repeat(100))).is_ok());
    }
}
