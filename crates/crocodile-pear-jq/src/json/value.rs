//! Making and reading values without depending on the expression engine.

use std::sync::Arc;

use bytes::Bytes;
#[cfg(feature = "expressions")]
use jaq_json::{Map, Num, Val};

#[cfg(not(feature = "expressions"))]
mod plain;
#[cfg(not(feature = "expressions"))]
use plain::{Map, Num, Val};

/// A JSON value that keeps its number literals. Cheap to clone: lists, objects and text are shared.
pub type Value = Val;

/// The fields of an object, in their order; keys are strings.
pub type Fields = Map;

/// A value as a writer sees it.
pub enum Shape<'a> {
    /// The value `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer that fits a machine word.
    Integer(isize),
    /// A number that an expression computed.
    Float(f64),
    /// A number as it was written, or too large for a machine word.
    Literal(std::borrow::Cow<'a, str>),
    /// Text. It is UTF-8 unless an expression cut it within a character.
    Text(&'a [u8]),
    /// Bytes that are not text.
    Bytes(&'a [u8]),
    /// A list.
    List(&'a [Value]),
    /// An object.
    Object(&'a Fields),
}

/// The value `null`.
#[inline]
pub const fn null() -> Value {
    Val::Null
}

/// A string, copied.
pub fn string(text: &str) -> Value {
    Val::utf8_str(Bytes::copy_from_slice(text.as_bytes()))
}

/// A string that shares its bytes.
#[inline]
pub fn text(bytes: Bytes) -> Value {
    Val::utf8_str(bytes)
}

/// Bytes that need not be text.
pub fn bytes(bytes: Bytes) -> Value {
    Val::byte_str(bytes)
}

/// A list of these values.
#[inline]
pub fn list(items: Vec<Value>) -> Value {
    Val::Arr(Arc::new(items))
}

/// An object. If a name occurs twice, the last value counts.
pub fn object<N: AsRef<str>>(fields: impl IntoIterator<Item = (N, Value)>) -> Value {
    fields_of(fields.into_iter().map(|(name, value)| (string(name.as_ref()), value)).collect())
}

/// An object of existing fields.
#[inline]
pub fn fields_of(fields: Fields) -> Value {
    Val::Obj(Arc::new(fields))
}

/// A number from a JSON literal. It keeps the literal if a machine number would print differently.
pub fn number(literal: &str) -> Value {
    let whole = literal != "-0" && !literal.contains(['.', 'e', 'E']);
    let number = whole.then(|| Num::from_str_radix(literal, 10)).flatten();
    Val::Num(number.unwrap_or_else(|| Num::Dec(Arc::new(literal.to_owned()))))
}

/// The text of a string that is UTF-8.
#[inline]
pub fn as_str(value: &Value) -> Option<&str> {
    match value {
        Val::TStr(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// The items of a list.
#[inline]
pub fn as_list(value: &Value) -> Option<&[Value]> {
    match value {
        Val::Arr(items) => Some(items),
        _ => None,
    }
}

/// The fields of an object.
#[inline]
pub fn as_object(value: &Value) -> Option<&Fields> {
    match value {
        Val::Obj(fields) => Some(fields),
        _ => None,
    }
}

/// The name of a value's type, as jq's `type` returns it.
#[inline]
pub fn kind(value: &Value) -> &'static str {
    match value {
        Val::Null => "null",
        Val::Bool(_) => "boolean",
        Val::Num(_) => "number",
        Val::TStr(_) | Val::BStr(_) => "string",
        Val::Arr(_) => "array",
        Val::Obj(_) => "object",
    }
}

/// The shape of a value, for writers.
#[inline]
pub fn shape(value: &Value) -> Shape<'_> {
    match value {
        Val::Null => Shape::Null,
        Val::Bool(truth) => Shape::Bool(*truth),
        Val::Num(Num::Int(number)) => Shape::Integer(*number),
        Val::Num(Num::Float(number)) => Shape::Float(*number),
        Val::Num(Num::Dec(literal)) => Shape::Literal(literal.as_str().into()),
        #[cfg(feature = "expressions")]
        Val::Num(Num::BigInt(number)) => Shape::Literal(number.to_string().into()),
        Val::TStr(text) => Shape::Text(text),
        Val::BStr(bytes) => Shape::Bytes(bytes),
        Val::Arr(items) => Shape::List(items),
        Val::Obj(fields) => Shape::Object(fields),
    }
}
