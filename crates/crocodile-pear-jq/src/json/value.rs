//! JSON values, which keep the literals of numbers.

mod number;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use indexmap::IndexMap;

pub use number::Number;

use crate::json::quote::write_string;

/// A JSON value that keeps its number literals. Cheap to clone: lists, objects and text are shared.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The value `null`.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Bytes that are not text.
    Bytes(Box<Bytes>),
    /// Text. It is UTF-8 unless an expression cut it within a character.
    Text(Box<Bytes>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// An object.
    Object(Arc<Fields>),
}

/// The fields of an object, in their order; keys are strings.
pub type Fields = IndexMap<Value, Value, RandomState>;

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
    Value::Null
}

/// A string, copied.
pub fn string(text: &str) -> Value {
    self::text(Bytes::copy_from_slice(text.as_bytes()))
}

/// A string that shares its bytes.
#[inline]
pub fn text(bytes: impl Into<Bytes>) -> Value {
    Value::Text(Box::new(bytes.into()))
}

/// Bytes that need not be text.
pub fn bytes(bytes: Bytes) -> Value {
    Value::Bytes(Box::new(bytes))
}

/// A list of these values.
#[inline]
pub fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(items))
}

/// An object. If a name occurs twice, the last value counts.
pub fn object<N: AsRef<str>>(fields: impl IntoIterator<Item = (N, Value)>) -> Value {
    fields_of(fields.into_iter().map(|(name, value)| (string(name.as_ref()), value)).collect())
}

/// An object of existing fields.
#[inline]
pub fn fields_of(fields: Fields) -> Value {
    Value::Object(Arc::new(fields))
}

/// A number from a JSON literal. It keeps the literal if a machine number would print differently.
pub fn number(literal: &str) -> Value {
    let whole = literal != "-0" && !literal.contains(['.', 'e', 'E']);
    let number = whole.then(|| Number::from_digits(literal)).flatten();
    Value::Number(number.unwrap_or_else(|| Number::Literal(Arc::new(literal.to_owned()))))
}

/// The text of a string that is UTF-8.
#[inline]
pub fn as_str(value: &Value) -> Option<&str> {
    match value {
        Value::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// The items of a list.
#[inline]
pub fn as_list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(items) => Some(items),
        _ => None,
    }
}

/// The fields of an object.
#[inline]
pub fn as_object(value: &Value) -> Option<&Fields> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// The name of a value's type, as jq's `type` returns it.
#[inline]
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Text(_) | Value::Bytes(_) => "string",
        Value::List(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The shape of a value, for writers.
#[inline]
pub fn shape(value: &Value) -> Shape<'_> {
    match value {
        Value::Null => Shape::Null,
        Value::Bool(truth) => Shape::Bool(*truth),
        Value::Number(Number::Int(number)) => Shape::Integer(*number),
        Value::Number(Number::Float(number)) => Shape::Float(*number),
        Value::Number(Number::Literal(literal)) => Shape::Literal(literal.as_str().into()),
        #[cfg(feature = "expressions")]
        Value::Number(Number::BigInt(number)) => Shape::Literal(number.to_string().into()),
        Value::Text(text) => Shape::Text(text),
        Value::Bytes(bytes) => Shape::Bytes(bytes),
        Value::List(items) => Shape::List(items),
        Value::Object(fields) => Shape::Object(fields),
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl From<isize> for Value {
    fn from(number: isize) -> Self {
        Value::Number(Number::Int(number))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        isize::try_from(number).map_or_else(|_| (number as f64).into(), Value::from)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(Number::Float(number))
    }
}

impl Value {
    /// The place of its kind in the order of all values.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Number(_) => 2,
            Value::Bytes(_) | Value::Text(_) => 3,
            Value::List(_) => 4,
            Value::Object(_) => 5,
        }
    }
}

/// The order of jq. Objects are compared by their keys first, then by their values.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => left.cmp(right),
            (Value::Bytes(left) | Value::Text(left), Value::Bytes(right) | Value::Text(right)) => left.cmp(right),
            (Value::List(left), Value::List(right)) => left.cmp(right),
            (Value::Object(left), Value::Object(right)) => {
                let sorted = |fields: &Fields| {
                    let mut keys: Vec<Value> = fields.keys().cloned().collect();
                    keys.sort();
                    keys
                };
                let keys = sorted(left);
                let values = |fields: &Fields| keys.iter().map(|key| fields[key].clone()).collect::<Vec<Value>>();
                keys.cmp(&sorted(right)).then_with(|| values(left).cmp(&values(right)))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::Number(left), Value::Number(right)) => left == right,
            (Value::Bytes(left) | Value::Text(left), Value::Bytes(right) | Value::Text(right)) => left == right,
            (Value::List(left), Value::List(right)) => left == right,
            (Value::Object(left), Value::Object(right)) => left == right,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.rank());
        match self {
            Value::Null => {}
            Value::Bool(truth) => truth.hash(state),
            Value::Number(number) => number.hash(state),
            Value::Bytes(bytes) | Value::Text(bytes) => bytes.hash(state),
            Value::List(items) => items.hash(state),
            // Equal objects have equal hashes, whatever the order of their fields.
            Value::Object(fields) => {
                let mut fields: Vec<(&Value, &Value)> = fields.iter().collect();
                fields.sort_by_key(|(key, _)| *key);
                fields.hash(state);
            }
        }
    }
}

/// JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Bytes(bytes) | Value::Text(bytes) => {
                let mut quoted = Vec::with_capacity(bytes.len() + 2);
                write_string(&String::from_utf8_lossy(bytes), &mut quoted);
                f.write_str(&String::from_utf8_lossy(&quoted))
            }
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "[" } else { "," })?;
                }
                f.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Value::Object(fields) => {
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}:{value}", if at == 0 { "{" } else { "," })?;
                }
                f.write_str(if fields.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, Value};
    use crate::json::read;

    fn value(json: &str) -> Value {
        read(&json.as_bytes().to_vec().into()).expect("JSON")
    }

    fn hash(value: &Value) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
    }

    #[test]
    fn equal_values_have_equal_hashes() {
        for (left, right) in [("1", "1.0"), ("0", "-0"), (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#), ("[1e2]", "[100]")] {
            assert_eq!(value(left), value(right), "{left}");
            assert_eq!(hash(&value(left)), hash(&value(right)), "{left}");
        }
        assert_ne!(value("1"), value(r#""1""#));
    }

    #[test]
    fn values_have_the_order_of_jq() {
        let mut values: Vec<Value> =
            [r#"{"a":1}"#, "[1]", r#""a""#, "2", "1.5", "true", "false", "null"].map(value).into();
        values.sort();
        let shown: Vec<String> = values.iter().map(Value::to_string).collect();
        assert_eq!(shown, ["null", "false", "true", "1.5", "2", r#""a""#, "[1]", r#"{"a":1}"#]);
        assert_eq!(Value::Number(Number::Float(1.0)), value("1"));
    }
}
