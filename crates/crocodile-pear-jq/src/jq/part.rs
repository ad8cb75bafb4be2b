//! A part of a variable, as expressions and caches name it.

use std::fmt;

/// A part of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The variable, without `$`.
    pub variable: String,
    /// The field of it; `None` for all of it.
    pub field: Option<String>,
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            None => write!(f, "${}", self.variable),
            Some(field) => write!(f, "${}[{field:?}]", self.variable),
        }
    }
}
