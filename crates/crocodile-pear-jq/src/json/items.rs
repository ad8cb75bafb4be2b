//! The items of a list within a document. Each is returned as soon as it is complete, while the rest still arrives.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use memchr::{memchr, memchr2};

use super::check::{Checker, check};
use super::look::look;
use super::raw::Raw;
use super::read::read;
use super::scan;
use super::text::{DEPTH, is_space, trim, unmarked};
use super::value;
#[cfg(not(feature = "expressions"))]
use super::value::{Shape, Value};
use super::walk;
use crate::error::{Error, Kind};

/// The position of a list in a document: the keys that lead to it from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    keys: Vec<PathKey>,
    /// Whether it ends in `[]?`: a value that is no list has no items.
    optional: bool,
}

/// A key of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathKey {
    name: Box<str>,
    /// Whether a `?` follows it: a value that is no object has no items.
    optional: bool,
}

impl Path {
    /// Parses an expression that is just a path: `.[]`, `.cases[]?`, `.a["b c"].d[]`; `None` for any other expression.
    pub fn parse(expression: &str) -> Option<Self> {
        let text = expression.trim();
        let optional = text.ends_with('?');
        let text = text.strip_suffix('?').unwrap_or(text);
        let mut rest = text.strip_suffix("[]")?.strip_prefix('.')?;
        let mut keys = Vec::new();
        while !rest.is_empty() {
            let (name, after) = key(rest)?;
            let optional = after.starts_with('?');
            keys.push(PathKey { name, optional });
            let after = after.strip_prefix('?').unwrap_or(after);
            rest = match after.strip_prefix('.') {
                Some("") => return None,
                Some(after) => after,
                None if after.is_empty() || after.starts_with('[') => after,
                None => return None,
            };
        }
        Some(Path { keys, optional })
    }

    /// Whether the document itself is the list.
    #[inline]
    pub fn is_root(&self) -> bool {
        self.keys.is_empty()
    }

    /// The items of a value that is there whole, as jq has it.
    ///
    /// # Errors
    /// `Expression` for a key of what is no object, and for the items of what is no list.
    #[cfg(not(feature = "expressions"))]
    pub fn items_of(&self, value: &Value) -> Result<Vec<Value>, Error> {
        let wrong = |detail: String| Err(Error::new(Kind::Expression, detail));
        let mut value = value.clone();
        for key in &self.keys {
            value = match value::shape(&value) {
                Shape::Null => value::null(),
                Shape::Object(fields) => fields.get(&value::string(&key.name)).cloned().unwrap_or_else(value::null),
                _ if key.optional => return Ok(Vec::new()),
                _ => return wrong(format!("cannot index {} with \"{}\"", value::kind(&value), key.name)),
            };
        }
        match value::shape(&value) {
            Shape::List(items) => Ok(items.to_vec()),
            Shape::Object(fields) => Ok(fields.values().cloned().collect()),
            _ if self.optional => Ok(Vec::new()),
            _ => wrong(format!("cannot iterate over {}", value::kind(&value))),
        }
    }

    /// Whether a value that begins with this byte, at the end of the first `found` keys, has no items and is no error,
    /// as jq has it. A key that is missing is null, and null has all keys.
    fn is_empty_at(&self, found: usize, byte: u8) -> bool {
        match self.keys.get(found) {
            Some(_) if matches!(byte, b'n' | b'}') => self.optional,
            Some(key) => key.optional,
            None => self.optional,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, PathKey { name, .. }) in self.keys.iter().enumerate() {
            match key(name) {
                Some((_, "")) => write!(f, ".{name}")?,
                _ if at == 0 => write!(f, ".[\"{name}\"]")?,
                _ => write!(f, "[\"{name}\"]")?,
            }
        }
        if self.is_root() { f.write_str(".") } else { Ok(()) }
    }
}

/// The first key of a path, and the rest of the path.
fn key(path: &str) -> Option<(Box<str>, &str)> {
    if let Some(quoted) = path.strip_prefix("[\"") {
        let (key, after) = quoted.split_once("\"]")?;
        return (!key.contains(['\\', '"'])).then(|| (key.into(), after));
    }
    let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(path.len());
    let starts = path.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts.then(|| (path[..end].into(), &path[end..]))
}

