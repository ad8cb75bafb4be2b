//! A function by its name, and how many arguments it has.

use crate::jq::code::Native;

/// Name, arguments, and what runs.
pub type Named = ((&'static str, usize), Native);
