//! The budget of an evaluation. Every step and every function is counted.
//!
//! An evaluation over its budget is unwound; it does not get an error, because expressions can catch errors (`try`,
//! `?`) and would continue.

use crate::error::Error;
use crate::meter;

pub use crate::meter::{charge, exhaust, grow};

/// An evaluation's bounds.
#[derive(Clone, Copy)]
pub struct Budget {
    /// Units of work. Each step costs one for each value; functions cost more for the data they read.
    pub work: u64,
    /// Bytes that may be allocated in total, including those freed again.
    pub growth: u64,
}

impl Budget {
    /// The budget of each evaluation. A unit of work takes about 40 ns, so this is less than two seconds of a helper thread.
    /// `group_by` over 14 MB in 250,000 items takes a fifth of it.
    pub const WHOLE: Self = Budget { work: 40_000_000, growth: 256 << 20 };

    /// A budget with other work.
    #[cfg(test)]
    pub fn of_work(work: u64) -> Self {
        Budget { work, ..Budget::WHOLE }
    }
}

/// Largest string, in bytes.
pub const TEXT: usize = 16 << 20;

/// Evaluates with a new budget.
pub fn within<T>(budget: Budget, evaluate: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    meter::evaluate(budget.work, budget.growth, evaluate)
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
