//! What one evaluation may use, counted by every step and every function.
//!
//! An evaluation over its budget is unwound, not given an error: expressions catch errors (`try`, `?`) and would go on.

use crate::error::Error;
use crate::offload;

pub use crate::offload::{charge, exhaust, grow};

/// Units of work: each step of each value is one, functions take some for what they go over. A unit takes about 40 ns, so this is less
/// than two seconds of a helper thread; `group_by` over 14 MB in 250,000 items takes a fifth of it.
pub const WORK: u64 = 40_000_000;

/// Bytes that may be made in all, freed ones included.
const GROWTH: u64 = 256 << 20;

/// Bytes of one string.
pub const TEXT: usize = 16 << 20;

/// Evaluates with a fresh budget of so much work.
pub fn within<T>(work: u64, evaluate: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    offload::evaluate(work, GROWTH, evaluate)
}

/// Bytes of text that the work left can pay for.
pub fn room() -> usize {
    TEXT.min(offload::left() as usize * 8)
}

/// Takes the work and the bytes of a string that is made.
pub fn text(length: usize) {
    if length > TEXT {
        exhaust("the expression makes a string of more than 16 MiB");
    }
    charge(1 + length / 64);
    grow(64 + length);
}
