//! A build without XML: a document in it is refused.

use crate::error::Error;
use crate::json::Raw;
use crate::json::value::Value;
use crate::message::xml_lists::Lists;

/// # Errors
/// Always.
pub fn read(_: &[u8], _: Option<&str>, _: &Lists) -> Result<Raw, Error> {
    Err(super::unbuilt("xml"))
}

/// # Errors
/// Always.
pub fn write(_: &Value, _: &mut Vec<u8>) -> Result<(), Error> {
    Err(super::unbuilt("xml"))
}

/// Begins nothing.
pub fn begin(_: &mut Vec<u8>) {}

/// # Errors
/// Always.
pub fn item(_: &Value, _: &mut Vec<u8>) -> Result<(), Error> {
    Err(super::unbuilt("xml"))
}

/// Ends nothing.
pub fn end(_: &mut Vec<u8>) {}
