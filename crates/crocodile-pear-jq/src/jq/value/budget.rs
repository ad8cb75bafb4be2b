//! The budget of an evaluation. Every step and every function is counted.
//!
//! An evaluation over its budget is unwound; it does not get an error, because expressions can catch errors (`try`,
//! `?`) and would continue.

use crate::error::Error;
use crate::meter;

pub use crate::meter::{charge, exhaust, grow};

/// Units of work. Each step costs one for each value; functions cost more for the data they read. A unit takes about 40
/// ns, so this is less than two seconds of a helper thread. `group_by` over 14 MB in 250,000 items takes a fifth of it.
pub const WORK: u64 = 40_000_000;

/// Bytes that may be allocated in total, including those freed again.
const GROWTH: u64 = 256 << 20;

/// Largest string, in bytes.
pub const TEXT: usize = 16 << 20;

/// Evaluates with a new budget of this much work.
pub fn within<T>(work: u64, evaluate: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    meter::evaluate(work, GROWTH, evaluate)
}

/// Bytes of text that the remaining work can pay for.
pub fn room() -> usize {
    TEXT.min(meter::left() as usize * 8)
}

/// Adds to a list. When the list moves to more room, the whole of that is charged: while it moves, there are two.
pub fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        let more = list.len().max(4);
        grow((list.len() + more) * size_of::<T>());
        list.reserve_exact(more);
    }
    list.push(item);
}

/// Charges the work and the bytes of a new string.
pub fn text(length: usize) {
    if length > TEXT {
        exhaust("the expression makes a string of more than 16 MiB");
    }
    charge(1 + length / 64);
    grow(64 + length);
}
