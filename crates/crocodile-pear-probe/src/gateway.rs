//! The part of the gateway that a probe needs.

use std::sync::Arc;

use crocodile_pear::unstable::upstream::ReadyUpstream;

/// The function of the gateway that a probe calls.
#[derive(Clone, Copy)]
pub struct Gateway {
    /// Makes the upstream `server` of a configuration. The error is the reason why the gateway does not take it.
    pub upstream: fn(yaml: &str) -> Result<Arc<ReadyUpstream>, String>,
}
