//! Values of a build without expressions: the same shapes as the engine's, without its arithmetic.

use std::cmp::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::json::quote::write_string;

/// The fields of an object, in their order.
pub type Map = IndexMap<Val, Val>;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Val {
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Num(Num),
    /// Bytes that are not text.
    BStr(Box<Bytes>),
    /// Text.
    TStr(Box<Bytes>),
    /// A list.
    Arr(Arc<Vec<Val>>),
    /// An object.
    Obj(Arc<Map>),
}

/// A number.
#[derive(Clone, Debug)]
pub enum Num {
    /// An integer that fits a machine word.
    Int(isize),
    /// A number that was computed.
    Float(f64),
    /// A number as it was written.
    Dec(Arc<String>),
}

impl Val {
    /// A string that shares its bytes.
    pub fn utf8_str(bytes: Bytes) -> Self {
        Val::TStr(Box::new(bytes))
    }

    /// Bytes that need not be text.
    pub fn byte_str(bytes: Bytes) -> Self {
        Val::BStr(Box::new(bytes))
    }
}

impl From<bool> for Val {
    fn from(truth: bool) -> Self {
        Val::Bool(truth)
    }
}

impl From<f64> for Val {
    fn from(number: f64) -> Self {
        Val::Num(Num::Float(number))
    }
}

impl From<isize> for Val {
    fn from(number: isize) -> Self {
        Val::Num(Num::Int(number))
    }
}

impl Num {
    /// An integer.
    pub fn from_str_radix(literal: &str, radix: u32) -> Option<Self> {
        isize::from_str_radix(literal, radix).ok().map(Num::Int)
    }

    fn value(&self) -> f64 {
        match self {
            Num::Int(number) => *number as f64,
            Num::Float(number) => *number,
            Num::Dec(literal) => literal.parse().unwrap_or(f64::NAN),
        }
    }
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Num::Int(number) => write!(f, "{number}"),
            Num::Float(number) => write!(f, "{number:?}"),
            Num::Dec(literal) => f.write_str(literal),
        }
    }
}

/// JSON.
impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::Null => f.write_str("null"),
            Val::Bool(truth) => write!(f, "{truth}"),
            Val::Num(number) => write!(f, "{number}"),
            Val::BStr(bytes) | Val::TStr(bytes) => {
                let mut quoted = Vec::with_capacity(bytes.len() + 2);
                write_string(&String::from_utf8_lossy(bytes), &mut quoted);
                f.write_str(&String::from_utf8_lossy(&quoted))
            }
            Val::Arr(items) => {
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "[" } else { "," })?;
                }
                f.write_str(if items.is_empty() { "[]" } else { "]" })
            }
            Val::Obj(fields) => {
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}:{value}", if at == 0 { "{" } else { "," })?;
                }
                f.write_str(if fields.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

impl Val {
    /// The place of its kind in the order of all values.
    fn rank(&self) -> u8 {
        match self {
            Val::Null => 0,
            Val::Bool(_) => 1,
            Val::Num(_) => 2,
            Val::BStr(_) | Val::TStr(_) => 3,
            Val::Arr(_) => 4,
            Val::Obj(_) => 5,
        }
    }
}

impl Ord for Val {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Val::Bool(left), Val::Bool(right)) => left.cmp(right),
            (Val::Num(left), Val::Num(right)) => left.value().total_cmp(&right.value()),
            (Val::BStr(left) | Val::TStr(left), Val::BStr(right) | Val::TStr(right)) => left.cmp(right),
            (Val::Arr(left), Val::Arr(right)) => left.cmp(right),
            (Val::Obj(left), Val::Obj(right)) => {
                let sorted = |fields: &Map| {
                    let mut fields: Vec<(Val, Val)> = fields.iter().map(|(n, v)| (n.clone(), v.clone())).collect();
                    fields.sort();
                    fields
                };
                sorted(left).cmp(&sorted(right))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Val {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Num {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Num::Int(left), Num::Int(right)) => left == right,
            (Num::Dec(left), Num::Dec(right)) if left == right => true,
            _ => self.value() == other.value(),
        }
    }
}

impl Eq for Num {}

impl Hash for Num {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Zero has two signs.
        (self.value() + 0.0).to_bits().hash(state);
    }
}

impl Hash for Val {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Val::Null => {}
            Val::Bool(truth) => truth.hash(state),
            Val::Num(number) => number.hash(state),
            Val::BStr(bytes) | Val::TStr(bytes) => bytes.hash(state),
            Val::Arr(items) => items.hash(state),
            // Equal objects have equal hashes, whatever the order of their fields.
            Val::Obj(fields) => {
                let field = |field: (&Val, &Val)| {
                    let mut hasher = DefaultHasher::new();
                    field.hash(&mut hasher);
                    hasher.finish()
                };
                fields.iter().map(field).fold(0_u64, u64::wrapping_add).hash(state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Num, Val};
    use crate::json::read;

    fn value(json: &str) -> Val {
        read(&json.as_bytes().to_vec().into()).expect("JSON")
    }

    fn hash(value: &Val) -> u64 {
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
        let mut values: Vec<Val> =
            [r#"{"a":1}"#, "[1]", r#""a""#, "2", "1.5", "true", "false", "null"].map(value).into();
        values.sort();
        let shown: Vec<String> = values.iter().map(Val::to_string).collect();
        assert_eq!(shown, ["null", "false", "true", "1.5", "2", r#""a""#, "[1]", r#"{"a":1}"#]);
        assert_eq!(Val::Num(Num::Float(1.0)), value("1"));
    }
}
