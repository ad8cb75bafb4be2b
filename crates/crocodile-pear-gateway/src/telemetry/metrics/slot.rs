//! Which core a thread is, for counters that each core has for itself.

use std::cell::Cell;

/// Cores beyond this share a counter with another one.
pub const CORES: usize = 64;

thread_local! {
    /// Which core this thread is.
    pub(super) static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Says which core this thread is.
pub fn begin_core(index: usize) {
    CORE.set(index % CORES);
}
