//! A value for each thread.

use std::sync::OnceLock;

use super::thread_id::{self, THREADS};

/// A value for each thread, made when the thread first asks for it. A program may call many servers, each from few threads.
pub struct PerThread<T>(Box<[OnceLock<Box<T>>]>);

impl<T> Default for PerThread<T> {
    fn default() -> Self {
        PerThread((0..THREADS).map(|_| OnceLock::new()).collect())
    }
}

impl<T> PerThread<T> {
    /// The value of a thread, by its index.
    pub fn of(&self, thread: usize, make: impl FnOnce() -> T) -> &T {
        self.0[thread].get_or_init(|| Box::new(make()))
    }

    /// The value of this thread.
    pub fn own(&self) -> &T
    where
        T: Default,
    {
        self.of(thread_id::index(), T::default)
    }

    /// The values that were made.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).map(|value| &**value)
    }
}
