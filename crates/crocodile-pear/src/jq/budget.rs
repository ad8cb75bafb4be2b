//! What one evaluation may use, counted by every step and every function.
//!
//! Who is over the budget is unwound, not given an error: expressions catch errors (`try`, `?`) and would go on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, Kind};

/// Units of work: each step of each value is one, functions take some for what they go over. `group_by` over 14 MB in 250,000 items is
/// seven million.
pub const WORK: u64 = 8_000_000;

/// Bytes that may be made in all, freed ones included.
const GROWTH: u64 = 128 << 20;

/// Bytes of one string.
pub const TEXT: usize = 16 << 20;

struct Meter {
    work: Cell<u64>,
    growth: Cell<u64>,
}

thread_local! {
    static METER: Meter = const {
        Meter { work: Cell::new(0), growth: Cell::new(0) }
    };
}

struct Exhausted(&'static str);

/// Evaluates with a fresh budget of so much work.
pub fn within<T>(work: u64, evaluate: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    METER.with(|meter| {
        meter.work.set(work);
        meter.growth.set(GROWTH);
    });
    // Nothing that was being evaluated is looked at again.
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or_else(|payload| {
        let reason = payload.downcast_ref::<Exhausted>().map_or("the expression broke its engine", |it| it.0);
        Err(Error::new(Kind::Expression, reason))
    })
}

/// Takes units of work.
#[inline]
pub fn charge(units: usize) {
    METER.with(|meter| match meter.work.get().checked_sub(units as u64) {
        Some(left) => meter.work.set(left),
        None => exhaust("the expression does not end within its budget"),
    });
}

/// Bytes of text that the work left can pay for.
pub fn room() -> usize {
    METER.with(|meter| TEXT.min(meter.work.get() as usize * 8))
}

/// Takes bytes.
#[inline]
pub fn grow(bytes: usize) {
    METER.with(|meter| match meter.growth.get().checked_sub(bytes as u64) {
        Some(left) => meter.growth.set(left),
        None => exhaust("the expression makes more data than its budget"),
    });
}

/// Takes the work and the bytes of a string that is made.
pub fn text(length: usize) {
    if length > TEXT {
        exhaust("the expression makes a string of more than 16 MiB");
    }
    charge(1 + length / 64);
    grow(64 + length);
}

/// Gives up the evaluation.
pub fn exhaust(reason: &'static str) -> ! {
    resume_unwind(Box::new(Exhausted(reason)))
}
