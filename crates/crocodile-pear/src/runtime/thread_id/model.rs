//! The index of a thread that a test simulates: statements of several cores then run on one thread.

use std::cell::Cell;

thread_local!(static PLAYED: Cell<Option<usize>> = const { Cell::new(None) });

/// Returns the index of the simulated thread, if there is one.
pub fn played() -> Option<usize> {
    PLAYED.get()
}

/// Runs something as if this thread were another.
pub fn with<T>(index: usize, run: impl FnOnce() -> T) -> T {
    let before = PLAYED.replace(Some(index));
    let done = run();
    PLAYED.set(before);
    done
}
