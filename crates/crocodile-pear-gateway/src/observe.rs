//! Logs of requests.
//!
//! - `access_log`: which requests have a line, and its form. `log`: the gateway's own log.
//!
//! Uses `telemetry` and `layer`. Begin at `access_log`.
//!
//! Invariants: values that a client sent are escaped; credentials are not written.

pub(crate) mod access_log;
pub(crate) mod log;
