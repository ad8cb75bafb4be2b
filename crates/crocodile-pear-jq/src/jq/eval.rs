//! The machine that runs compiled expressions.
//!
//! - `code`: a program with its names resolved. `machine`: one value after the other goes through it.
//! - `paths`: assignments and deletions. `special_forms`: what is not a function. `run`: the way in.
//!
//! Uses `jq::syntax` and `jq::value`. Begin at `machine`.
//!
//! Invariants: no step without a charge, so every program ends.

pub(crate) mod code;
pub(crate) mod machine;
pub(crate) mod paths;
pub(crate) mod run;
pub(crate) mod special_forms;
