//! Links in the data of server-sent events, mapped while they pass.

use std::sync::Arc;

use memchr::memchr;

use super::json::JsonLinks;
use super::map::LinkMap;
use super::names::LinkNames;

/// Maps the links of the JSON in events. Each line leaves when it is there.
pub struct EventLinks {
    json: JsonLinks,
    line: EventLine,
}

/// The known kind of the line.
enum EventLine {
    /// So much of its beginning.
    Begun(Vec<u8>),
    Data,
    Other,
}

const DATA: &[u8] = b"data:";

impl EventLinks {
    /// For events with links under these names.
    pub fn new(names: Arc<LinkNames>, removes: bool) -> Self {
        EventLinks { json: JsonLinks::new(names, removes), line: EventLine::Begun(Vec::new()) }
    }

    /// Writes out what came, with its links mapped.
    pub fn feed(&mut self, came: &[u8], map: &mut dyn LinkMap, out: &mut Vec<u8>) {
        let mut rest = came;
        while !rest.is_empty() {
            rest = match &mut self.line {
                EventLine::Begun(begun) => {
                    let (byte, left) = (rest[0], &rest[1..]);
                    begun.push(byte);
                    let ends = byte == b'\n';
                    if ends && begun.iter().all(|byte| b"\r\n".contains(byte)) {
                        // An event has ended.
                        self.json.reset(out);
                    }
                    let data = begun == DATA;
                    if ends || data || !DATA.starts_with(begun) {
                        out.append(begun);
                        self.line = match (ends, data) {
                            (true, _) => EventLine::Begun(Vec::new()),
                            (false, true) => EventLine::Data,
                            (false, false) => EventLine::Other,
                        };
                    }
                    left
                }
                EventLine::Data | EventLine::Other => {
                    let end = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                    let (part, left) = rest.split_at(end);
                    match self.line {
                        EventLine::Data => self.json.feed(part, map, out),
                        _ => out.extend_from_slice(part),
                    }
                    if part.ends_with(b"\n") {
                        self.json.settle_line(out);
                        self.line = EventLine::Begun(Vec::new());
                    }
                    left
                }
            };
        }
    }

    /// Writes out what is held, at the end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.json.reset(out);
        if let EventLine::Begun(begun) = &mut self.line {
            out.append(begun);
        }
    }
}
