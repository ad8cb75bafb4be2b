//! A build without YAML: a document in it is refused.

use crate::error::Error;
use crate::json::Raw;

/// # Errors
/// Always.
pub fn read(_: &str) -> Result<Raw, Error> {
    Err(super::unbuilt("yaml"))
}
