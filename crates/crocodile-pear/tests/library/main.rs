//! The library as a Rust program uses it: the ten programs of `examples/`, the failures that can be matched, and its promises.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod failures;
mod origins;
mod programs;
mod promises;
mod wrong;
