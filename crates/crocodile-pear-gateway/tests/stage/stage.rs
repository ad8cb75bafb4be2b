//! A stage for scenarios: the gateway as its own process, upstreams that follow a script, clients that see every byte.

pub mod client;
pub mod gates;
pub mod gateway;
pub mod play;
#[allow(dead_code, reason = "not every suite has such servers")]
pub mod ports;
pub mod schema;
pub mod script;
pub mod shop;
pub mod upstream;

use std::time::Duration;

/// Longer than anything here takes: what waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);
