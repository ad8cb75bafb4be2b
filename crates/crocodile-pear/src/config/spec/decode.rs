//! Values that can be written in a configuration.

use serde_json::Value as Json;

use super::definitions::Definitions;
use super::field::Field;
use super::node::Node;
use crate::config::problem::Problems;

/// A value that can be written in a configuration.
pub trait Decode: Sized {
    /// Reads it from a node. Records every problem, and returns `None` if there was an error.
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self>;

    /// Its JSON Schema (draft 2020-12). Named types are added to the definitions, once each.
    fn schema(definitions: &mut Definitions) -> Json;

    /// Its value if the field is left out; `None` if the field is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Whether a written `null` is a valid value.
    fn takes_null() -> bool {
        false
    }

    /// The keys that it accepts when written as a map.
    fn fields() -> Vec<Field> {
        Vec::new()
    }

    /// The value as it would be written, to show a default in the schema; `None` if that would not help.
    fn written(&self) -> Option<Json> {
        None
    }
}

/// A spec in which nothing is written.
///
/// # Panics
/// If it has a required field.
pub fn defaults<T: Decode>() -> T {
    let empty = Node::from_json(&serde_json::json!({}));
    T::decode(&empty, &mut Problems::default()).expect("every field may be left out")
}
