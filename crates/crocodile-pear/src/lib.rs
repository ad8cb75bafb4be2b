//! Many calls out, one answer back, streamed as the parts arrive.

pub mod error;
pub mod flow;
pub mod format;
pub mod jq;
pub mod problem;
pub mod spec;
pub mod upstream;
