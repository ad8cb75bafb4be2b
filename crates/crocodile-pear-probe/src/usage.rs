//! The error of options that cannot be used.

use std::fmt;

/// An option that cannot be used. The text says why, and for a wrong value also which values are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(String);

impl UsageError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        UsageError(reason.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
