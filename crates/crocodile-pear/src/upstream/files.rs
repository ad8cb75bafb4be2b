//! The files that a configuration names.

pub use crate::carried::Files;
