//! A JSON Schema as written: in the configuration, or in a file that may refer to other files.

use std::collections::HashMap;

use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Located, Node, NodeKind};
use crocodile_pear_schema::{SchemaError, SchemaRules};

use crate::layer::Compile;

/// A schema, or the name of its file.
#[derive(Clone, Debug)]
pub enum Schema {
    /// Written in the configuration.
    Inline(Located<Json>),
    /// In this file, as JSON.
    File(Located<String>),
}

impl Decode for Schema {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.kind {
            NodeKind::Scalar { text, quoted, .. } if *quoted || !matches!(text.as_str(), "true" | "false") => {
                node.as_text().map(Schema::File)
            }
            NodeKind::Null | NodeKind::List(_) => node.wrong(
                "a JSON Schema, or the file that has it",
                "write it as a map, as in `{ type: object }`",
                problems,
            ),
            _ => Json::decode(node, problems).map(|schema| Schema::Inline(Located::new(schema, node.span))),
        }
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "boolean"}]})
    }
}

/// The most files that one schema may consist of.
const FILES: usize = 100;

impl Schema {
    /// Compiles the schema with the files that it refers to.
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<SchemaRules> {
        let mut files = LocalFiles::default();
        let (schema, path, span) = match self {
            Schema::Inline(schema) => (schema.value.clone(), String::new(), schema.span),
            Schema::File(file) => (files.read(file, cx)?, file.value.clone(), file.span),
        };
        files.gather(&schema, &path, span, cx)?;
        let fault = match crocodile_pear_schema::compile(&schema, &path, files.0) {
            Ok(rules) => return Some(rules),
            Err(fault) => fault,
        };
        let remedy = match &fault {
            SchemaError::Reference(_) => {
                "name a definition of the schema, as in `#/$defs/NAME`, or a file; nothing is fetched".to_owned()
            }
            SchemaError::Schema { pointer, .. } if !pointer.is_empty() => format!("correct `{pointer}` in it"),
            SchemaError::Schema { .. } | SchemaError::Keyword(_) => "write it as JSON Schema 2020-12 has it".to_owned(),
            SchemaError::Endless => {
                "refer to it from `properties` or `items`, so that each use is for a smaller value".to_owned()
            }
            SchemaError::Large => "write a smaller one".to_owned(),
        };
        cx.problems.error(span, fault.to_string(), remedy)
    }
}

/// The files that a schema refers to, by path without a leading slash. Nothing else is loaded.
#[derive(Default)]
struct LocalFiles(HashMap<String, Json>);

impl LocalFiles {
    fn read(&self, file: &Located<String>, cx: &mut Compile<'_>) -> Option<Json> {
        let bytes = match (cx.services.files)(file) {
            Ok(bytes) => bytes,
            Err(reason) => {
                let remedy = "name a file that is there; its path is relative to the configuration";
                return cx.problems.error(file.span, format!("cannot read `{file}`: {reason}"), remedy);
            }
        };
        match serde_json::from_slice(&bytes) {
            Ok(schema) => Some(schema),
            Err(error) => {
                let message = format!("`{file}` is not JSON: {error}");
                cx.problems.error(file.span, message, "write the schema in this file as JSON")
            }
        }
    }

    /// Reads the files that a schema refers to, and in turn those that they refer to.
    fn gather(&mut self, schema: &Json, path: &str, span: Span, cx: &mut Compile<'_>) -> Option<()> {
        let mut names = Vec::new();
        references(schema, &mut names);
        for name in names {
            let name = name.split('#').next().unwrap_or_default();
            if name.is_empty() || name.contains("://") {
                continue;
            }
            let file = beside(path, name);
            let key = file.trim_start_matches('/').to_owned();
            if self.0.contains_key(&key) {
                continue;
            }
            if self.0.len() == FILES {
                let message = format!("the schema refers to more than {FILES} files");
                return cx.problems.error(span, message, "put some of them together");
            }
            let other = self.read(&Located::new(file.clone(), span), cx)?;
            self.0.insert(key, other.clone());
            self.gather(&other, &file, span, cx)?;
        }
        Some(())
    }
}

/// Collects the targets of all `$ref` in a schema.
fn references<'a>(schema: &'a Json, names: &mut Vec<&'a str>) {
    match schema {
        Json::Array(items) => items.iter().for_each(|item| references(item, names)),
        Json::Object(fields) => {
            names.extend(fields.get("$ref").and_then(Json::as_str));
            fields.values().for_each(|value| references(value, names));
        }
        _ => {}
    }
}

/// Resolves a path relative to the folder of another file.
fn beside(path: &str, name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_relative_to_its_file() {
        assert_eq!(beside("schemas/order.json", "money.json"), "schemas/money.json");
        assert_eq!(beside("schemas/order.json", "../money.json"), "money.json");
        assert_eq!(beside("/etc/order.json", "./a/money.json"), "/etc/a/money.json");
        assert_eq!(beside("", "money.json"), "money.json");
    }
}
