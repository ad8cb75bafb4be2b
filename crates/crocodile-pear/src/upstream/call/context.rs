//! What a program knows of one of its calls.

use http::Extensions;

use crate::error::CallId;

/// What a program knows of one of its calls.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// Which call it is.
    pub id: CallId,
    /// What the program gave along.
    pub extensions: Extensions,
}
