//! Bytes that PostgreSQL never sends.

/// Bytes that are no value of their type.
#[derive(Debug, PartialEq)]
pub(super) struct Garbled;
