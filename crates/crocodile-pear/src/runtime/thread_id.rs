//! Which thread this is, for everything that is kept once for each thread.

#[cfg(test)]
pub mod model;

use std::sync::atomic::{AtomicUsize, Ordering};

/// More than the cores of most machines. Threads beyond it share what is kept, which must stay exact.
pub const THREADS: usize = 64;

pub fn index() -> usize {
    #[cfg(test)]
    if let Some(played) = model::played() {
        return played;
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS);
    INDEX.with(|index| *index)
}

/// Which of so many places is this thread's. Where there are enough, no division is needed.
pub fn slot(places: usize) -> usize {
    match index() {
        index if index < places => index,
        index => index % places.max(1),
    }
}
