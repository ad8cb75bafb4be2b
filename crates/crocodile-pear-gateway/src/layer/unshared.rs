//! A value that will be shared, for as long as it has one owner.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value with one owner, who may change it until it is shared. It lies where it will be shared: sharing moves nothing.
pub struct Unshared<T>(Arc<T>);

impl<T> Unshared<T> {
    /// A value that nobody else has.
    pub fn new(value: T) -> Self {
        Unshared(Arc::new(value))
    }

    /// Shares the value, which nobody may change from now on.
    pub fn share(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for Unshared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unshared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::get_mut(&mut self.0).expect("the only reference, which `share` gives away")
    }
}
