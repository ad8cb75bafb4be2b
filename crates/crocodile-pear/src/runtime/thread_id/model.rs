//! A thread that is only played: tests run statements of several cores on one.

use std::cell::Cell;

thread_local!(static PLAYED: Cell<Option<usize>> = const { Cell::new(None) });

/// Returns the index of the thread that is played.
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
