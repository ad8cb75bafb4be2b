//! Values during evaluation, and what each operation costs.
//!
//! - `bounded`: values whose size is limited. `operators`: arithmetic, comparison, paths on values.
//! - `byte_arithmetic`: the same on numbers as they are written, without a value. `closure`: functions of programs.
//! - `budget`: work and memory of an evaluation. `runtime_error`: why it ended.
//!
//! Uses `jq::syntax` and `meter`. Begin at `operators`.
//!
//! Invariants: every operation is charged before it is done.

pub(crate) mod bounded;
pub(crate) mod budget;
pub(crate) mod byte_arithmetic;
pub(crate) mod closure;
pub(crate) mod operators;
pub(crate) mod runtime_error;
