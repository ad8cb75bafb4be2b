//! The JSON Schema of a whole configuration, for editors.

use serde_json::{Value, json};

use super::decode::Decode;
use super::definitions::Definitions;

/// The schema of a configuration as a whole document (draft 2020-12).
pub fn schema<T: Decode>(title: &str) -> Value {
    let mut definitions = Definitions::default();
    let root = T::schema(&mut definitions);
    let mut document = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title});
    if let (Some(document), Value::Object(root)) = (document.as_object_mut(), root) {
        document.extend(root);
        let definitions = definitions.0.into_values().collect::<serde_json::Map<_, _>>();
        document.insert("$defs".to_owned(), definitions.into());
    }
    document
}
