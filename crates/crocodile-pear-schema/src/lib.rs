#![doc = include_str!("../README.md")]

mod compile;
mod pattern;
mod rules;
#[cfg(test)]
mod tests;
mod unique;

use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, Retrieve, Uri};
use serde_json::Value as Json;

pub use compile::SchemaError;
pub use rules::{SchemaRules, Violation};

/// The beginning of the address of each schema and file.
const SCHEME: &str = "file:///";

/// Compiles the schema of the file at `path`, which is empty for a schema that is in no file. `files` are the files that it
/// refers to, by path without a leading slash.
///
/// # Errors
/// The first fault.
pub fn compile(schema: &Json, path: &str, files: HashMap<String, Json>) -> Result<SchemaRules, SchemaError> {
    let base = format!("{SCHEME}{}", if path.is_empty() { "inline" } else { path.trim_start_matches('/') });
    let files = LoadedFiles(files);
    // The library knows what a schema may say, and says what is wrong in it.
    let options = compile::options(Draft::Draft202012).with_base_uri(base.clone()).with_retriever(files.clone());
    if let Err(error) = options.build(schema) {
        return Err(match error.kind() {
            ValidationErrorKind::Referencing(_) => SchemaError::Reference(error.to_string()),
            _ => SchemaError::Schema { detail: error.to_string(), pointer: error.instance_path().as_str().to_owned() },
        });
    }
    compile::compile(schema, &base, files)
}

/// The files that a schema refers to, by their path without a slash at the beginning. No other file is loaded.
#[derive(Clone)]
struct LoadedFiles(HashMap<String, Json>);

impl Retrieve for LoadedFiles {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let known = uri.as_str().strip_prefix(SCHEME).and_then(|path| self.0.get(path));
        known.cloned().ok_or_else(|| format!("`{uri}` is not loaded: only files are").into())
    }
}
