//! A checked document that is not parsed yet.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::check::{check, unclear};
use super::fields::{Field, FieldPlaces};
use super::look::look;
use super::quote::write_string;
use super::read::read;
use super::text::{DEPTH, trim};
use super::value::{self, Value};
use crate::error::Error;
use crate::meter;

/// JSON that was checked and is kept as it arrived. It is parsed once, when its values are first needed. Cheap to
/// clone.
#[derive(Clone)]
pub struct Raw(Arc<Inner>);

/// A document and its values.
struct Parsed(Raw, Value);

struct Inner {
    bytes: Bytes,
    depth: u8,
    value: OnceLock<Value>,
    /// For an object that was built here, or that is searched a second time.
    fields: OnceLock<FieldPlaces>,
}

impl Raw {
    /// Checks a document.
    ///
    /// # Errors
    /// `Kind::Malformed`, same as [`read`].
    pub fn check(bytes: &Bytes) -> Result<Self, Error> {
        match look(bytes) {
            Some(seen) if !seen.endless => Ok(Raw::sound(trim(bytes), seen.depth)),
            Some(_) => read(bytes).map(|value| Raw::of(bytes.clone(), u8::MAX, OnceLock::new()).with_value(value)),
            None => Err(check(bytes).err().unwrap_or_else(unclear)),
        }
    }

    /// Bytes that are known to be a document, and that nest no deeper than `depth`.
    #[inline]
    pub fn sound(bytes: Bytes, depth: u8) -> Self {
        Raw::of(bytes, depth, OnceLock::new())
    }

    #[inline]
    fn of(bytes: Bytes, depth: u8, value: OnceLock<Value>) -> Self {
        Raw(Arc::new(Inner { bytes, depth, value, fields: OnceLock::new() }))
    }

    /// Keeps the parsed value if the document is small.
    fn with_value(self, value: Value) -> Self {
        if self.0.bytes.len() <= meter::SMALL {
            let _ = self.0.value.set(value);
        }
        self
    }

    /// The document, without whitespace around it.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// An upper bound for its nesting depth.
    #[inline]
    pub fn depth(&self) -> u8 {
        self.0.depth
    }

    /// Whether it has been parsed.
    #[inline]
    pub fn is_parsed(&self) -> bool {
        self.0.value.get().is_some()
    }

    /// Whether it is an object.
    #[inline]
    pub fn is_object(&self) -> bool {
        self.0.bytes.first() == Some(&b'{')
    }

    /// The fields of an object, if they are already recorded.
    #[inline]
    pub fn fields(&self) -> Option<impl Iterator<Item = Field<'_>>> {
        self.0.fields.get()?.of(self.bytes())
    }

    /// Records the positions of the fields of an object, for steps that look up several of them.
    pub fn note_fields(&self) {
        if self.0.fields.get().is_none()
            && let Some(places) = FieldPlaces::of_object(self.bytes())
        {
            let _ = self.0.fields.set(places);
        }
    }

    /// The object with one more field at the end. `None` for another value, for an object that already has such a
    /// field, and if the result might nest too deep.
    pub fn with(&self, name: &str, field: &Raw) -> Option<Raw> {
        let depth = self.depth().max(field.depth().saturating_add(1));
        if usize::from(depth) > DEPTH {
            return None;
        }
        self.note_fields();
        let mut places = self.0.fields.get()?.without(self.bytes(), name)?;
        let fields = self.bytes().strip_suffix(b"}")?.trim_ascii_end();
        let mut out = Vec::with_capacity(fields.len() + name.len() + field.bytes().len() + 5);
        out.extend_from_slice(fields);
        if fields.len() > 1 {
            out.push(b',');
        }
        let start = out.len();
        write_string(name, &mut out);
        let key = start..out.len();
        places.escaped(key.len() != name.len() + 2);
        out.push(b':');
        let start = out.len();
        out.extend_from_slice(field.bytes());
        places.add(key, start..out.len());
        out.push(b'}');
        Some(Raw(Arc::new(Inner { bytes: out.into(), depth, value: OnceLock::new(), fields: places.into() })))
    }

    /// A list of these; `None` if it might nest too deep.
    pub fn list(items: &[Raw]) -> Option<Raw> {
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

    /// The text between the quotes of a string without escapes.
    #[inline]
    pub fn plain_text(&self) -> Option<&[u8]> {
        let text = self.bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        memchr::memchr(b'\\', text).is_none().then_some(text)
    }

    fn text(&self) -> Option<Value> {
        self.plain_text().map(|text| value::text(self.bytes().slice_ref(text)))
    }

    /// The parsed value. For a large document it is kept only while a helper thread works on it: it takes many times
    /// the bytes of the document, and long to free.
    pub fn value(&self) -> Value {
        let parse = || self.text().unwrap_or_else(|| read(&self.0.bytes).unwrap_or_else(|_| value::null()));
        if self.0.bytes.len() <= meter::SMALL || self.is_parsed() {
            return self.0.value.get_or_init(parse).clone();
        }
        let kept = meter::find(|Parsed(raw, value): &Parsed| Arc::ptr_eq(&raw.0, &self.0).then(|| value.clone()));
        kept.unwrap_or_else(|| {
            let value = parse();
            meter::keep(Parsed(self.clone(), value.clone()));
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
    use super::super::fields::fields;
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
    fn the_fields_of_what_was_put_together_are_known() {
        let raw = |text: &str| Raw::check(&Bytes::from(text.to_owned())).expect("sound");
        let pairs = |raw: &Raw| {
            let mut walked = Vec::new();
            fields(raw.bytes(), &mut |field| {
                walked.push(format!("{field:?}"));
                Some(())
            });
            (raw.fields().map(|known| known.map(|field| format!("{field:?}")).collect::<Vec<_>>()), walked)
        };
        for object in ["{}", "{ }", "{ \"a\" : [1, {\"b\":2}] , \"c\":\"x\" }", "{\"a\\u0062\":1}"] {
            for name in ["d", "a\"b", ""] {
                let joined = raw(object).with(name, &raw("{\"b\": 1}")).expect("joined");
                // One flag for escapes covers all keys.
                let (known, walked) = pairs(&joined);
                let plain = |fields: Vec<String>| fields.into_iter().map(|field| field.replace("true", "false"));
                assert!(plain(known.expect("known")).eq(plain(walked)), "{object} {name}");
                let again = joined.with("e", &raw("2")).expect("joined again");
                assert_eq!(again.fields().map(Iterator::count), Some(pairs(&again).1.len()));
            }
        }
        let many: Vec<String> = (0..100).map(|at| format!("\"{at}\":{at}")).collect();
        let joined = raw(&format!("{{{}}}", many.join(","))).with("a", &raw("1")).expect("joined");
        assert!(joined.fields().is_none() && raw("{}").fields().is_none());
    }

    #[test]
    fn what_cannot_be_parsed_later_is_refused_now() {
        assert!(Raw::check(&Bytes::from(format!("[{}]", "9".repeat(2000)))).is_err());
        assert!(Raw::check(&Bytes::from(format!("[0.{}]", "9".repeat(2000)))).is_err());
        assert!(Raw::check(&Bytes::from_static(b"[1,]")).is_err());
    }
}
