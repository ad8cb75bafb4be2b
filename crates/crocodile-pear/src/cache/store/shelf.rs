//! Where caches leave the entry that they answered with, for the layers around that make compressed copies of it.

use std::sync::OnceLock;

use super::stored_answer::Kept;

/// The shelf of one request. A layer that wants the entry puts a shelf into the request's extensions, in an `Arc`.
pub struct Shelf {
    owner: ShelfOwner,
    kept: OnceLock<Kept>,
}

/// Whose answers are left on a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShelfOwner {
    /// The parts of an endpoint's answer.
    Endpoint,
    /// The one call of a proxy, too.
    Call,
}

impl Shelf {
    /// An empty one.
    pub fn new(owner: ShelfOwner) -> Self {
        Shelf { owner, kept: OnceLock::new() }
    }

    /// Whether the answer of a call is what the client gets.
    pub fn takes_calls(&self) -> bool {
        self.owner == ShelfOwner::Call
    }

    /// Leaves what was given. Of several the first stays.
    pub fn put(&self, kept: Kept) {
        let _ = self.kept.set(kept);
    }

    /// The entry, if the answer is kept.
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.get()
    }
}
