//! The facts that a program knows about one of its calls.

use http::Extensions;

use crate::error::CallId;

/// The facts that a program knows about one of its calls.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    pub id: CallId,
    /// The extensions that the program gave along.
    pub extensions: Extensions,
}
