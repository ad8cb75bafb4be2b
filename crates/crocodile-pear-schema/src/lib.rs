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

use files::LocalFiles;

pub use compile::SchemaError;
pub use files::SCHEME;
pub use rules::{SchemaRules, Violation};

/// Compiles a schema at this address; `files` has what its references lead to, by path without a leading slash.
///
/// # Errors
/// The first fault.
pub fn compile(schema: &Json, base: &str, files: HashMap<String, Json>) -> Result<SchemaRules, SchemaError> {
    let files = LocalFiles(files);
    // The library knows what a schema may say, and says what is wrong in it.
    let options = compile::options(Draft::Draft202012).with_base_uri(base.to_owned()).with_retriever(files.clone());
    if let Err(error) = options.build(schema) {
        return Err(match error.kind() {
            ValidationErrorKind::Referencing(_) => SchemaError::Reference(error.to_string()),
            _ => SchemaError::Schema { detail: error.to_string(), pointer: error.instance_path().as_str().to_owned() },
        });
    }
    compile::compile(schema, base, files)
}
