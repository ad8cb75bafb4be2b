//! A function by its name and number of arguments.

use crate::jq::eval::code::Native;

/// Name, number of arguments, and the function.
pub type Named = ((&'static str, usize), Native);
