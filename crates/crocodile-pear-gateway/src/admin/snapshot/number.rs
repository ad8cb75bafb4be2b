//! Numbers as operators are told them.

use std::time::Duration;

use crate::telemetry::recent::History;

/// To three places.
pub fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// Time since then, for what is told in seconds.
pub fn ago(history: &History, at: Duration) -> f64 {
    rounded(history.now().saturating_sub(at).as_secs_f64())
}
