//! Breakers: when a server or a database is left alone, and when it is tried again.
//!
//! - `verdict`: whether an attempt speaks for or against its server. `breaker`: counts verdicts.
//! - `trial`: the one attempt that finds out whether a server is back. `state_change`: what the log and metrics report.
//!
//! Uses `config`, `runtime` and `telemetry`. Begin at `breaker`.
//!
//! Invariants: atomics, no lock; one trial at a time; a call past its deadline is no verdict.

pub mod breaker;
pub(crate) mod state_change;
pub(crate) mod trial;
pub(crate) mod verdict;