/// Reads the items of one list, or the values of one object, from a document that arrives in pieces.
///
/// The reader checks the whole document as it passes, so every returned item is valid JSON. If a key occurs twice, the last
/// value counts, as for [`read`]; if items of the first value were already returned, it is an error. It buffers the
/// beginning of one item, at most `bound` bytes.
pub struct Items {
    form: Form,
    bound: usize,
    checker: Checker,
    chunk: Bytes,
    /// How many bytes of the chunk were scanned (`at`), and how many were checked (`fed`).
    at: usize,
    fed: usize,
    /// Whether nothing was pushed yet.
    fresh: bool,
    /// The beginning, from earlier chunks, of the current item or key.
    begun: Vec<u8>,
    /// Where the current item or key begins in this chunk.
    from: Option<usize>,
    quote: Quote,
    depth: usize,
    /// An upper bound for the nesting depth of the last returned item, if the item is known to be parseable.
    sound: Option<u8>,
}

enum Form {
    /// A whole document.
    Document(PathPlace),
    /// A document on each line.
    Lines,
    /// A document that arrived in one piece.
    Whole(Listed),
}

/// A checked list.
struct Listed {
    list: Bytes,
    /// Where the search for the next item starts.
    at: usize,
    /// An upper bound for the nesting depth of the items.
    depth: u8,
}

struct PathPlace {
    path: Arc<Path>,
    stage: Stage,
    /// Whether a key must come next in the object whose keys are read.
    key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// This many keys of the path led to the innermost open object on it. The flag says whether the next value at that
    /// depth belongs to the path.
    Seeking(usize, bool),
    /// Between the items of the list at this depth.
    Between(usize, Nest),
    /// Inside an item.
    Within(usize, Nest),
    /// After the list; this many objects of the path are still open.
    Behind(usize),
    /// The list, or a key that leads to it, occurs a second time.
    Twice,
    /// There is no list. The value found instead begins with this byte; `}` if a key is missing.
    Unfit(u8),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nest {
    List,
    Object,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    Outside,
    Inside,
    Escaped,
}

impl Items {
    /// A reader of the list at `path`, with items of at most `bound` bytes.
    pub fn at(path: Arc<Path>, bound: usize) -> Self {
        Self::new(Form::Document(PathPlace { path, stage: Stage::Seeking(0, true), key: false }), bound)
    }

    /// A reader of lines, each a document of at most `bound` bytes. It skips empty lines.
    pub fn of_lines(bound: usize) -> Self {
        Self::new(Form::Lines, bound)
    }

    fn new(form: Form, bound: usize) -> Self {
        let (chunk, begun) = (Bytes::new(), Vec::new());
        let checker = Checker::new();
        let (from, quote) = (None, Quote::Outside);
        Items { form, bound, checker, chunk, at: 0, fed: 0, fresh: true, begun, from, quote, depth: 0, sound: None }
    }

    /// Takes the next piece of the body. The caller must have read the previous piece to its end with `next`.
    pub fn push(&mut self, chunk: Bytes) {
        let chunk = if std::mem::replace(&mut self.fresh, false) { unmarked(chunk) } else { chunk };
        if let Form::Document(PathPlace { path, stage: Stage::Seeking(0, true), .. }) = &self.form
            && let Some(listed) = Listed::within(&chunk, path)
        {
            self.form = Form::Whole(listed);
            return;
        }
        (self.chunk, self.at, self.fed) = (chunk, 0, 0);
        self.from = self.from.map(|_| 0);
    }

    /// The next complete item; `None` when it needs more bytes.
    ///
    /// # Errors
    /// `Malformed` for bytes that are not JSON and `Oversized` for an item larger than `bound`. No items come after an
    /// error.
    #[allow(clippy::should_implement_trait, reason = "an iterator would end for good where more can be pushed")]
    pub fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self.form {
            Form::Lines => self.line(),
            Form::Document(_) => self.item(),
            Form::Whole(_) => self.listed(),
        }
    }

