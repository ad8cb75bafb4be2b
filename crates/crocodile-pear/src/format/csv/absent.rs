//! A build without CSV: rows are refused.

#[path = "rules.rs"]
mod rules;

use bytes::Bytes;

pub use self::rules::{CsvRules, Formulas};
use crate::error::Error;
use crate::json::Raw;
use crate::json::value::Value;

/// # Errors
/// Always.
pub fn read(_: &str, _: u8) -> Result<Raw, Error> {
    Err(super::unbuilt("csv"))
}

/// Rows that are refused.
pub struct RowReader(());

impl RowReader {
    /// Rows that are refused.
    pub fn new(_: usize, _: u8) -> Self {
        RowReader(())
    }

    /// Takes no bytes.
    pub fn push(&mut self, _: Bytes) {}

    /// # Errors
    /// Always.
    #[allow(clippy::should_implement_trait, reason = "the rows of a build with CSV have it")]
    pub fn next(&mut self) -> Result<Option<Bytes>, Error> {
        Err(super::unbuilt("csv"))
    }

    /// # Errors
    /// Always.
    pub fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        Err(super::unbuilt("csv"))
    }
}

/// # Errors
/// Always.
pub fn write(_: &Value, _: &CsvRules, _: &mut Vec<u8>) -> Result<(), Error> {
    Err(super::unbuilt("csv"))
}

/// A writer that writes nothing.
#[derive(Clone)]
pub struct RowWriter(());

impl RowWriter {
    /// A writer that writes nothing.
    pub fn new(_: &CsvRules) -> Self {
        RowWriter(())
    }

    /// No columns are awaited.
    pub fn is_unnamed(&self) -> bool {
        false
    }

    /// # Errors
    /// Always.
    pub fn write_first(&mut self, _: &[Value], _: &mut Vec<u8>) -> Result<(), Error> {
        Err(super::unbuilt("csv"))
    }

    /// # Errors
    /// Always.
    pub fn write(&mut self, _: &Value, _: &mut Vec<u8>) -> Result<(), Error> {
        Err(super::unbuilt("csv"))
    }

    /// # Errors
    /// Always.
    pub fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Error> {
        Err(super::unbuilt("csv"))
    }
}
