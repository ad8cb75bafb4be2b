//! Server-sent events (WHATWG HTML, 9.2), read as a list and written.
//!
//! An event is an object. It has its `event` (`message` if it has no name), its `id` and its `retry` if they are set,
//! and its `data`. The data is an object, a list, a number, true, false or null if it is the JSON of one; otherwise it
//! is the text as it arrived. Writing such an object gives the same event, which is why a JSON string keeps its quotes.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memchr2;

use crate::error::{Error, Kind};
use crate::json::{Raw, check, compact, walk, write_string};
use crate::offload::Made;

/// Reads the events. An incomplete event at the end is dropped, as the standard says.
///
/// # Errors
/// `Kind::Malformed` for data that nests too deep.
pub fn read(text: &str) -> Result<Raw, Error> {
    let mut events = EventReader::new(usize::MAX);
    events.push(Bytes::copy_from_slice(text.as_bytes()));
    let (mut out, mut made) = (b"[".to_vec(), Made::default());
    while let Some(event) = events.next()? {
        made.add(event.len());
        out.extend_from_slice(&event);
        out.push(b',');
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b']');
    Ok(Raw::check(&out.into())?)
}

/// Reads events that arrive in pieces. It buffers one event, of at most `bound` bytes.
pub struct EventReader {
    bound: usize,
    chunk: Bytes,
    at: usize,
    /// The beginning, from earlier chunks, of the current line.
    line: Vec<u8>,
    /// Whether the last line ended with a carriage return. A line feed directly after it belongs to the same line end.
    returned: bool,
    begun: bool,
    event: ServerEvent,
}

impl EventReader {
    /// A reader at the beginning.
    pub fn new(bound: usize) -> Self {
        let (chunk, line, event) = (Bytes::new(), Vec::new(), ServerEvent::default());
        EventReader { bound, chunk, at: 0, line, returned: false, begun: false, event }
    }

    /// Takes the next piece. The caller must have read the previous piece to its end with `next`.
    pub fn push(&mut self, chunk: Bytes) {
        (self.chunk, self.at) = (chunk, 0);
    }

    /// The next complete event, as JSON; `None` when it needs more bytes.
    ///
    /// # Errors
    /// `Malformed` for invalid UTF-8, `Oversized` for an event larger than `bound`.
    #[allow(clippy::should_implement_trait, reason = "an iterator would end for good where more can be pushed")]
    pub fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.at < self.chunk.len() {
            if std::mem::take(&mut self.returned) && self.chunk[self.at] == b'\n' {
                self.at += 1;
                continue;
            }
            let rest = &self.chunk[self.at..];
            let length = memchr2(b'\r', b'\n', rest);
            self.line.extend_from_slice(&rest[..length.unwrap_or(rest.len())]);
            if self.line.len() + self.event.data.as_ref().map_or(0, String::len) > self.bound {
                return Err(Error::new(Kind::Oversized, format!("an item is larger than {} bytes", self.bound)));
            }
            let Some(length) = length else {
                self.at = self.chunk.len();
                return Ok(None);
            };
            self.returned = rest[length] == b'\r';
            self.at += length + 1;
            let line = std::mem::take(&mut self.line);
            if let Some(event) = self.end_line(&line)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn end_line(&mut self, line: &[u8]) -> Result<Option<Bytes>, Error> {
        let wrong = |_| Error::new(Kind::Malformed, "not a valid stream of events: it has bytes that are not UTF-8");
        let mut line = std::str::from_utf8(line).map_err(wrong)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.event.end();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        self.event.take(field, value.strip_prefix(' ').unwrap_or(value));
        Ok(None)
    }
}

#[derive(Default)]
struct ServerEvent {
    name: String,
    id: Option<String>,
    retry: Option<String>,
    data: Option<String>,
}

impl ServerEvent {
    fn take(&mut self, field: &str, value: &str) {
        match field {
            "event" => value.clone_into(&mut self.name),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // A number that does not fit 64 bits is ignored.
            "retry" if is_number(value) => self.retry = value.parse().ok().map(|time: u64| time.to_string()),
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            _ => {}
        }
    }

