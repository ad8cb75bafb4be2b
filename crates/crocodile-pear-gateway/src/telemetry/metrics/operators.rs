//! The connections of the operators' listener.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::exposition::Exposition;

/// Counts the connections of the operators' listener that were closed.
#[derive(Default)]
pub struct Operators {
    room: AtomicU64,
    slow: AtomicU64,
}

impl Operators {
    /// Counts connections that made room for others.
    pub fn count_room(&self, count: usize) {
        self.room.fetch_add(count as u64, Relaxed);
    }

    /// Counts a connection whose client did not read.
    pub fn count_slow(&self) {
        self.slow.fetch_add(1, Relaxed);
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let help = "Connections of the admin listener that were closed: the one that was idle longest, to make room, and those \
                    whose clients did not read their answers.";
        let mut family = out.counter("crocodile_pear_admin_connections_closed_total", help);
        family.add(format_args!("reason=\"room\""), self.room.load(Relaxed));
        family.add(format_args!("reason=\"slow\""), self.slow.load(Relaxed));
    }
}
