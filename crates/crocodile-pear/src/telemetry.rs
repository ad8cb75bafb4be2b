//! The notes about a request while it is served: times, calls, spans, log lines.
//!
//! - `timeline`: the marks of timers. `request_record`: the calls of one request, each with its moments.
//! - `trace`: W3C trace context. `histogram`: times in buckets, counted by each thread for itself.
//! - `log_limiter`: at most one log line a second for each cause.
//!
//! Uses `config` and `runtime`. Begin at `request_record`.
//!
//! Invariants: nothing here sends or writes; the gateway reads it. No lock that two cores share.
//! Bounds: 1,024 calls a record; the first and last message of each label of a timeline.

pub mod histogram;
pub mod log_limiter;
pub mod request_record;
pub mod timeline;
pub mod trace;
