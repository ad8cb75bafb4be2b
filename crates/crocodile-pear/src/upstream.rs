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
    pub timeouts: Option<Arc<Timeouts>>,
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
mod spec;
pub use spec::{TimeoutSpec, UpstreamSpec};
use crate::spec::Timeout;
#[derive(Clone, Copy, Debug)]
pub struct Timeouts { pub connect: Timeout, pub first_byte: Timeout, pub idle: Timeout, pub call: Timeout }
impl Default for Timeouts { fn default() -> Self { todo!() } }
pub struct Settings { pub timeouts: Timeouts, pub forward: Vec<http::HeaderName>, pub in_flight: Option<usize>, pub idle: std::time::Duration }
impl Settings { pub fn new(_: &str, _: http::Uri) -> Self { todo!() } }
impl Upstream { pub fn new(_: Settings) -> Result<Arc<Self>, Error> { todo!() }
 pub fn name(&self) -> &Arc<str> { todo!() }
 pub fn forward(&self) -> &[http::HeaderName] { todo!() }
 pub fn timeouts(&self) -> &Timeouts { todo!() } }
pub fn may_send(_: &http::HeaderName) -> bool { todo!() }
