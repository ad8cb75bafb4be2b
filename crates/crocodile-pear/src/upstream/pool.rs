//! Connections kept for the next call: per core, newest first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::time::Instant;

use super::io::Io;

/// More than the cores of most machines; beyond it two threads share a shelf, and may meet at its lock.
const SHELVES: usize = 64;

/// The kept connections of one upstream.
///
/// Every thread has a shelf of its own, behind a lock that only this thread takes while it serves requests; the lock
/// is there so that the pool may be dropped, and its connections closed, from anywhere. It is never held across
/// an await.
pub(super) struct Pool {
    shelves: Box<[Mutex<Shelf>]>,
    idle: Duration,
    most: usize,
}

#[derive(Default)]
struct Shelf {
    /// The newest at the back.
    kept: VecDeque<Kept>,
    /// The runtime on which a task clears this shelf, if there is one.
    cleared_by: Option<runtime::Id>,
}

struct Kept {
    io: Io,
    since: Instant,
    /// A socket is woken by the runtime that opened it: on another one it would depend on a stranger's life.
    runtime: runtime::Id,
}

impl Pool {
    /// Keeps connections for `idle`, at most `most` of them per core.
    pub(super) fn new(idle: Duration, most: usize) -> Self {
        Pool { shelves: (0..SHELVES).map(|_| Mutex::default()).collect(), idle, most }
    }

    /// The newest connection that is still at rest.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Option<Io> {
        let runtime = Handle::try_current().ok()?.id();
        let mut shelf = self.shelf(slot());
        while let Some(mut kept) = shelf.kept.pop_back() {
            if kept.since.elapsed() >= self.idle {
                shelf.kept.clear();
                return None;
            }
            if kept.runtime == runtime && kept.io.at_rest(cx) {
                return Some(kept.io);
            }
        }
        None
    }

    /// Keeps a connection, or closes it when there are enough.
    pub(super) fn put(self: &Arc<Self>, io: Io) {
        // Without a runtime nobody could close it when its time is up.
        let Ok(runtime) = Handle::try_current() else { return };
        if self.most == 0 || self.idle.is_zero() {
            return;
        }
        let id = runtime.id();
        let slot = slot();
        let mut shelf = self.shelf(slot);
        if shelf.kept.len() == self.most {
            shelf.kept.pop_front();
        }
        shelf.kept.push_back(Kept { io, since: Instant::now(), runtime: id });
        if shelf.cleared_by.replace(id) != Some(id) {
            runtime.spawn(clear(Arc::downgrade(self), slot, id, self.idle / 2));
        }
    }

    fn shelf(&self, slot: usize) -> MutexGuard<'_, Shelf> {
        self.shelves[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes what has been idle for too long or was closed at the other end.
    fn tidy(&self, slot: usize, id: runtime::Id) -> Shelved {
        let mut shelf = self.shelf(slot);
        let mut nobody = Context::from_waker(Waker::noop());
        shelf.kept.retain_mut(|kept| {
            kept.since.elapsed() < self.idle && (kept.runtime != id || kept.io.at_rest(&mut nobody))
        });
        if shelf.kept.is_empty() {
            shelf.cleared_by = None;
            return Shelved::Nothing;
        }
        Shelved::Some
    }
}

enum Shelved {
    Some,
    Nothing,
}

/// Frees sockets that no call comes for: one task per shelf in use, gone when the shelf is empty.
async fn clear(pool: Weak<Pool>, slot: usize, id: runtime::Id, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        if let Shelved::Nothing = pool.tidy(slot, id) {
            return;
        }
    }
}

/// This thread's shelf.
fn slot() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SLOT: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHELVES);
    SLOT.with(|slot| *slot)
}
