//! An object while it is written.

use super::rules::{ObjectLinks, PlainRules};
use crate::hypermedia::part::Part;
use crate::json::write_string;

/// An object that is appended to a text, field by field. Its braces may stand in different pieces of the text.
#[derive(Clone, Default)]
pub struct Object {
    begun: bool,
}

impl Object {
    fn separate(&mut self, out: &mut Vec<u8>) {
        out.push(if std::mem::replace(&mut self.begun, true) { b',' } else { b'{' });
    }

    /// Appends a name; its value follows.
    pub fn name(&mut self, name: &str, out: &mut Vec<u8>) {
        self.separate(out);
        write_string(name, out);
        out.push(b':');
    }

    /// The same for a name as it is written in a document, with its quotes.
    pub fn key(&mut self, key: &[u8], out: &mut Vec<u8>) {
        self.separate(out);
        out.extend_from_slice(key);
        out.push(b':');
    }

    /// Appends fields as they stand in a document: from one key to the end of a value.
    pub fn run(&mut self, fields: &[u8], out: &mut Vec<u8>) {
        if !fields.is_empty() {
            self.separate(out);
            out.extend_from_slice(fields);
        }
    }

    /// Appends all fields of an object in a document.
    pub fn splice(&mut self, object: Part<'_>, out: &mut Vec<u8>) {
        if object.is_object() {
            let bytes = object.bytes();
            self.run(bytes[1..bytes.len() - 1].trim_ascii(), out);
        }
    }

    /// Appends its links, if they are wanted and it has no field of that name.
    pub fn links(
        &mut self,
        plain: &PlainRules,
        links: &ObjectLinks<'_>,
        taken: impl FnOnce(&str) -> bool,
        out: &mut Vec<u8>,
    ) {
        if let Some(name) = &plain.links
            && !taken(name)
        {
            self.name(name, out);
            links.write(out);
        }
    }

    pub fn end(self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.begun { b"}" } else { b"{}" });
    }
}
