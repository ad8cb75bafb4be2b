//! What expressions take and give: a value, or JSON that nobody has looked into.

use super::value::{self, Shape, Value};
use crate::error::Error;
use crate::format::json::{Raw, write};

/// A value, or a checked document whose parts an expression may take without parsing it. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Data {
    /// A value.
    Value(Value),
    /// JSON as it came.
    Json(Raw),
}

impl Data {
    /// The value; JSON is parsed, once for all its clones.
    pub fn into_value(self) -> Value {
        match self {
            Data::Value(value) => value,
            Data::Json(raw) => raw.value(),
        }
    }

    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        match self {
            Data::Value(value) => matches!(value::shape(value), Shape::List(_)),
            Data::Json(raw) => raw.bytes().first() == Some(&b'['),
        }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        match self {
            Data::Value(value) => matches!(value::shape(value), Shape::Object(_)),
            Data::Json(raw) => raw.is_object(),
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        match self {
            Data::Value(value) => matches!(value::shape(value), Shape::Null),
            Data::Json(raw) => raw.bytes() == "null",
        }
    }

    /// Whether it counts as true: it is neither false nor null.
    pub fn holds(&self) -> bool {
        match self {
            Data::Value(value) => !matches!(value::shape(value), Shape::Null | Shape::Bool(false)),
            Data::Json(raw) => raw.bytes() != "null" && raw.bytes() != "false",
        }
    }

    /// Appends it as JSON.
    ///
    /// # Errors
    /// As [`write()`].
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
    fn from(value: Value) -> Self {
        Data::Value(value)
    }
}

impl From<Raw> for Data {
    fn from(raw: Raw) -> Self {
        Data::Json(raw)
    }
}

/// Whether to write it as JSON costs next to nothing: a scalar, or a few of them.
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