    /// An upper bound for the nesting depth of the last item, if the item is known to be parseable JSON.
    #[inline]
    pub fn depth(&self) -> Option<u8> {
        self.sound
    }

    /// Ends the body: nothing more comes. The last line may lack its line end.
    ///
    /// # Errors
    /// `Malformed` if the document is not complete, or has no list at the path.
    pub fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        let place = match &self.form {
            Form::Document(place) => place,
            Form::Lines => return whole_line(std::mem::take(&mut self.begun).into()),
            Form::Whole(_) => return Ok(None),
        };
        std::mem::take(&mut self.checker).finish()?;
        match place.stage {
            Stage::Behind(_) => Ok(None),
            Stage::Twice => Err(place.twice()),
            Stage::Unfit(byte) => Err(place.expected(found(byte))),
            _ => Err(place.expected("nothing")),
        }
    }

    fn line(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(length) = memchr(b'\n', &self.chunk[self.at..]) {
            let piece = self.chunk.slice(self.at..self.at + length);
            self.at += length + 1;
            let line = self.join(piece)?;
            if let Some(line) = whole_line(line)? {
                return Ok(Some(line));
            }
        }
        let rest = self.chunk.slice(self.at..);
        self.at = self.chunk.len();
        self.keep(&rest).map(|()| None)
    }

    fn listed(&mut self) -> Result<Option<Bytes>, Error> {
        let Form::Whole(listed) = &mut self.form else { return Ok(None) };
        if let Some(item) = walk::item(&listed.list, listed.at) {
            listed.at = item.end;
            self.sound = Some(listed.depth);
            let item = listed.list.slice(item);
            return self.join(item).map(Some);
        }
        match self.chunk.iter().all(|byte| is_space(*byte)) {
            true => Ok(None),
            false => Err(Error::new(Kind::Malformed, "not valid JSON: there is data after the value")),
        }
    }

    fn item(&mut self) -> Result<Option<Bytes>, Error> {
        self.sound = None;
        while self.at < self.chunk.len() {
            if let Some(item) = self.nested()? {
                return Ok(Some(item));
            }
            let before = self.at;
            let whole = match self.quote {
                Quote::Outside => self.byte(),
                _ => self.text(),
            };
            if whole {
                // Only the next byte shows that a number or a word is complete.
                let checked = if self.at == before { self.at + 1 } else { self.at };
                return self.hand(checked).map(Some);
            }
        }
        self.feed(self.chunk.len())?;
        if let Some(from) = &mut self.from {
            // Keep it only once, even if the caller polls again.
            let rest = self.chunk.slice(std::mem::replace(from, self.chunk.len())..);
            self.keep(&rest)?;
        }
        Ok(None)
    }

    /// A list or an object that begins here as an item and ends in this chunk. It is checked in one step.
    fn nested(&mut self) -> Result<Option<Bytes>, Error> {
        let Form::Document(place) = &self.form else { return Ok(None) };
        let Stage::Between(level, _) = place.stage else { return Ok(None) };
        if self.quote != Quote::Outside || place.key || !matches!(self.chunk[self.at], b'{' | b'[') {
            return Ok(None);
        }
        let end = scan::end(&self.chunk, self.at);
        let item = self.chunk.slice(self.at..end);
        let seen = look(&item).filter(|seen| !seen.endless && level + usize::from(seen.depth) <= DEPTH);
        let Some(seen) = seen else { return Ok(None) };
        self.feed(self.at)?;
        if !self.checker.pass(item.len()) {
            return Ok(None);
        }
        (self.at, self.fed, self.sound) = (end, end, Some(seen.depth));
        self.join(item).map(Some)
    }

    /// The item that ends here, checked up to `end`.
    fn hand(&mut self, end: usize) -> Result<Bytes, Error> {
        self.feed(end)?;
        let piece = self.chunk.slice(self.from.take().unwrap_or(self.at)..self.at);
        let item = self.join(piece)?;
        Ok(trim(&item))
    }

    fn feed(&mut self, end: usize) -> Result<(), Error> {
        let fed = std::mem::replace(&mut self.fed, end);
        self.checker.push(&self.chunk[fed..end])
    }

    /// Joins the kept bytes with this piece; shares the bytes if nothing was kept.
    fn join(&mut self, piece: Bytes) -> Result<Bytes, Error> {
        if self.begun.is_empty() && piece.len() <= self.bound {
            return Ok(piece);
        }
        self.keep(&piece)?;
        Ok(std::mem::take(&mut self.begun).into())
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), Error> {
        if self.begun.len() + piece.len() > self.bound {
            return Err(Error::new(Kind::Oversized, format!("an item is larger than {} bytes", self.bound)));
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }

    /// Continues inside a string. Returns whether an item ends with it.
    fn text(&mut self) -> bool {
        if self.quote == Quote::Escaped {
            self.at += 1;
            self.quote = Quote::Inside;
            return false;
        }
        let Some(found) = memchr2(b'"', b'\\', &self.chunk[self.at..]) else {
            self.at = self.chunk.len();
            return false;
        };
        self.at += found + 1;
        if self.chunk[self.at - 1] == b'\\' {
            self.quote = Quote::Escaped;
            return false;
        }
        self.quote = Quote::Outside;
        self.string_ends()
    }

    fn string_ends(&mut self) -> bool {
        let depth = self.depth;
        let Form::Document(place) = &mut self.form else { return false };
        match place.stage {
            Stage::Within(level, nest) if depth == level => {
                place.stage = Stage::Between(level, nest);
                true
            }
            Stage::Seeking(found, _) if place.key && depth == found => {
                let Some(from) = self.from.take() else { return false };
                self.begun.extend_from_slice(&self.chunk[from..self.at]);
                let key = std::mem::take(&mut self.begun);
                place.stage = Stage::Seeking(found, place.names(found, &key));
                false
            }
            Stage::Behind(open) if place.key && depth == open => {
                let Some(from) = self.from.take() else { return false };
                self.begun.extend_from_slice(&self.chunk[from..self.at]);
                let key = std::mem::take(&mut self.begun);
                if place.names(open, &key) {
                    place.stage = Stage::Twice;
                }
                false
            }
            _ => false,
        }
    }

    /// Handles a byte outside strings. Returns whether an item ends here.
    fn byte(&mut self) -> bool {
        let byte = self.chunk[self.at];
        let Form::Document(place) = &mut self.form else { return false };
        let whole = match place.stage {
            Stage::Seeking(found, next) => {
                place.seek(byte, found, next, self.depth);
                // A key begins in an object on the path.
                if byte == b'"' && place.key && self.depth == found && found > 0 {
                    self.from = Some(self.at);
                }
                false
            }
            Stage::Between(level, nest) => {
                if place.between(byte, level, nest) {
                    self.from = Some(self.at);
                }
                false
            }
            Stage::Within(level, nest) => {
                // A number or a word ends before the next byte; a list or an object ends with its bracket.
                let ends = self.depth == level && matches!(byte, b',' | b']' | b'}');
                let closes = self.depth == level + 1 && matches!(byte, b']' | b'}');
                if ends || closes {
                    place.stage = Stage::Between(level, nest);
                }
                if ends {
                    return true;
                }
                closes
            }
            Stage::Behind(open @ 1..) => {
                if place.behind(byte, open, self.depth) {
                    self.from = Some(self.at);
                }
                false
            }
            Stage::Behind(0) | Stage::Twice | Stage::Unfit(_) => {
                self.at = self.chunk.len();
                return false;
            }
        };
        match byte {
            b'"' => self.quote = Quote::Inside,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.at += 1;
        whole
    }
}

impl Listed {
    /// The list at this path, if the piece is a whole valid document. For any other piece, the byte-by-byte reader
    /// finds the error.
    fn within(piece: &Bytes, path: &Path) -> Option<Self> {
        if !piece.trim_ascii_end().ends_with(b"]") && !piece.trim_ascii_end().ends_with(b"}") {
            return None;
        }
        let raw = Raw::check(piece).ok()?;
        let mut list = &raw.bytes()[..];
        for wanted in &path.keys {
            list = walk::Entries::of(list)?.filter(|(key, _)| walk::is(key, &wanted.name)).last()?.1;
        }
        let levels = u8::try_from(path.keys.len() + 1).ok()?;
        let is_list = matches!(list.first(), Some(b'[' | b'{'));
        is_list.then(|| Listed { list: raw.bytes().slice_ref(list), at: 1, depth: raw.depth().saturating_sub(levels) })
    }
}

/// The type of a value, by its first byte.
fn found(byte: u8) -> &'static str {
    match byte {
        b'[' => "an array",
        b'{' => "an object",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        b'}' => "nothing",
        _ => "a number",
    }
}

