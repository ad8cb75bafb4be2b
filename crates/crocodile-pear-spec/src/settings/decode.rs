//! Values that can be written in a configuration.

use serde_json::{Value as Json, json};

use super::definitions::Definitions;
use super::node::Node;
use crate::problem::Problems;

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
    let empty = Node::from_json(&json!({}));
    T::decode(&empty, &mut Problems::default()).expect("every field may be left out")
}

/// A field of a spec.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key as written.
    pub name: &'static str,
    /// The meaning of the field.
    pub doc: &'static str,
    /// Its former key.
    pub was: Option<&'static str>,
}

impl Field {
    /// A field whose key never changed.
    pub const fn new(name: &'static str, doc: &'static str) -> Self {
        Field { name, doc, was: None }
    }
}

/// The schema of a configuration as a whole document (draft 2020-12).
pub fn schema<T: Decode>(title: &str) -> Json {
    let mut definitions = Definitions::default();
    let root = T::schema(&mut definitions);
    let mut document = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title});
    if let (Some(document), Json::Object(root)) = (document.as_object_mut(), root) {
        document.extend(root);
        let definitions = definitions.0.into_values().collect::<serde_json::Map<_, _>>();
        document.insert("$defs".to_owned(), definitions.into());
    }
    document
}
