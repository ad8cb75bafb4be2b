//! The skeleton of a document that arrives in pieces: the lists and objects that a reader opens, and the values in them.

use bytes::Bytes;
use memchr::memchr2;

use super::check::{Checker, check, unclear};
use super::look::look;
use super::raw::Raw;
use super::scan;
use super::text::{DEPTH, is_space, unmarked};
use crate::error::{Error, Kind};

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// A list or an object: value by value.
    Open,
    /// The part is read as one value.
    Whole,
    /// The part is checked and dropped.
    Skip,
}

/// A part of a document. A key is as it is written, with its quotes.
#[derive(Debug)]
pub enum Event {
    /// A list or an object was opened.
    Open(Option<Bytes>),
    /// A whole value.
    Value(Option<Bytes>, Raw),
    /// The innermost open list or object ends.
    Close,
}

/// Reads a document part by part, and checks all of it. It holds the beginning of one value, at most `bound` bytes.
#[derive(Clone)]
pub struct Skeleton {
    bound: usize,
    chunk: Bytes,
    at: usize,
    /// The beginning, from earlier pieces, of the value or key at hand.
    begun: Vec<u8>,
    token: Option<Token>,
    open: Vec<Nest>,
    expects: Expects,
    key: Option<Bytes>,
    /// Whether nothing was pushed yet.
    fresh: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nest {
    List,
    Object,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    Value,
    /// A value, or the end of an empty list.
    Item,
    Key,
    /// A key, or the end of an empty object.
    FirstKey,
    Colon,
    Comma,
    End,
}

/// A value or key that has begun.
#[derive(Clone)]
struct Token {
    scan: Scan,
    kind: TokenKind,
}

#[derive(Clone)]
enum TokenKind {
    Key,
    Value,
    Skipped(Box<Checker>),
}

/// How far a token was scanned for its end.
#[derive(Clone)]
struct Scan {
    form: ScanForm,
    text: bool,
    escaped: bool,
}

#[derive(Clone)]
enum ScanForm {
    /// With so many open lists and objects.
    Nested(usize),
    Text,
    /// A number or a word: it ends before the next sign.
    Word,
}

impl Scan {
    fn of(first: u8) -> Self {
        let form = match first {
            b'{' | b'[' => ScanForm::Nested(0),
            b'"' => ScanForm::Text,
            _ => ScanForm::Word,
        };
        Scan { form, text: false, escaped: false }
    }