impl PathPlace {
    fn expected(&self, found: &str) -> Error {
        Error::new(Kind::Malformed, format!("expected a JSON array at `{}`, found {found}", self.path))
    }

    fn twice(&self) -> Error {
        Error::new(Kind::Malformed, format!("not valid JSON: a key of `{}` is there twice", self.path))
    }

    /// Whether this key, as it is in the document, is the next key of the path after the first `found` ones.
    fn names(&self, found: usize, key: &[u8]) -> bool {
        self.path.keys.get(found - 1).is_some_and(|wanted| same(key, &wanted.name))
    }

    /// Handles a byte after the list. Returns whether a key begins in an object of the path.
    fn behind(&mut self, byte: u8, open: usize, depth: usize) -> bool {
        if depth != open {
            return false;
        }
        match byte {
            b',' => self.key = true,
            b':' => self.key = false,
            b'}' => (self.key, self.stage) = (false, Stage::Behind(open - 1)),
            b'"' => return self.key,
            _ => {}
        }
        false
    }

    /// Handles a byte before the list.
    fn seek(&mut self, byte: u8, found: usize, next: bool, depth: usize) {
        let here = next && depth == found && !(self.key && depth > 0);
        self.stage = match byte {
            b'{' | b'[' if here && found == self.path.keys.len() => {
                let nest = if byte == b'{' { Nest::Object } else { Nest::List };
                self.key = nest == Nest::Object;
                Stage::Between(depth + 1, nest)
            }
            b'{' if here => {
                self.key = true;
                Stage::Seeking(found + 1, false)
            }
            b':' if depth == found => {
                self.key = false;
                return;
            }
            b',' if depth == found => {
                self.key = true;
                Stage::Seeking(found, false)
            }
            // The object on the path ends without the key.
            b'}' if depth == found && found > 0 => {
                self.key = false;
                if self.path.is_empty_at(found - 1, byte) { Stage::Behind(found - 1) } else { Stage::Unfit(byte) }
            }
            _ if is_space(byte) || !here => return,
            _ if self.path.is_empty_at(found, byte) => Stage::Behind(found),
            _ if found == self.path.keys.len() => Stage::Unfit(byte),
            // The path leads to a value that is not an object.
            _ => Stage::Unfit(b'}'),
        };
    }

