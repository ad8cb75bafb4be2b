//! Compressed copies of a kept body: each is made once, and kept beside it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shared_body::SharedBody;

/// The copies of one body, by their coding.
#[derive(Default)]
pub struct Copies(Mutex<Vec<(&'static str, Stage)>>);

/// The stage of a compressed copy.
enum Stage {
    /// The copy is being made.
    Begun,
    Done(Copy),
}

/// A copy, or the note that a copy is of no use.
#[derive(Clone)]
pub enum Copy {
    /// The body in this coding.
    Made(SharedBody),
    /// The body is not smaller in this coding.
    Useless,
}

impl Copies {
    fn list(&self) -> MutexGuard<'_, Vec<(&'static str, Stage)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one in this coding, if it is done.
    pub(crate) fn find(&self, coding: &str) -> Option<Copy> {
        let list = self.list();
        let (_, stage) = list.iter().find(|(known, _)| *known == coding)?;
        if let Stage::Done(copy) = stage { Some(copy.clone()) } else { None }
    }

    /// Begins one, if none was begun.
    pub(crate) fn begin(&self, coding: &'static str) -> bool {
        let mut list = self.list();
        let new = list.iter().all(|(known, _)| *known != coding);
        if new {
            list.push((coding, Stage::Begun));
        }
        new
    }

    /// Sets one that was begun.
    pub(crate) fn set(&self, coding: &'static str, copy: Copy) {
        let mut list = self.list();
        list.retain(|(known, _)| *known != coding);
        list.push((coding, Stage::Done(copy)));
    }

    /// Gives up one that was begun, unless it is done.
    pub(crate) fn give_up(&self, coding: &'static str) {
        self.list().retain(|(known, stage)| *known != coding || matches!(stage, Stage::Done(_)));
    }

    /// The same copies, for an entry with the same body.
    pub(crate) fn share(&self) -> Self {
        let done = |(coding, stage): &(&'static str, Stage)| match stage {
            Stage::Done(copy) => Some((*coding, Stage::Done(copy.clone()))),
            Stage::Begun => None,
        };
        Copies(Mutex::new(self.list().iter().filter_map(done).collect()))
    }

    /// The bytes of memory that they take.
    pub(crate) fn cost(&self) -> usize {
        let copies = self.list();
        copies.iter().map(|(_, stage)| if let Stage::Done(copy) = stage { copy.cost() } else { 0 }).sum()
    }
}

impl Copy {
    /// The bytes of memory that it takes.
    pub(crate) fn cost(&self) -> usize {
        let bytes = if let Copy::Made(body) = self { body.cost() } else { 0 };
        // The list grows by doubling.
        2 * size_of::<(&str, Stage)>() + bytes
    }
}
