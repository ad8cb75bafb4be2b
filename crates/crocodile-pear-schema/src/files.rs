//! The files of a schema, as the library asks for them.

use std::collections::HashMap;

use jsonschema::{Retrieve, Uri};
use serde_json::Value as Json;

/// The beginning of the address of each schema and file.
pub const SCHEME: &str = "file:///";

/// The files that a schema refers to, by path without a leading slash. Nothing else is loaded.
#[derive(Clone)]
pub struct LoadedFiles(pub HashMap<String, Json>);

impl Retrieve for LoadedFiles {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let known = uri.as_str().strip_prefix(SCHEME).and_then(|path| self.0.get(path));
        known.cloned().ok_or_else(|| format!("`{uri}` is not loaded: only files are").into())
    }
}
