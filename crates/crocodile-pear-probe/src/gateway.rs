//! The part of the gateway that a probe needs.

use std::sync::Arc;

use crocodile_pear::unstable::upstream::ReadyUpstream;

/// Makes the upstream `server` of a configuration. The error is the reason why the gateway does not take it.
pub type MakeUpstream = fn(yaml: &str) -> Result<Arc<ReadyUpstream>, String>;
