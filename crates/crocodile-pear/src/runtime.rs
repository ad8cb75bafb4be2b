//! The machine: threads, timers, sockets, descriptors, chance.
//!
//! - `thread_id`: the index of a thread. `per_thread`: a value for each thread, made when it asks.
//! - `deadline_timer`: one timer for deadlines that move.
//! - `socket`: a connected socket of the network or of the file system. `descriptors`: the reserve of open files.
//! - `backoff`: waits that grow. `random`: numbers for jitter and choices, not for secrets.
//! - `detached`: work that goes on when its client has left, counted.
//! - `wake_after_sockets`: the end of a turn, for a task that has more to do.
//!
//! `calendar` and `hex` are those of `crocodile-pear-jq`.
//!
//! Uses `error` alone. Each file stands alone; begin with the one you need.
//!
//! Invariants: nothing here allocates for a request.

use std::pin::pin;
use std::task::{Context, Waker};

pub mod backoff;
pub mod deadline_timer;
pub mod descriptors;
pub mod detached;
pub mod per_thread;
pub mod random;
pub mod socket;
pub mod thread_id;

pub use crocodile_pear_jq::{calendar, hex};

/// Wakes a task when the runtime has looked at its sockets; a plain wake would come before that. Outside of a runtime it wakes at once.
pub fn wake_after_sockets(waker: &Waker) {
    // The future has told the runtime of the waker when it has been polled once.
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(waker));
}

/// The output of some work, and how often another task of its thread had a turn meanwhile.
#[cfg(test)]
pub(crate) async fn beside<T>(work: impl Future<Output = T>) -> (T, usize) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let turns = Arc::new(AtomicUsize::new(0));
    let others = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            others.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let done = work.await;
    other.abort();
    (done, turns.load(Ordering::Relaxed))
}
