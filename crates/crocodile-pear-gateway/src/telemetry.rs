//! Counters, traces and lines about requests.
//!
//! - `metrics`: counters of each core, added up by a scrape. `traces`: spans, on their way to a collector.
//! - `recent`, `analytics`: what happened lately, and over hours and days, for the operators' page.
//! - `request_end`: the end of a request, which all of these read.
//! - `line_writer`: log lines, written beside the requests. `log_time`: the time as they have it.
//!
//! Uses `runtime` and `server`. Begin at `metrics`.
//!
//! Invariants: a request never waits for a reader of what is written here. Bounds: each buffer has its own, and counts
//! what it drops.

pub(crate) mod analytics;
pub(crate) mod line_writer;
pub(crate) mod log_time;
pub(crate) mod metrics;
pub(crate) mod recent;
pub(crate) mod request_end;
pub(crate) mod traces;