    /// Ends an event. An event without data is not dispatched, but its id and retry time are kept for the next event.
    fn end(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(data) = self.data.take() else {
            self.name.clear();
            return Ok(None);
        };
        std::mem::take(self).write(&data)
    }

    fn write(self, data: &str) -> Result<Option<Bytes>, Error> {
        let mut out = b"{\"event\":".to_vec();
        write_string(if self.name.is_empty() { "message" } else { &self.name }, &mut out);
        if let Some(id) = &self.id {
            out.extend_from_slice(b",\"id\":");
            write_string(id, &mut out);
        }
        if let Some(retry) = &self.retry {
            out.extend_from_slice(b",\"retry\":");
            out.extend_from_slice(retry.as_bytes());
        }
        out.extend_from_slice(b",\"data\":");
        match check(data.as_bytes()) {
            Ok(()) if !data.trim_start().starts_with('"') => out.extend_from_slice(data.trim().as_bytes()),
            _ => write_string(data, &mut out),
        }
        out.push(b'}');
        // The event adds a level to its data.
        check(&out)?;
        Ok(Some(out.into()))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Appends an item, given as checked JSON, as an event. An object with `data` and optionally `event`, `id` and `retry`,
/// and no other field, is written as that event: a text line by line, other data as JSON. Any other value is written as
/// data.
pub fn write(item: &[u8], out: &mut Vec<u8>) {
    match EventFields::parse(item) {
        Some(fields) => fields.write(out),
        None => {
            out.extend_from_slice(b"data: ");
            compact(item, out);
            out.push(b'\n');
        }
    }
    out.push(b'\n');
}

/// The fields of an object that represents an event.
#[derive(Default)]
struct EventFields<'a> {
    event: Option<Cow<'a, [u8]>>,
    id: Option<Cow<'a, [u8]>>,
    retry: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
}

impl<'a> EventFields<'a> {
    fn parse(item: &'a [u8]) -> Option<Self> {
        let (mut fields, mut named) = (EventFields::default(), false);
        for (key, value) in walk::Entries::of(item.trim_ascii())? {
            match () {
                () if walk::is(key, "data") => fields.data = Some(value),
                () if walk::is(key, "event") => fields.event = line(value)?,
                () if walk::is(key, "id") => fields.id = line(value)?,
                () if walk::is(key, "retry") => fields.retry = time(value)?,
                () => return None,
            }
            named |= !walk::is(key, "data");
        }
        (named && fields.data.is_some()).then_some(fields)
    }

    fn write(&self, out: &mut Vec<u8>) {
        // `message` is the default name.
        let event = self.event.as_deref().filter(|event| *event != b"message");
        for (name, value) in [("event", event), ("id", self.id.as_deref()), ("retry", self.retry)] {
            if let Some(value) = value {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b": ");
                out.extend_from_slice(value);
                out.push(b'\n');
            }
        }
        let data = self.data.unwrap_or_default();
        match walk::text(data) {
            Some(text) => lines(&text, out),
            None => {
                out.extend_from_slice(b"data: ");
                compact(data, out);
                out.push(b'\n');
            }
        }
    }
}

/// The value of a one-line field: a text, the digits of a number, or nothing for null; `None` if the field cannot have
/// this value.
fn line(value: &[u8]) -> Option<Option<Cow<'_, [u8]>>> {
    if value == b"null" {
        return Some(None);
    }
    if value.first().is_some_and(|first| first.is_ascii_digit() || *first == b'-') {
        return Some(Some(value.into()));
    }
    let text = walk::text(value)?;
    let fits = !text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0'));
    fits.then_some(Some(text))
}

/// A time in milliseconds, or nothing for null.
fn time(value: &[u8]) -> Option<Option<&[u8]>> {
    match value {
        b"null" => Some(None),
        digits => digits.iter().all(u8::is_ascii_digit).then_some(Some(digits)),
    }
}