    /// Handles a byte between items. Returns whether an item begins here.
    fn between(&mut self, byte: u8, level: usize, nest: Nest) -> bool {
        match byte {
            b']' | b'}' => {
                (self.key, self.stage) = (false, Stage::Behind(level - 1));
                false
            }
            b',' => {
                self.key = nest == Nest::Object;
                false
            }
            b':' if nest == Nest::Object => {
                self.key = false;
                false
            }
            _ if is_space(byte) || self.key => false,
            _ => {
                self.stage = Stage::Within(level, nest);
                true
            }
        }
    }
}

/// Whether a key as it is in the document, with its quotes, is this name.
fn same(written: &[u8], wanted: &str) -> bool {
    if memchr(b'\\', written).is_none() {
        return written.len() == wanted.len() + 2 && written[1..].starts_with(wanted.as_bytes());
    }
    read(&Bytes::copy_from_slice(written)).is_ok_and(|key| value::as_str(&key) == Some(wanted))
}

/// A checked line, unless it is empty.
fn whole_line(line: Bytes) -> Result<Option<Bytes>, Error> {
    let line = trim(&line);
    if line.is_empty() {
        return Ok(None);
    }
    check(&line)?;
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(expression: &str) -> Arc<Path> {
        Arc::new(Path::parse(expression).expect("a path"))
    }

    /// The items read from a document in pieces of this size, and the error, if any.
    fn run(mut items: Items, document: &str, size: usize) -> (Vec<String>, Option<Error>) {
        let mut handed = Vec::new();
        let text = |item: Bytes| String::from_utf8(item.to_vec()).expect("text");
        for piece in document.as_bytes().chunks(size) {
            items.push(Bytes::copy_from_slice(piece));
            loop {
                match items.next() {
                    Ok(Some(item)) => handed.push(text(item)),
                    Ok(None) => {
                        assert!(matches!(items.next(), Ok(None)), "who asks twice is told the same");
                        break;
                    }
                    Err(error) => return (handed, Some(error)),
                }
            }
        }
        match items.finish() {
            Ok(last) => handed.extend(last.map(text)),
            Err(error) => return (handed, Some(error)),
        }
        (handed, None)
    }

    fn items(expression: &str, document: &str) -> Vec<String> {
        let wanted = run(Items::at(path(expression), 1000), document, document.len());
        assert!(wanted.1.is_none(), "{document}: {:?}", wanted.1);
        for size in 1..document.len() {
            let handed = run(Items::at(path(expression), 1000), document, size);
            assert_eq!(handed.0, wanted.0, "{document} in pieces of {size}");
        }
        wanted.0
    }

    #[test]
    fn a_path_is_told_from_other_expressions() {
        for path in
            [".[]", " .cases[] ", ".a.b[]", ".a[\"b c\"][]", ".[\"a\"].b[]", ".[]?", ".a?.b[]?", ".a?[\"b\"]?[]"]
        {
            assert!(Path::parse(path).is_some(), "{path}");
        }
        for other in [
            "[]",
            ".",
            ".a",
            ".a[0][]",
            ".a[][]",
            ".a | .b[]",
            ".a??[]",
            ".[]??",
            ".?[]",
            "..[]",
            ".a.[]",
            ".\"a\"[]",
            "$a[]",
        ] {
            assert!(Path::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn items_are_the_same_however_the_body_is_divided() {
        assert_eq!(items(".[]", "[]"), Vec::<String>::new());
        assert_eq!(
            items(".[]", " [ 1 , \"a,]\\\"\" ,[2,[3]], {\"a\" : [\"}\"]} ,null ] "),
            ["1", "\"a,]\\\"\"", "[2,[3]]", "{\"a\" : [\"}\"]}", "null"]
        );
        let document =
            r#"{"x":{"cases":[0]},"l":[{"cases":[0]}],"s":"cases","c\u0061ses":[{"id":1},{"id":2.50}],"z":[9]}"#;
        assert_eq!(items(".cases[]", document), [r#"{"id":1}"#, r#"{"id":2.50}"#]);
        assert_eq!(items(".a.b[]", r#"{"b":[0],"a":{"a":{"b":[0]},"b":[true,false]},"b":[0]}"#), ["true", "false"]);
        assert_eq!(items(".a[]", r#"{"a":{"x":1,"y":{"z":[2]},"w":"t"}}"#), ["1", r#"{"z":[2]}"#, "\"t\""]);
    }

    #[test]
    fn what_stands_there_must_be_a_list() {
        for document in ["{}", "3", r#"{"a":1}"#, r#"{"a":"[1]"}"#, r#"{"b":[1]}"#, "[[1]]", r#"{"a":null,"b":[1]}"#] {
            for size in 1..=document.len() {
                let (handed, error) = run(Items::at(path(".a[]"), 1000), document, size);
                assert_eq!((handed.len(), error.map(|error| error.kind())), (0, Some(Kind::Malformed)), "{document}");
            }
        }
    }

    #[test]
    fn a_list_that_may_be_missing_is_empty_as_jq_has_it() {
        let paths = [".a[]?", ".a.b[]?", ".[]?", ".a?.b[]?", ".a?.b?[]?", ".a?[]", ".a?.b?[]"];
        let documents = [
            "{}",
            "3",
            "null",
            "\"[1]\"",
            "[[1]]",
            r#"{"b":[1]}"#,
            r#"{"a":null,"b":[1]}"#,
            r#"{"a":"[1]","c":{"a":[1]}}"#,
            r#"{"a":{"b":null},"c":[{"b":[1]}]}"#,
            r#"{"a":{"c":[1]},"b":[2]}"#,
            r#"{"a":[{"b":[1]}]}"#,
            r#"{"a":{"b":[1,{"b":2}]},"c":3}"#,
            r#"{"a":7,"c":"x"}"#,
        ];
        for (expression, document) in paths.iter().flat_map(|path| documents.map(|document| (path, document))) {
            let filter = crate::jq::Filter::compile(expression, &[]).expect("an expression");
            let value = read(&Bytes::from(document)).expect("JSON");
            let wanted = filter.run(value, &mut |_| value::null()).ok();
            let wanted = wanted.map(|items| items.iter().map(ToString::to_string).collect::<Vec<_>>());
            for size in 1..=document.len() {
                let (items, error) = run(Items::at(path(expression), 1000), document, size);
                let read = error.is_none().then_some(items);
                assert_eq!(read, wanted, "{expression} in {document} by {size}");
            }
        }
    }

    #[test]
    fn an_empty_list_that_is_there_twice_is_never_half_read() {
        for document in [r#"{"a":null,"a":[1]}"#, r#"{"a":{"c":1},"a":{"b":[1]}}"#] {
            let expression = if document.contains("null") { ".a[]?" } else { ".a.b[]?" };
            let whole = run(Items::at(path(expression), 1000), document, document.len());
            assert_eq!(whole.0, ["1"]);
            for size in 1..document.len() {
                let (_, error) = run(Items::at(path(expression), 1000), document, size);
                assert!(error.is_some_and(|error| error.detail().contains("is there twice")), "{document} by {size}");
            }
        }
    }

    #[test]
    fn a_missing_list_is_told_with_its_path_and_what_stands_there() {
        for (expression, document, wanted) in [
            (".[]", "3", "expected a JSON array at `.`, found a number"),
            (".a[]", r#"{"a":"[1]"}"#, "expected a JSON array at `.a`, found a string"),
            (".a[]", r#"{"b":[1]}"#, "expected a JSON array at `.a`, found nothing"),
            (".a[]", "[[1]]", "expected a JSON array at `.a`, found nothing"),
            (".a[\"b c\"][]", r#"{"a":{"b c":null}}"#, "expected a JSON array at `.a[\"b c\"]`, found null"),
        ] {
            let (_, error) = run(Items::at(path(expression), 1000), document, document.len());
            assert_eq!(error.expect(document).detail(), wanted);
        }
    }

    #[test]
    fn what_comes_in_one_piece_is_the_end() {
        for (second, good) in [(" \n", true), ("", true), ("]", false), (",2", false)] {
            let mut items = Items::at(path(".a[]"), 1000);
            items.push(Bytes::from_static(b"{\"a\":[1]} "));
            assert!(matches!((items.next(), items.depth()), (Ok(Some(item)), Some(0)) if item == "1"));
            assert!(matches!(items.next(), Ok(None)));
            items.push(Bytes::from_static(second.as_bytes()));
            assert_eq!(items.next().is_ok(), good, "{second}");
            assert!(!good || items.finish().is_ok_and(|rest| rest.is_none()));
        }
    }

    #[test]
    fn items_that_are_whole_in_a_piece_are_known_to_be_sound() {
        let mut items = Items::at(path(".a[]"), 1000);
        items.push(Bytes::from_static(b"{\"a\":[{\"b\":[1]}, 2, [], {\"c\":"));
        let mut handed = Vec::new();
        while let Ok(Some(item)) = items.next() {
            handed.push((String::from_utf8_lossy(&item).into_owned(), items.depth()));
        }
        items.push(Bytes::from_static(b"3}, {}]}"));
        while let Ok(Some(item)) = items.next() {
            handed.push((String::from_utf8_lossy(&item).into_owned(), items.depth()));
        }
        let wanted = [("{\"b\":[1]}", Some(2)), ("2", None), ("[]", Some(1)), ("{\"c\":3}", None), ("{}", Some(1))];
        assert_eq!(handed, wanted.map(|(item, depth)| (item.to_owned(), depth)));
        assert!(items.finish().is_ok());
    }

    #[test]
    fn a_whole_item_is_refused_where_none_may_stand() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (document, good) in [
            ("[{} {}]".to_owned(), false),
            ("[{}[]]".to_owned(), false),
            ("[{},{\"a\":}]".to_owned(), false),
            (format!("[1,{}]", nested(DEPTH)), false),
            (format!("[1,{}]", nested(DEPTH - 1)), true),
        ] {
            // In two pieces, so that the reader does not use the path for whole documents.
            let (_, error) = run(Items::at(path(".[]"), 1000), &document, document.len() - 1);
            assert_eq!(error.is_none(), good, "{document}");
        }
    }

    #[test]
    fn items_before_a_fault_are_handed_out() {
        for (document, whole) in [
            ("[1,2", 1),
            ("[1,2,", 2),
            ("[1,{\"a\":1}", 2),
            ("[1,2}", 1),
            ("[1,{\"a\":}]", 1),
            ("[1,2] 3", 2),
            ("[1,2.,3]", 1),
            ("[1,tru,3]", 1),
            ("[1,-]", 1),
        ] {
            let (handed, error) = run(Items::at(path(".[]"), 1000), document, document.len());
            assert_eq!((handed.len(), error.map(|error| error.kind())), (whole, Some(Kind::Malformed)), "{document}");
        }
        let deep = format!("[1,{}", "[".repeat(100_000));
        let (handed, error) = run(Items::at(path(".[]"), 1 << 20), &deep, 1000);
        assert_eq!((handed.len(), error.map(|error| error.kind())), (1, Some(Kind::Malformed)));
    }

    #[test]
    fn an_item_has_its_bound() {
        let long = format!("[1,\"{}\"]", "x".repeat(2000));
        for size in [100, 5000] {
            let (handed, error) = run(Items::at(path(".[]"), 1000), &long, size);
            assert_eq!((handed.len(), error.map(|error| error.kind())), (1, Some(Kind::Oversized)));
        }
    }

    #[test]
    fn lines_are_documents() {
        for size in [1, 3, 100] {
            let (handed, error) = run(Items::of_lines(100), "{\"a\":1}\r\n\n 2 \n[3]", size);
            assert_eq!(
                (handed, error.is_none()),
                (vec!["{\"a\":1}".to_owned(), "2".to_owned(), "[3]".to_owned()], true)
            );
        }
        let (handed, error) = run(Items::of_lines(100), "1\n{\n2\n", 3);
        assert_eq!((handed.len(), error.map(|error| error.kind())), (1, Some(Kind::Malformed)));
    }

    #[test]
    fn a_key_that_stands_twice_is_never_half_read() {
        let documents = [
            (".a[]", r#"{"a":[1],"b":{"a":2},"a":[3,4]}"#),
            (".a.b[]", r#"{"a":{"b":[1]},"c":[{"a":0}],"a":{"b":[3,4]}}"#),
            (".a.b[]", r#"{"a":{"b":[1],"b":[3,4]}}"#),
        ];
        for (expression, document) in documents {
            let whole = run(Items::at(path(expression), 1000), document, document.len());
            assert_eq!(whole.0, ["3", "4"], "{document}");
            for size in 1..document.len() {
                let (_, error) = run(Items::at(path(expression), 1000), document, size);
                assert!(error.is_some_and(|error| error.detail().contains("is there twice")), "{document} by {size}");
            }
        }
        let once = r#"{"a":{"b":[1],"c":{"b":[2],"a":3}},"b":[4],"d":[{"a":{"b":5}}]}"#;
        for size in 1..=once.len() {
            let (handed, error) = run(Items::at(path(".a.b[]"), 1000), once, size);
            assert_eq!((handed, error.is_none()), (vec!["1".to_owned()], true), "by {size}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_document() {
        let document = "\u{feff}[1,2]";
        assert_eq!(run(Items::at(path(".[]"), 100), document, document.len()).0, ["1", "2"]);
        assert_eq!(run(Items::of_lines(100), "\u{feff}1\n2\n", 4).0, ["1", "2"]);
    }
}
