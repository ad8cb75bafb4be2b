//! A checked document that nobody has looked into yet.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::check::{check, unclear};
use super::fields::fields;
use super::look::look;
use super::read::read;
use super::text::{DEPTH, trim};
use super::write::write_string;
use crate::error::Error;
use crate::jq::value::{self, Value};
use crate::offload;

/// JSON, checked and kept as it came; parsed when somebody looks inside, and then once. Cheap to clone.
#[derive(Clone)]
pub struct Raw(Arc<Inner>);

/// A document and its values.
struct Parsed(Raw, Value);

struct Inner {
    bytes: Bytes,
    depth: u8,
    value: OnceLock<Value>,
}

impl Raw {
    /// Checks a document.
    ///
    /// # Errors
    /// `Kind::Malformed`, as [`read`] gives it.
    pub fn check(bytes: &Bytes) -> Result<Self, Error> {
        match look(bytes) {
            Some(seen) if !seen.endless => Ok(Raw::sound(trim(bytes), seen.depth)),
            Some(_) => read(bytes).map(|value| Raw::of(bytes.clone(), u8::MAX, OnceLock::new()).with_value(value)),
            None => Err(check(bytes).err().unwrap_or_else(unclear)),
        }
    }

    /// Bytes that are known to be a document which nests no deeper than this.
    pub(crate) fn sound(bytes: Bytes, depth: u8) -> Self {
        Raw::of(bytes, depth, OnceLock::new())
    }

    fn of(bytes: Bytes, depth: u8, value: OnceLock<Value>) -> Self {
        Raw(Arc::new(Inner { bytes, depth, value }))
    }

    /// Keeps the values, if they are few.
    fn with_value(self, value: Value) -> Self {
        if self.0.bytes.len() <= offload::SMALL {
            let _ = self.0.value.set(value);
        }
        self
    }

    /// The document, without whitespace around it.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// A bound of how deep it nests.
    pub fn depth(&self) -> u8 {
        self.0.depth
    }

    /// Whether it has been parsed.
    pub(crate) fn is_parsed(&self) -> bool {
        self.0.value.get().is_some()
    }

    /// Whether it is an object.
    pub(crate) fn is_object(&self) -> bool {
        self.0.bytes.first() == Some(&b'{')
    }

    /// An object with one more field, behind the others. `None` for another value, for an object that has such a field, and
    /// where it might nest too deep.
    pub(crate) fn with(&self, name: &str, field: &Raw) -> Option<Raw> {
        let depth = self.depth().max(field.depth().saturating_add(1));
        if !self.is_object() || usize::from(depth) > DEPTH || self.has(name) {
            return None;
        }
        let fields = self.bytes().strip_suffix(b"}")?.trim_ascii_end();
        let mut out = Vec::with_capacity(fields.len() + name.len() + field.bytes().len() + 5);
        out.extend_from_slice(fields);
        if fields.len() > 1 {
            out.push(b',');
        }
        write_string(name, &mut out);
        out.push(b':');
        out.extend_from_slice(field.bytes());
        out.push(b'}');
        Some(Raw::sound(out.into(), depth))
    }

    /// Whether an object has a field of this name.
    fn has(&self, name: &str) -> bool {
        fields(self.bytes(), &mut |field| (!field.is(name)).then_some(())).is_none()
    }

    /// A list of these, unless it might nest too deep.
    pub(crate) fn list(items: &[Raw]) -> Option<Raw> {
        let depth = items.iter().map(Raw::depth).max().unwrap_or(0).saturating_add(1);
        let mut out = Vec::with_capacity(items.iter().map(|item| item.bytes().len() + 1).sum::<usize>() + 2);
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(item.bytes());
        }
        out.push(b']');
        (usize::from(depth) <= DEPTH).then(|| Raw::sound(out.into(), depth))
    }

    /// The value of a string without escapes: it is what stands there.
    fn text(&self) -> Option<Value> {
        let text = self.bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        memchr::memchr(b'\\', text).is_none().then(|| value::text(self.bytes().slice_ref(text)))
    }

    /// The same, parsed. The values of a large document are kept only while a helper thread works with them: they take
    /// many times its bytes, and long to free.
    pub fn value(&self) -> Value {
        let parse = || self.text().unwrap_or_else(|| read(&self.0.bytes).unwrap_or_else(|_| value::null()));
        if self.0.bytes.len() <= offload::SMALL || self.is_parsed() {
            return self.0.value.get_or_init(parse).clone();
        }
        let kept = offload::find(|Parsed(raw, value): &Parsed| Arc::ptr_eq(&raw.0, &self.0).then(|| value.clone()));
        kept.unwrap_or_else(|| {
            let value = parse();
            offload::keep(Parsed(self.clone(), value.clone()));
            value
        })
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} bytes)", self.0.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_as_it_came() {
        let raw = Raw::check(&Bytes::from_static(b" {\"a\": [1.0]}\n")).expect("sound");
        assert_eq!((&raw.bytes()[..], raw.depth()), (&b"{\"a\": [1.0]}"[..], 2));
        assert_eq!(value::kind(&raw.value()), "object");
    }

    #[test]
    fn a_field_is_put_behind_the_others() {
        let raw = |text: &str| Raw::check(&Bytes::from(text.to_owned())).expect("sound");
        let with = |text: &str, field: &str| {
            let made = raw(text).with("a", &raw(field))?;
            Some((String::from_utf8(made.bytes().to_vec()).expect("UTF-8"), made.depth()))
        };
        assert_eq!(with("{}", "1.50"), Some(("{\"a\":1.50}".into(), 1)));
        assert_eq!(with("{ \n}", "{}"), Some(("{\"a\":{}}".into(), 2)));
        assert_eq!(with("{\"b\":[{}] }", "[]"), Some(("{\"b\":[{}],\"a\":[]}".into(), 3)));
        assert_eq!(with("[1]", "1").or(with("null", "1")).or(with("{\"b\":0,\"\\u0061\":1}", "1")), None);
        let deep = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
        assert_eq!(with("{}", &deep), None);
        let list = Raw::list(&[raw("[1]"), raw(" 2 ")]).expect("shallow");
        assert_eq!((&list.bytes()[..], list.depth()), (&b"[[1],2]"[..], 2));
    }

    #[test]
    fn what_cannot_be_parsed_later_is_refused_now() {
        assert!(Raw::check(&Bytes::from(format!("[{}]", "9".repeat(2000)))).is_err());
        assert!(Raw::check(&Bytes::from(format!("[0.{}]", "9".repeat(2000)))).is_err());
        assert!(Raw::check(&Bytes::from_static(b"[1,]")).is_err());
    }
}
