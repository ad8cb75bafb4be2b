//! Chooses where a statement that only reads runs: on the replicas in turn, or on the primary where no replica can be reached.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::time::Instant;

use super::server::{DatabaseServer, TriedStatement};
use crate::error::Error;

/// The most replicas.
pub(super) const MOST: usize = 16;

/// The servers for statements that only read. All their connections let nothing be changed.
pub(super) struct Readers {
    replicas: Box<[DatabaseServer]>,
    primary: DatabaseServer,
    turn: AtomicUsize,
}

/// A server that was chosen.
pub(super) struct Chosen<'a> {
    pub(super) server: &'a DatabaseServer,
    pub(super) tried: TriedStatement<'a>,
    /// The bit of a replica; none of the primary, which is the last resort.
    pub(super) bit: u32,
}

impl Readers {
    pub(super) fn new(replicas: Vec<DatabaseServer>, primary: DatabaseServer) -> Self {
        Readers { replicas: replicas.into(), primary, turn: AtomicUsize::new(0) }
    }

    /// The next replica in turn that may be asked and is none of these; else the primary.
    ///
    /// # Errors
    /// `Busy`, if its breaker is open too.
    pub(super) fn choose(&self, until: Option<Instant>, failed: u32) -> Result<Chosen<'_>, Error> {
        let count = self.replicas.len();
        let turn = self.turn.fetch_add(1, Relaxed);
        for at in (0..count).map(|step| turn.wrapping_add(step) % count) {
            let (server, bit) = (&self.replicas[at], 1 << at);
            if failed & bit == 0
                && let Ok(tried) = server.admit(until)
            {
                return Ok(Chosen { server, tried, bit });
            }
        }
        self.primary.admit(until).map(|tried| Chosen { server: &self.primary, tried, bit: 0 })
    }

    pub(super) fn replicas(&self) -> &[DatabaseServer] {
        &self.replicas
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &DatabaseServer> {
        self.replicas.iter().chain([&self.primary])
    }
}
