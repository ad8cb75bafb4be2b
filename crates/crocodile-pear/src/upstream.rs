//! An upstream: where it is, what may be sent to it, and the one way a call takes to it.

use std::sync::Arc;

use http::Method;

use crate::error::Error;
use crate::flow::{Answer, Body};

/// A configured upstream, ready to be called from any core.
pub struct Upstream {}

/// One call to make.
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query, percent-encoded, beginning with `/`, without the upstream's own base path.
    pub target: String,
    /// End-to-end header fields to send.
    pub headers: http::HeaderMap,
    /// The body, if one is sent.
    pub body: Option<Body>,
}

impl Upstream {
    /// Makes the call; the answer's body is pulled from the connection.
    ///
    /// # Errors
    /// `Unreachable`, `Reset`, `Malformed`, `Timeout` or `Busy`, naming the upstream.
    pub async fn call(self: &Arc<Self>, _call: Call) -> Result<Answer, Error> {
        todo!()
    }
}
