//! State that a configuration takes over from the one before it. What has not changed is carried over, whole.
//!
//! State belongs to a part of the configuration, which its mark identifies: what is written there, and the files that it
//! names. While the configuration before serves, the next one finds the state under the same mark; a part that has
//! changed has another mark, and begins anew. Nothing that is found may be changed before the configuration serves:
//! it may be refused.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::config::spec::{Located, Mark};

/// The state that is in use, by its type and its mark.
#[derive(Default)]
pub struct Carried(Mutex<HashMap<(TypeId, Mark), Weak<dyn Any + Send + Sync>>>);

impl Carried {
    fn find<T: Send + Sync + 'static>(&self, mark: Mark) -> Option<Arc<T>> {
        self.find_any(TypeId::of::<T>(), mark)?.downcast().ok()
    }

    fn find_any(&self, of: TypeId, mark: Mark) -> Option<Arc<dyn Any + Send + Sync>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(of, mark))?.upgrade()
    }

    fn keep<T: Send + Sync + 'static>(&self, mark: Mark, state: &Arc<T>) {
        let state: Weak<T> = Arc::downgrade(state);
        self.keep_any(TypeId::of::<T>(), mark, state);
    }

    fn keep_any(&self, of: TypeId, mark: Mark, state: Weak<dyn Any + Send + Sync>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == known.capacity() {
            known.retain(|_, state| state.strong_count() > 0);
        }
        known.insert((of, mark), state);
    }
}

/// The state of a part of the configuration.
#[derive(Clone, Default)]
pub struct Carry {
    /// `None` for a part that has no configuration before it.
    carried: Option<Arc<Carried>>,
    mark: Mark,
}

impl Carry {
    /// The state of a whole configuration, which goes on with this.
    pub fn over(carried: &Arc<Carried>) -> Self {
        Carry { carried: Some(carried.clone()), mark: Mark::default() }
    }

    #[must_use]
    pub fn part(&self, what: impl Hash) -> Self {
        Carry { carried: self.carried.clone(), mark: self.mark.and(what) }
    }

    /// The identity of the part.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The state that is in use, if there is one.
    pub fn known<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.carried.as_ref().and_then(|carried| carried.find(self.mark))
    }

    /// The state that is in use; made now, if there is none.
    pub fn state<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let made: Result<_, Infallible> = self.try_state(|| Ok(make()));
        made.unwrap_or_else(|never| match never {})
    }

    /// Same as [`Carry::state`], if it can be made.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn try_state<T: Send + Sync + 'static, E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        if let Some(state) = self.known() {
            return Ok(state);
        }
        let state = Arc::new(make()?);
        self.carried.iter().for_each(|carried| carried.keep(self.mark, &state));
        Ok(state)
    }

    /// The state that is in use, or this one.
    pub fn settle<T: Send + Sync + 'static>(&self, new: Arc<T>) -> Arc<T> {
        self.known().unwrap_or_else(|| {
            self.carried.iter().for_each(|carried| carried.keep(self.mark, &new));
            new
        })
    }
}

impl fmt::Debug for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carry")
    }
}

/// Reads a file that the configuration names. The error is the reason why it cannot be read.
pub type Files<'a> = &'a dyn Fn(&Located<String>) -> Result<Vec<u8>, String>;

/// Reads the files that a part of the configuration names: what is in them is a part of its mark.
pub struct MarkedFiles<'a> {
    files: Files<'a>,
    mark: Cell<Mark>,
}

impl<'a> MarkedFiles<'a> {
    pub fn new(files: Files<'a>) -> Self {
        MarkedFiles { files, mark: Cell::default() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&self, written: &Located<String>) -> Result<Vec<u8>, String> {
        let read = (self.files)(written);
        self.mark.set(self.mark.get().and((&written.value, &read)));
        read
    }

    /// The mark of everything that was read.
    pub fn mark(&self) -> Mark {
        self.mark.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::carried_state::*;

    #[test]
    fn what_has_not_changed_is_the_same() {
        let carried = Arc::default();
        let state = |part: &str, made: u32| Carry::over(&carried).part(part).state(|| made);
        let one = state("a", 1);
        assert_eq!((*state("a", 2), *state("b", 3)), (1, 3));
        // Another type is another state.
        assert_eq!(*Carry::over(&carried).part("a").state(|| "text"), "text");
        drop(one);
        assert_eq!(*state("a", 4), 4, "nobody used it any more");
        assert_eq!((*Carry::default().part("a").state(|| 5), *Carry::default().part("a").state(|| 6)), (5, 6));
    }

    #[test]
    fn what_cannot_be_made_is_not_kept() {
        let carried = Arc::default();
        let part = Carry::over(&carried).part("a");
        assert_eq!(part.try_state(|| Err::<u32, _>("no")), Err("no"));
        assert_eq!(part.try_state(|| Ok::<u32, &str>(1)).map(|one| *one), Ok(1));
    }

    #[test]
    fn what_nobody_uses_leaves_nothing() {
        let carried: Arc<Carried> = Arc::default();
        let kept = Carry::over(&carried).part("kept").state(|| 0);
        (0..10_000).for_each(|number: u32| drop(Carry::over(&carried).part(number).state(|| number)));
        assert!(carried.0.lock().expect("whole").capacity() < 64);
        assert_eq!(*Carry::over(&carried).part("kept").state(|| 1), *kept);
    }

    #[test]
    fn a_file_that_has_changed_is_another_part() {
        let mark = |bytes: &'static [u8]| {
            let file = |_: &Located<String>| Ok(bytes.to_vec());
            let reading = MarkedFiles::new(&file);
            assert_eq!(reading.read(&"ca.pem".to_owned().into()).as_deref(), Ok(bytes));
            reading.mark()
        };
        assert_eq!(mark(b"one"), mark(b"one"));
        assert_ne!(mark(b"one"), mark(b"two"));
    }
}
