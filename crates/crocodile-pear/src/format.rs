//! Bytes to values and back, piece by piece.

pub mod json;
