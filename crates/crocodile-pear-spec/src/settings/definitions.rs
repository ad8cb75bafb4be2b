//! The named parts of a schema.

use indexmap::IndexMap;
use serde_json::{Value, json};

/// The named parts of a schema, each defined once.
#[derive(Debug, Default)]
pub struct Definitions(pub(super) IndexMap<&'static str, (String, Value)>);

impl Definitions {
    /// A reference to the definition of a type. Builds the definition if it is missing; types may contain themselves.
    pub fn define(&mut self, identity: &'static str, build: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.begin(identity) {
            let schema = build(self);
            self.0[identity].1 = schema;
        }
        self.reference(identity)
    }

    /// Names a type, unless it has a name already.
    fn begin(&mut self, identity: &'static str) -> bool {
        let new = !self.0.contains_key(identity);
        if new {
            let name = self.name(identity);
            self.0.insert(identity, (name, Value::Null));
        }
        new
    }

    fn reference(&self, identity: &str) -> Value {
        json!({"$ref": format!("#/$defs/{}", self.0[identity].0)})
    }

    /// The schema for a value that may also be an environment variable, and so a text.
    pub fn or_variable(&mut self, schema: Value) -> Value {
        let variable = self.define("Variable", |_| {
            json!({
                "type": "string",
                "pattern": r"\$\{[A-Z_][A-Z0-9_]*(:-[^}]*)?\}",
                "description": "A variable of the environment: `${NAME}`, or `${NAME:-default}`.",
            })
        });
        json!({"anyOf": [schema, variable]})
    }

    /// The last word of the type's path, with as many words before it as make it unique.
    fn name(&self, identity: &str) -> String {
        let words: Vec<&str> = identity.split("::").collect();
        (0..words.len())
            .rev()
            .map(|from| words[from..].join("."))
            .find(|name| !self.0.values().any(|(taken, _)| taken == name))
            .unwrap_or_else(|| identity.to_owned())
    }
}
