//! A value, or JSON that is not parsed yet.

use super::raw::Raw;
use super::value::{self, Shape, Value};
use super::write::{to_bytes, write};
use crate::error::Error;
use crate::meter;

/// A value, or a checked document. An expression may take parts of the document without parsing it. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Data {
    /// A value that is in memory.
    Value(Value),
    /// JSON as it arrived.
    Json(Raw),
}

impl Data {
    /// The value. JSON is parsed, once for all clones.
    #[inline]
    pub fn into_value(self) -> Value {
        match self {
            Data::Value(value) => value,
            Data::Json(raw) => raw.value(),
        }
    }

    /// The result of an expression. If a helper thread made a large value, the same thread writes it as JSON here,
    /// because writing and freeing it take long.
    ///
    /// # Errors
    /// Same as [`write()`].
    pub fn made(value: Value) -> Result<Self, Error> {
        if !meter::is_lent() || is_small(&value) {
            return Ok(Data::Value(value));
        }
        let written = to_bytes(&value)?;
        // A value that nests deeper than a document may stays a value. The error comes later, if a step needs a
        // document.
        Ok(Raw::check(&written).map_or(Data::Value(value), Data::Json))
    }

    /// A list of these. Items that are JSON stay bytes.
    pub fn list(items: Vec<Data>) -> Self {
        if items.iter().any(|item| matches!(item, Data::Json(_))) {
            let raws = items.iter().map(Data::raw).collect::<Option<Vec<Raw>>>();
            if let Some(list) = raws.and_then(|raws| Raw::list(&raws)) {
                return list.into();
            }
        }
        value::list(items.into_iter().map(Data::into_value).collect()).into()
    }

    /// The same as a checked document; `None` for a value that nests deeper than a document may.
    pub fn raw(&self) -> Option<Raw> {
        match self {
            Data::Json(raw) => Some(raw.clone()),
            Data::Value(value) => Raw::check(&to_bytes(value).ok()?).ok(),
        }
    }

    /// About how many bytes must be read to process it.
    #[inline]
    pub fn weight(&self) -> usize {
        match self {
            Data::Json(raw) => raw.bytes().len(),
            Data::Value(value) => match value::shape(value) {
                Shape::List(items) => 16 * items.len(),
                Shape::Object(fields) => 64 * fields.len(),
                Shape::Text(text) | Shape::Bytes(text) => text.len(),
                _ => 0,
            },
        }
    }

    /// Whether it is a list.
    #[inline]
    pub fn is_list(&self) -> bool {
        match self {
            Data::Value(value) => matches!(value::shape(value), Shape::List(_)),
            Data::Json(raw) => raw.bytes().first() == Some(&b'['),
        }
    }

    /// Whether it is an object.
    #[inline]
    pub fn is_object(&self) -> bool {
        match self {
            Data::Value(value) => matches!(value::shape(value), Shape::Object(_)),
            Data::Json(raw) => raw.is_object(),
        }
    }

    /// Whether it is null.
    #[inline]
    pub fn is_null(&self) -> bool {
        match self {
            Data::Value(value) => matches!(value::shape(value), Shape::Null),
            Data::Json(raw) => raw.bytes() == "null",
        }
    }

    /// Whether it counts as true: it is neither false nor null.
    #[inline]
    pub fn holds(&self) -> bool {
        match self {
            Data::Value(value) => !matches!(value::shape(value), Shape::Null | Shape::Bool(false)),
            Data::Json(raw) => raw.bytes() != "null" && raw.bytes() != "false",
        }
    }

    /// Appends it as JSON.
    ///
    /// # Errors
    /// Same as [`write()`].
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Data::Value(value) => write(value, out),
            Data::Json(raw) => {
                out.extend_from_slice(raw.bytes());
                Ok(())
            }
        }
    }
}

impl From<Value> for Data {
    #[inline]
    fn from(value: Value) -> Self {
        Data::Value(value)
    }
}

impl From<Raw> for Data {
    #[inline]
    fn from(raw: Raw) -> Self {
        Data::Json(raw)
    }
}

/// Whether it is cheap to write as JSON: a scalar, or a few of them.
pub fn is_small(value: &Value) -> bool {
    const FEW: usize = 32;
    let scalar = |value: &Value| match value::shape(value) {
        Shape::List(_) | Shape::Object(_) => false,
        Shape::Text(text) => text.len() <= 4096,
        _ => true,
    };
    match value::shape(value) {
        Shape::List(items) => items.len() <= FEW && items.iter().all(scalar),
        Shape::Object(fields) => fields.len() <= FEW && fields.values().all(scalar),
        _ => scalar(value),
    }
}
