//! A value during evaluation, with an upper bound for its depth.

use bytes::Bytes;

use super::budget::{self, charge, grow};
use crate::json::DEPTH;
use crate::json::value::{self, Fields, Value};

/// How deep a value may nest during evaluation: twice the limit for input. Dropping, comparing and writing a value
/// recurse, so this bounds the stack.
pub const LIMIT: u32 = 2 * DEPTH as u32;

/// Bytes of memory for a small object.
pub const OBJECT: usize = 200;

/// Bytes of memory for a text, without its letters.
const TEXT: usize = 40;

/// Bytes of memory for one field: its key, its entry in the list, which grows by doubling, and its entry in the table.
pub const FIELD: usize = 96;

/// A value and an upper bound for its depth.
#[derive(Clone, Debug)]
pub struct Item {
    pub value: Value,
    pub(crate) depth: u32,
}

impl Item {
    /// A value from outside, no deeper than `DEPTH`.
    pub fn incoming(value: Value) -> Self {
        Item::bounded(value, DEPTH as u32)
    }

    /// A value with an upper bound for its depth.
    pub fn bounded(value: Value, depth: u32) -> Self {
        let depth = if matches!(value, Value::List(_) | Value::Object(_)) { depth } else { 0 };
        Item { value, depth }
    }

    pub const fn null() -> Self {
        Item { value: Value::Null, depth: 0 }
    }

    /// A new list or object made from parts, with an upper bound for the depth of the parts.
    pub fn made(value: Value, parts: u32) -> Self {
        let mut item = Item::bounded(value, parts + 1);
        if item.depth > LIMIT {
            // The bound becomes too high when parts are replaced by shallower ones.
            item.depth = depth(&item.value);
        }
        if item.depth > LIMIT {
            budget::exhaust("the expression nests its result too deep");
        }
        item
    }

    /// The value, unless it nests deeper than input may.
    pub fn outgoing(self) -> Option<Value> {
        let shallow = self.depth <= DEPTH as u32 || depth(&self.value) <= DEPTH as u32;
        shallow.then_some(self.value)
    }

    pub fn part(&self, value: Value) -> Self {
        Item::bounded(value, self.depth.saturating_sub(1))
    }

    /// The upper bound for its depth.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether it is neither false nor null.
    pub fn holds(&self) -> bool {
        !matches!(self.value, Value::Null | Value::Bool(false))
    }

    /// A string that shares its bytes.
    pub fn text(text: Bytes) -> Self {
        charge(1);
        grow(48);
        Item::bounded(value::text(text), 0)
    }

    pub fn list(items: Vec<Item>) -> Self {
        items.into_iter().collect()
    }

    /// An object. If a key occurs twice, the last value counts.
    pub fn object(entries: impl IntoIterator<Item = (&'static str, Item)>) -> Self {
        grow(OBJECT);
        let mut fields = Fields::default();
        let mut depth = 0;
        for (name, item) in entries {
            charge(1);
            grow(field(&item.value));
            depth = depth.max(item.depth);
            fields.insert(value::string(name), item.value);
        }
        Item::made(value::fields_of(fields), depth)
    }
}

/// The bytes that a value takes in a list. The letters of a text are shared with its copies; the rest is not.
pub fn weight(value: &Value) -> usize {
    match value {
        Value::Text(_) | Value::Bytes(_) => 16 + TEXT,
        _ => 16,
    }
}

/// The bytes of a field with this value.
pub fn field(value: &Value) -> usize {
    FIELD - 16 + weight(value)
}

/// How deep a value nests.
pub(crate) fn depth(value: &Value) -> u32 {
    charge(1);
    match value {
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