/// Writes each line of a text, with any kind of line end.
fn lines(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let end = memchr2(b'\r', b'\n', rest);
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        out.push(b'\n');
        let Some(end) = end else { return };
        let width = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + width..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "\u{feff}: hello\nevent: a\r\nid: 7\rdata: {\"x\":\ndata: 1}\n\ndata:plain\r\n\r\nid: 8\n\ndata: cut\n";

    #[test]
    fn events_are_items() {
        let expected =
            "[{\"event\":\"a\",\"id\":\"7\",\"data\":{\"x\":\n1}},{\"event\":\"message\",\"data\":\"plain\"}]";
        assert_eq!(&read(TEXT).expect("sound").bytes()[..], expected.as_bytes());
        assert_eq!(&read("").expect("sound").bytes()[..], b"[]");
    }

    #[test]
    fn events_come_out_of_pieces() {
        for size in 1..TEXT.len() {
            let (mut events, mut out) = (EventReader::new(100), Vec::new());
            for piece in TEXT.as_bytes().chunks(size) {
                events.push(Bytes::copy_from_slice(piece));
                while let Some(event) = events.next().expect("sound") {
                    out.push(event);
                }
            }
            assert_eq!(
                out,
                ["{\"event\":\"a\",\"id\":\"7\",\"data\":{\"x\":\n1}}", "{\"event\":\"message\",\"data\":\"plain\"}"]
            );
        }
        let mut events = EventReader::new(100);
        events.push(Bytes::from("data: ".repeat(100)));
        assert_eq!(events.next().expect_err("too large").kind(), Kind::Oversized);
    }

    #[test]
    fn an_event_without_data_leaves_its_id_and_its_time_to_the_next() {
        let text = "retry: 3000\n\nid: 7\nevent: lost\n\ndata: 1\n\nretry: soon\nid: a\0b\ndata: 2\n\n";
        let expected = r#"[{"event":"message","id":"7","retry":3000,"data":1},{"event":"message","data":2}]"#;
        assert_eq!(&read(text).expect("sound").bytes()[..], expected.as_bytes());
    }

    fn written(item: &str) -> String {
        let mut out = Vec::new();
        write(item.as_bytes(), &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_was_read_is_written_as_it_came() {
        let events = [
            "data: {\"a\":1.0}\n\n",
            "event: price\nid: 7\nretry: 3000\ndata: [1,2]\n\n",
            "data: [DONE]\n\n",
            "id: \ndata: one\ndata: \ndata: two\n\n",
            "event: å\ndata: \n\n",
        ];
        let read = read(&events.concat()).expect("sound");
        let items = walk::Items::of(read.bytes()).expect("a list");
        let again: Vec<String> = items.map(|item| written(std::str::from_utf8(item).expect("UTF-8"))).collect();
        assert_eq!(again, events);
    }

    #[test]
    fn only_an_event_is_written_as_one() {
        assert_eq!(written(r#"{"event": "a", "id": 7, "data": {"x": 1}}"#), "event: a\nid: 7\ndata: {\"x\":1}\n\n");
        assert_eq!(written(r#"{"event": null, "data": "1"}"#), "data: 1\n\n");
        assert_eq!(written(r#"{"data": "a\r\nb\rc", "retry": 1}"#), "retry: 1\ndata: a\ndata: b\ndata: c\n\n");
        for data in [
            r#"{"data":1}"#,
            r#"{"event":"a"}"#,
            r#"{"event":"a","data":1,"x":2}"#,
            r#"{"event":"a\nid: 1","data":1}"#,
            r#"{"id":{},"data":1}"#,
            r#"{"retry":"1","data":1}"#,
            r#"{"retry":-1,"data":1}"#,
            "[1]",
            "null",
        ] {
            assert_eq!(written(data), format!("data: {data}\n\n"));
        }
    }
}
