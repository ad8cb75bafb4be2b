//! An open element, and the JSON that it becomes.

use indexmap::IndexMap;

use super::cursor::is_space;
use crate::json::write_string;

/// The result of an element.
pub struct Closed {
    pub json: Vec<u8>,
    /// How deep the JSON nests.
    pub depth: usize,
}

/// An open element.
pub struct Element<'a> {
    pub name: &'a str,
    /// The text since the last child element.
    pub text: String,
    /// `"@name":"value",` for each attribute.
    attributes: Vec<u8>,
    /// The JSON of its texts and child elements, joined.
    content: Vec<u8>,
    parts: Vec<ContentPart>,
    /// The names of its child elements, in order of first occurrence.
    names: IndexMap<&'a str, ()>,
    /// The names of child elements that are lists, however often they occur.
    lists: Vec<&'a str>,
    /// Whether it has text other than white space.
    mixed: bool,
    /// The depth of its deepest child element.
    depth: usize,
}

#[derive(Clone, Copy)]
struct ContentPart {
    /// The index of the name; `TEXT` for a text.
    name: u32,
    end: usize,
}

const TEXT: u32 = u32::MAX;

/// Writes an empty list and a comma.
fn write_empty(name: &str, out: &mut Vec<u8>) {
    write_string(name, out);
    out.extend_from_slice(b":[],");
}

impl<'a> Element<'a> {
    /// An element that begins here.
    pub fn new(name: &'a str, attributes: &[(&str, String)], lists: Vec<&'a str>) -> Self {
        let mut written = Vec::new();
        for (name, value) in attributes {
            write_string(&format!("@{name}"), &mut written);
            written.push(b':');
            write_string(value, &mut written);
            written.push(b',');
        }
        let (content, parts) = (Vec::new(), Vec::new());
        let (text, names) = (String::new(), IndexMap::new());
        let mut lists = lists;
        lists.sort_unstable();
        lists.dedup();
        Element { name, text, attributes: written, content, parts, names, lists, mixed: false, depth: 0 }
    }

    /// Adds a child element that has ended.
    pub fn add(&mut self, name: &'a str, value: &Closed) {
        self.settle();
        // A document has fewer names than 2^32: each takes at least five bytes, and no document in memory is that
        // large.
        let name = self.names.insert_full(name, ()).0 as u32;
        self.depth = self.depth.max(value.depth);
        self.content.extend_from_slice(&value.json);
        self.parts.push(ContentPart { name, end: self.content.len() });
    }

    /// Adds the text since the last child element.
    fn settle(&mut self) {
        if self.text.is_empty() {
            return;
        }
        self.mixed |= !self.text.trim_matches(is_space).is_empty();
        write_string(&self.text, &mut self.content);
        self.text.clear();
        self.parts.push(ContentPart { name: TEXT, end: self.content.len() });
    }

    /// The result of the element at its end.
    pub fn close(mut self) -> Closed {
        if self.names.is_empty() {
            return self.close_text();
        }
        self.settle();
        let mut json = vec![b'{'];
        json.append(&mut self.attributes);
        let levels = if self.mixed { self.write_mixed(&mut json) } else { self.write_named(&mut json) };
        json.push(b'}');
        Closed { json, depth: levels + self.depth }
    }

    fn close_text(mut self) -> Closed {
        let mut json = Vec::with_capacity(self.text.len() + 2);
        for name in &self.lists {
            write_empty(name, &mut self.attributes);
        }
        if !self.lists.is_empty() && self.text.trim_matches(is_space).is_empty() {
            self.text.clear();
        }
        if self.attributes.is_empty() {
            write_string(&self.text, &mut json);
            return Closed { json, depth: 0 };
        }
        json.push(b'{');
        // Removes the last comma.
        self.attributes.pop();
        json.append(&mut self.attributes);
        if !self.text.is_empty() {
            json.extend_from_slice(b",\"#text\":");
            write_string(&self.text, &mut json);
        }
        json.push(b'}');
        Closed { json, depth: if self.lists.is_empty() { 1 } else { 2 } }
    }

    /// Writes texts and elements in order. Returns how many levels this adds.
    fn write_mixed(&self, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(b"\"#content\":[");
        for at in 0..self.parts.len() {
            if at > 0 {
                out.push(b',');
            }
            match self.names.get_index(self.parts[at].name as usize) {
                None => out.extend_from_slice(self.json(at)),
                Some((name, ())) => {
                    out.push(b'{');
                    write_string(name, out);
                    out.push(b':');
                    out.extend_from_slice(self.json(at));
                    out.push(b'}');
                }
            }
        }
        out.push(b']');
        3
    }

    fn write_named(&self, out: &mut Vec<u8>) -> usize {
        let mut order: Vec<u32> = (0..self.parts.len() as u32).filter(|at| self.part(*at).name != TEXT).collect();
        order.sort_by_key(|at| self.part(*at).name);
        let mut levels = 1;
        for same in order.chunk_by(|one, other| self.part(*one).name == self.part(*other).name) {
            let Some((name, ())) = self.names.get_index(self.part(same[0]).name as usize) else { continue };
            write_string(name, out);
            out.push(b':');
            let is_list = same.len() > 1 || self.lists.contains(name);
            if is_list {
                levels = 2;
                out.push(b'[');
            }
            for at in same {
                out.extend_from_slice(self.json(*at as usize));
                out.push(b',');
            }
            if is_list {
                out.pop();
                out.extend_from_slice(b"],");
            }
        }
        for name in self.lists.iter().filter(|name| !self.names.contains_key(**name)) {
            levels = 2;
            write_empty(name, out);
        }
        // Removes the last comma.
        out.pop();
        levels
    }

    fn part(&self, at: u32) -> ContentPart {
        self.parts[at as usize]
    }

    fn json(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.parts[before].end);
        &self.content[start..self.parts[at].end]
    }
}
