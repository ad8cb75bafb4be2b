//! An element while it is open, and the JSON that it becomes.

use indexmap::IndexMap;

use super::cursor::is_space;
use crate::json::write_string;

/// What an element has become.
pub struct Closed {
    /// Its JSON.
    pub json: Vec<u8>,
    /// How deep that nests.
    pub depth: usize,
}

/// An element that is open.
pub struct Element<'a> {
    /// Its name.
    pub name: &'a str,
    /// The text since the last element in it.
    pub text: String,
    /// `"@name":"value",` for each attribute.
    attributes: Vec<u8>,
    /// The JSON of the texts and elements in it, one behind the other.
    content: Vec<u8>,
    parts: Vec<Part>,
    /// The names of the elements in it, in the order of their first.
    names: IndexMap<&'a str, ()>,
    /// The names of those that are lists, however many there are.
    lists: Vec<&'a str>,
    /// Whether there is text that is more than space.
    mixed: bool,
    /// The depth of the deepest element in it.
    depth: usize,
}

/// A part of the content.
#[derive(Clone, Copy)]
struct Part {
    /// Which of the names; `TEXT` for a text.
    name: u32,
    /// Where it ends.
    end: usize,
}

const TEXT: u32 = u32::MAX;

/// A list of nothing, and a comma.
fn write_empty(name: &str, out: &mut Vec<u8>) {
    write_string(name, out);
    out.extend_from_slice(b":[],");
}

impl<'a> Element<'a> {
    /// An element that begins.
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

    /// Takes an element that has ended in this one.
    pub fn add(&mut self, name: &'a str, value: &Closed) {
        self.settle();
        // A document has fewer names than 2^32: each takes five bytes at least, and none is held that large.
        let name = self.names.insert_full(name, ()).0 as u32;
        self.depth = self.depth.max(value.depth);
        self.content.extend_from_slice(&value.json);
        self.parts.push(Part { name, end: self.content.len() });
    }

    /// Takes the text that came since the last element.
    fn settle(&mut self) {
        if self.text.is_empty() {
            return;
        }
        self.mixed |= !self.text.trim_matches(is_space).is_empty();
        write_string(&self.text, &mut self.content);
        self.text.clear();
        self.parts.push(Part { name: TEXT, end: self.content.len() });
    }

    /// What it is, now that it ends.
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
        // The last comma.
        self.attributes.pop();
        json.append(&mut self.attributes);
        if !self.text.is_empty() {
            json.extend_from_slice(b",\"#text\":");
            write_string(&self.text, &mut json);
        }
        json.push(b'}');
        Closed { json, depth: if self.lists.is_empty() { 1 } else { 2 } }
    }

    /// Texts and elements in their order. Gives the levels that this adds.
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

    /// The elements by name.
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
        // The last comma.
        out.pop();
        levels
    }

    fn part(&self, at: u32) -> Part {
        self.parts[at as usize]
    }

    fn json(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.parts[before].end);
        &self.content[start..self.parts[at].end]
    }
}
