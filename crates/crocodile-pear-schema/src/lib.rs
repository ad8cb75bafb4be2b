#![doc = include_str!("../README.md")]

mod compile;
mod files;
mod pattern;
mod rules;
#[cfg(test)]
mod tests;
mod unique;

use std::collections::HashMap;

use jsonschema::Draft;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value as Json;

use files::{LoadedFiles, SCHEME};

pub use compile::SchemaError;
pub use rules::{SchemaRules, Violation};

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
