//! A checked document that nobody has looked into yet.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::look::look;
use super::{check, read, trim};
use crate::error::Error;
use crate::jq::value::{self, Value};

/// JSON, checked and kept as it came; parsed when somebody looks inside, and then once. Cheap to clone.
#[derive(Clone)]
pub struct Raw(Arc<Inner>);

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
            Some(_) => read(bytes).map(|value| Raw::of(bytes.clone(), u8::MAX, value.into())),
            None => Err(check(bytes).err().unwrap_or_else(super::check::unclear)),
        }
    }

    /// Bytes that are known to be a document which nests no deeper than this.
    pub(crate) fn sound(bytes: Bytes, depth: u8) -> Self {
        Raw::of(bytes, depth, OnceLock::new())
    }

    fn of(bytes: Bytes, depth: u8, value: OnceLock<Value>) -> Self {
        Raw(Arc::new(Inner { bytes, depth, value }))
    }

    /// The document, without whitespace around it.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// A bound of how deep it nests.
    pub fn depth(&self) -> u8 {
        self.0.depth
    }

    /// The same, parsed.
    pub fn value(&self) -> Value {
        let parse = || read(&self.0.bytes).unwrap_or_else(|_| value::null());
        self.0.value.get_or_init(parse).clone()
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
    fn what_cannot_be_parsed_later_is_refused_now() {
        assert!(Raw::check(&Bytes::from(format!("[{}]", "9".repeat(2000)))).is_err());
        assert!(Raw::check(&Bytes::from(format!("[0.{}]", "9".repeat(2000)))).is_err());
        assert!(Raw::check(&Bytes::from_static(b"[1,]")).is_err());
    }
}
