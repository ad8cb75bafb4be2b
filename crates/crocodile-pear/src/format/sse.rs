//! Server-sent events (WHATWG HTML, 9.2), read as a list.
//!
//! An event is an object: its `event` (`message` where none is named), its `id` if it has one, and its `data`: JSON if it is, else a string.

use bytes::Bytes;
use memchr::memchr2;

use super::json::{Raw, check, write_string};
use crate::error::{Error, Kind};

/// Reads the events; one that is cut off is left out, as the standard has it.
///
/// # Errors
/// `Kind::Malformed` for data that nests too deep.
pub fn read(text: &str) -> Result<Raw, Error> {
    let mut events = Events::new(usize::MAX);
    events.push(Bytes::copy_from_slice(text.as_bytes()));
    let mut out = b"[".to_vec();
    while let Some(event) = events.next()? {
        out.extend_from_slice(&event);
        out.push(b',');
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b']');
    Raw::check(&out.into())
}

/// Reads events that arrive in pieces. Held is one event, of at most `bound` bytes.
pub struct Events {
    bound: usize,
    chunk: Bytes,
    at: usize,
    /// What earlier chunks had of the line that is being read.
    line: Vec<u8>,
    /// Whether the last line ended with a carriage return: a line feed right after it belongs to it.
    returned: bool,
    begun: bool,
    event: Event,
}

impl Events {
    /// At the beginning.
    pub fn new(bound: usize) -> Self {
        let (chunk, line, event) = (Bytes::new(), Vec::new(), Event::default());
        Events { bound, chunk, at: 0, line, returned: false, begun: false, event }
    }

    /// Takes the next piece; the one before must have been read to its end with `next`.
    pub fn push(&mut self, chunk: Bytes) {
        (self.chunk, self.at) = (chunk, 0);
    }

    /// The next event that is whole, as JSON; `None` when more must come.
    ///
    /// # Errors
    /// `Malformed` for what is not UTF-8, `Oversized` for an event over the bound.
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
        let wrong = |_| Error::new(Kind::Malformed, "not a valid stream of events: it has bytes that are no UTF-8");
        let mut line = std::str::from_utf8(line).map_err(wrong)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return std::mem::take(&mut self.event).write();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        self.event.take(field, value.strip_prefix(' ').unwrap_or(value));
        Ok(None)
    }
}

#[derive(Default)]
struct Event {
    name: String,
    id: Option<String>,
    data: Option<String>,
}

impl Event {
    fn take(&mut self, field: &str, value: &str) {
        match field {
            "event" => value.clone_into(&mut self.name),
            "id" => self.id = Some(value.to_owned()),
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

    fn write(self) -> Result<Option<Bytes>, Error> {
        let Some(data) = self.data else { return Ok(None) };
        let mut out = b"{\"event\":".to_vec();
        write_string(if self.name.is_empty() { "message" } else { &self.name }, &mut out);
        if let Some(id) = &self.id {
            out.extend_from_slice(b",\"id\":");
            write_string(id, &mut out);
        }
        out.extend_from_slice(b",\"data\":");
        match check(data.as_bytes()) {
            Ok(()) => out.extend_from_slice(data.trim().as_bytes()),
            Err(_) => write_string(&data, &mut out),
        }
        out.push(b'}');
        // It is one level more than its data.
        check(&out)?;
        Ok(Some(out.into()))
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
            let (mut events, mut out) = (Events::new(100), Vec::new());
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
        let mut events = Events::new(100);
        events.push(Bytes::from("data: ".repeat(100)));
        assert_eq!(events.next().expect_err("too large").kind(), Kind::Oversized);
    }
}
