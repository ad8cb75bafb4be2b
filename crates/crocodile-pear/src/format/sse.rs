//! Server-sent events (WHATWG HTML, 9.2), read as a list.
//!
//! An event is an object: its `event` (`message` where none is named), its `id` if it has one, and its `data`: JSON if it is, else a string.

use super::json::{Raw, check, write_string};
use crate::error::Error;

/// Reads the events; one that is cut off is left out, as the standard has it.
///
/// # Errors
/// `Kind::Malformed` for data that nests too deep.
pub fn read(text: &str) -> Result<Raw, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut out = b"[".to_vec();
    let mut event = Event::default();
    // What follows the last line end is cut off.
    let lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    for line in lines.split('\n') {
        match line.split_once(':').unwrap_or((line, "")) {
            ("", "") if line.is_empty() => std::mem::take(&mut event).write(&mut out),
            (field, value) => event.take(field, value.strip_prefix(' ').unwrap_or(value)),
        }
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b']');
    Raw::check(&out.into())
}

#[derive(Default)]
struct Event<'a> {
    name: &'a str,
    id: Option<&'a str>,
    data: Option<String>,
}

impl<'a> Event<'a> {
    fn take(&mut self, field: &str, value: &'a str) {
        match field {
            "event" => self.name = value,
            "id" => self.id = Some(value),
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

    fn write(self, out: &mut Vec<u8>) {
        let Some(data) = self.data else { return };
        out.extend_from_slice(b"{\"event\":");
        write_string(if self.name.is_empty() { "message" } else { self.name }, out);
        if let Some(id) = self.id {
            out.extend_from_slice(b",\"id\":");
            write_string(id, out);
        }
        out.extend_from_slice(b",\"data\":");
        match check(data.as_bytes()) {
            Ok(()) => out.extend_from_slice(data.trim().as_bytes()),
            Err(_) => write_string(&data, out),
        }
        out.extend_from_slice(b"},");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_items() {
        let text = ": hello\nevent: a\r\nid: 7\rdata: {\"x\":\ndata: 1}\n\ndata:plain\n\nid: 8\n\ndata: cut\n";
        let expected =
            "[{\"event\":\"a\",\"id\":\"7\",\"data\":{\"x\":\n1}},{\"event\":\"message\",\"data\":\"plain\"}]";
        assert_eq!(&read(text).expect("sound").bytes()[..], expected.as_bytes());
        assert_eq!(&read("").expect("sound").bytes()[..], b"[]");
    }
}
