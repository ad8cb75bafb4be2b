//! The files that a configuration names.

use crate::spec::Located;

/// Reads a file that the configuration names. The error is the reason why it cannot be read.
pub type Files<'a> = &'a dyn Fn(&Located<String>) -> Result<Vec<u8>, String>;