    /// Where the token ends in this piece of it.
    fn end(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            if std::mem::take(&mut self.escaped) {
                at += 1;
                continue;
            }
            if self.text {
                at += memchr2(b'"', b'\\', &piece[at..])?;
                match piece[at] {
                    b'"' => self.text = false,
                    _ => self.escaped = true,
                }
                at += 1;
                if !self.text && matches!(self.form, ScanForm::Text) {
                    return Some(at);
                }
                continue;
            }
            match (&mut self.form, piece[at]) {
                (ScanForm::Word, byte) if is_space(byte) || matches!(byte, b',' | b']' | b'}' | b':') => {
                    return Some(at);
                }
                (ScanForm::Nested(_) | ScanForm::Text, b'"') => self.text = true,
                (ScanForm::Nested(open), b'{' | b'[') => *open += 1,
                (ScanForm::Nested(open), b'}' | b']') => {
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

impl Skeleton {
    /// A reader that holds at most `bound` bytes of one value.
    pub fn new(bound: usize) -> Self {
        Skeleton {
            bound,
            chunk: Bytes::new(),
            at: 0,
            begun: Vec::new(),
            token: None,
            open: Vec::new(),
            expects: Expects::Value,
            key: None,
            fresh: true,
        }
    }

    /// Takes the next piece of the body. The previous piece must have been read to its end.
    #[inline]
    pub fn push(&mut self, chunk: Bytes) {
        self.chunk = if std::mem::replace(&mut self.fresh, false) { unmarked(chunk) } else { chunk };
        self.at = 0;
    }

    /// How many lists and objects are open.
    #[inline]
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The next part; `None` when more bytes are needed. `take` decides how a value is read, by its key and first byte.
    ///
    /// # Errors
    /// `Malformed` for bytes that are not JSON and `Oversized` for a value larger than the bound. Nothing comes after it.
    pub fn next(&mut self, take: &mut dyn FnMut(Option<&[u8]>, u8) -> Take) -> Result<Option<Event>, Error> {
        loop {
            if self.token.is_some() {
                match self.resume()? {
                    Resumed::Event(event) => return Ok(Some(event)),
                    Resumed::Key => continue,
                    Resumed::Wait => return Ok(None),
                }
            }
            while self.chunk.get(self.at).is_some_and(|byte| is_space(*byte)) {
                self.at += 1;
            }
            let Some(byte) = self.chunk.get(self.at).copied() else { return Ok(None) };
            match (self.expects, byte) {
                (Expects::Item, b']') | (Expects::FirstKey, b'}') => return self.close(byte).map(Some),
                (Expects::Comma, b']' | b'}') => return self.close(byte).map(Some),
                (Expects::Comma, b',') => {
                    self.expects = if self.open.last() == Some(&Nest::Object) { Expects::Key } else { Expects::Value };
                    self.at += 1;
                }
                (Expects::Colon, b':') => {
                    self.expects = Expects::Value;
                    self.at += 1;
                }
                (Expects::Key | Expects::FirstKey, b'"') => {
                    self.token = Some(Token { scan: Scan::of(byte), kind: TokenKind::Key });
                }
                (Expects::Value | Expects::Item, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                    match take(self.key.as_deref(), byte) {
                        Take::Open if matches!(byte, b'{' | b'[') => return self.enter(byte).map(Some),
                        Take::Skip => {
                            let kind = TokenKind::Skipped(Box::default());
                            self.token = Some(Token { scan: Scan::of(byte), kind });
                        }
                        Take::Open | Take::Whole => {
                            if let Some(event) = self.whole(byte)? {
                                return Ok(Some(event));
                            }
                            self.token = Some(Token { scan: Scan::of(byte), kind: TokenKind::Value });
                        }
                    }
                }
                (Expects::End, _) => {
                    return Err(Error::new(Kind::Malformed, "not valid JSON: there is data after the value"));
                }
                _ => return Err(Error::new(Kind::Malformed, format!("not valid JSON: {}", self.expects.name()))),
            }
        }
    }

    /// Ends the body. A number or a word at the root ends with it.
    ///
    /// # Errors
    /// `Malformed` if the document is not complete.
    pub fn finish(&mut self) -> Result<Option<Event>, Error> {
        let incomplete = || Error::new(Kind::Malformed, "not valid JSON: the value is not complete");
        match self.token.take() {
            Some(Token { scan: Scan { form: ScanForm::Word, .. }, kind: TokenKind::Value }) if self.open.is_empty() => {
                self.expects = Expects::End;
                let word = Bytes::from(std::mem::take(&mut self.begun));
                self.value(word).map(Some)
            }
            None if self.expects == Expects::End => Ok(None),
            _ => Err(incomplete()),
        }
    }

    fn enter(&mut self, byte: u8) -> Result<Event, Error> {
        if self.open.len() >= DEPTH {
            return Err(deep());
        }
        self.at += 1;
        let (nest, expects) =
            if byte == b'{' { (Nest::Object, Expects::FirstKey) } else { (Nest::List, Expects::Item) };
        self.open.push(nest);
        self.expects = expects;
        Ok(Event::Open(self.key.take()))
    }

    fn close(&mut self, byte: u8) -> Result<Event, Error> {
        let nest = if byte == b'}' { Nest::Object } else { Nest::List };
        if self.open.pop() != Some(nest) {
            return Err(Error::new(Kind::Malformed, "not valid JSON: a list or an object ends with the wrong bracket"));
        }
        self.at += 1;
        self.after();
        Ok(Event::Close)
    }

    fn after(&mut self) {
        self.expects = if self.open.is_empty() { Expects::End } else { Expects::Comma };
    }

    /// A list or an object that ends in this piece. It is checked in one step.
    fn whole(&mut self, byte: u8) -> Result<Option<Event>, Error> {
        if !matches!(byte, b'{' | b'[') {
            return Ok(None);
        }
        let end = scan::end(&self.chunk, self.at);
        let bytes = self.chunk.slice(self.at..end);
        let Some(seen) = look(&bytes).filter(|seen| !seen.endless) else { return Ok(None) };
        if self.open.len() + usize::from(seen.depth) > DEPTH {
            return Err(deep());
        }
        self.within_bound(bytes.len())?;
        self.at = end;
        self.after();
        Ok(Some(Event::Value(self.key.take(), Raw::sound(bytes, seen.depth))))
    }

    fn resume(&mut self) -> Result<Resumed, Error> {
        let Some(token) = &mut self.token else { return Ok(Resumed::Wait) };
        let rest = &self.chunk[self.at..];
        let end = token.scan.end(rest);
        let piece = self.chunk.slice(self.at..self.at + end.unwrap_or(rest.len()));
        self.at += piece.len();
        if let TokenKind::Skipped(checker) = &mut token.kind {
            checker.push(&piece)?;
        } else if end.is_none() || !self.begun.is_empty() {
            self.within_bound(self.begun.len() + piece.len())?;
            self.begun.extend_from_slice(&piece);
        }
        if end.is_none() {
            return Ok(Resumed::Wait);
        }
        let whole = if self.begun.is_empty() { piece } else { Bytes::from(std::mem::take(&mut self.begun)) };
        match self.token.take().map(|token| token.kind) {
            Some(TokenKind::Key) => {
                look(&whole).ok_or_else(|| check(&whole).err().unwrap_or_else(unclear))?;
                self.key = Some(whole);
                self.expects = Expects::Colon;
                Ok(Resumed::Key)
            }
            Some(TokenKind::Skipped(checker)) => {
                checker.finish()?;
                self.key = None;
                self.after();
                Ok(Resumed::Key)
            }
            Some(TokenKind::Value) => {
                self.after();
                self.value(whole).map(Resumed::Event)
            }
            None => Ok(Resumed::Wait),
        }
    }

    fn value(&mut self, bytes: Bytes) -> Result<Event, Error> {
        self.within_bound(bytes.len())?;
        let raw = Raw::check(&bytes)?;
        let depth = look(&bytes).map_or(usize::from(raw.depth()), |seen| usize::from(seen.depth));
        if self.open.len() + depth > DEPTH {
            return Err(deep());
        }
        Ok(Event::Value(self.key.take(), raw))
    }

    fn within_bound(&self, size: usize) -> Result<(), Error> {
        if size <= self.bound {
            return Ok(());
        }
        Err(Error::new(Kind::Oversized, format!("a part of the document is larger than {} bytes", self.bound)))
    }
}

enum Resumed {
    Event(Event),
    /// A key, or a value that was skipped.
    Key,
    Wait,
}

impl Expects {
    fn name(self) -> &'static str {
        match self {
            Expects::Value | Expects::Item => "expected a value",
            Expects::Key | Expects::FirstKey => "expected a key",
            Expects::Colon => "expected a colon",
            Expects::Comma => "expected a comma or the end of a list or an object",
            Expects::End => "expected nothing more",
        }
    }
}

fn deep() -> Error {
    Error::new(Kind::Malformed, "not valid JSON: it nests deeper than 128 levels")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of a reader that opens the root and all under `open`, and skips all under `skip`.
    fn read(document: &str, size: usize, bound: usize) -> Result<Vec<String>, Error> {
        let (mut skeleton, mut told) = (Skeleton::new(bound), Vec::new());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let take = |key: Option<&[u8]>, _| match key {
            None => Take::Whole,
            Some(b"\"open\"") => Take::Open,
            Some(b"\"skip\"") => Take::Skip,
            Some(_) => Take::Whole,
        };
        let mut first = true;
        let mut choose = |key: Option<&[u8]>, byte: u8| match std::mem::replace(&mut first, false) {
            true => Take::Open,
            false => take(key, byte),
        };
        let mut note = |event: Event| {
            told.push(match event {
                Event::Open(key) => format!("+{}", key.map(|key| text(&key)).unwrap_or_default()),
                Event::Value(key, raw) => {
                    format!("{}{}", key.map(|key| text(&key) + "=").unwrap_or_default(), text(raw.bytes()))
                }
                Event::Close => "-".to_owned(),
            });
        };
        for piece in document.as_bytes().chunks(size) {
            skeleton.push(Bytes::copy_from_slice(piece));
            while let Some(event) = skeleton.next(&mut choose)? {
                note(event);
            }
        }
        if let Some(event) = skeleton.finish()? {
            note(event);
        }
        Ok(told)
    }

    #[test]
    fn parts_come_out_of_pieces_of_any_size() {
        for (document, wanted) in [
            (r#"{}"#, "+ -"),
            (r#" [ ] "#, "+ -"),
            (r#"{"a":1,"b":[1,{"c":"]}"}]}"#, r#"+ "a"=1 "b"=[1,{"c":"]}"}] -"#),
            (
                "\u{feff}{ \"open\" : [ 1 , \"x\\\"]\" , {\"k\":[]} ] , \"z\" : null }",
                r#"+ +"open" 1 "x\"]" {"k":[]} - "z"=null -"#,
            ),
            (r#"{"open":{"open":[{}]},"skip":{"big":["}"]},"t":true}"#, r#"+ +"open" +"open" {} - - "t"=true -"#),
            ("-1.5e3", "-1.5e3"),
            (r#""text""#, r#""text""#),
        ] {
            // A mark is only looked for in the first piece.
            let least = if document.starts_with('\u{feff}') { 3 } else { 1 };
            for size in least..=document.len() {
                assert_eq!(read(document, size, 100).expect("sound").join(" "), wanted, "{document} by {size}");
            }
        }
    }

    #[test]
    fn all_of_a_document_is_checked() {
        for wrong in [
            "",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "[1 2]",
            "[1}",
            "{\"a\":1]",
            "[] 1",
            "{\"skip\":[1,]}",
            "{\"skip\":nul}",
            "{\"a\":{\"b\":01}}",
            "[\"\\x\"]",
            "[tru]",
            "{\"\u{1}\":1}",
            "\"a",
            "[}",
        ] {
            for size in 1..=wrong.len().max(1) {
                let told = read(wrong, size, 100);
                assert!(told.is_err(), "{wrong} by {size}: {told:?}");
            }
        }
        let deep = format!("{{\"open\":{}{}}}", "[".repeat(128), "]".repeat(128));
        assert!(read(&deep, 7, 1000).is_err() && read(&deep, 1000, 1000).is_err());
        let long = format!("[\"{}\"]", "x".repeat(200));
        for size in [1, 50, 300] {
            assert_eq!(read(&long, size, 100).expect_err("too long").kind(), Kind::Oversized);
        }
        let skipped = format!("{{\"skip\":\"{}\"}}", "x".repeat(200));
        assert_eq!(read(&skipped, 9, 100).expect("dropped").join(" "), "+ -");
    }
}
