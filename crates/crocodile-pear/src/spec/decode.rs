//! What can be written in a configuration.

use serde_json::Value as Json;

use super::definitions::Definitions;
use super::field::Field;
use super::node::Node;
use crate::problem::Problems;

/// What can be written in a configuration.
pub trait Decode: Sized {
    /// Reads it from a node; notes every problem and answers `None` if there was an error.
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self>;

    /// Its JSON Schema (draft 2020-12); what has a name goes into the definitions, once.
    fn schema(definitions: &mut Definitions) -> Json;

    /// What it is when its field is left out; `None` for what may not be left out.
    fn absent() -> Option<Self> {
        None
    }

    /// Whether a written `null` is a value of it.
    fn takes_null() -> bool {
        false
    }

    /// The keys that it knows where it is written as a map.
    fn fields() -> Vec<Field> {
        Vec::new()
    }

    /// How this value would be written, to show a default in the schema; `None` where that would not help.
    fn written(&self) -> Option<Json> {
        None
    }
}

/// A spec of which nothing is written.
///
/// # Panics
/// If it has a field that may not be left out.
pub fn defaults<T: Decode>() -> T {
    let empty = Node::from_json(&serde_json::json!({}));
    T::decode(&empty, &mut Problems::default()).expect("every field may be left out")
}
