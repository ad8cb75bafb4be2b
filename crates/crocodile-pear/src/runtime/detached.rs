//! Work that goes on when its client has left. It is counted, so that a process can wait for it before it ends. Nothing of
//! it outlives the process.

use std::future::Future;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// How many tasks run.
static RUNNING: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

static COUNTS: [AtomicU64; RESULTS.len()] = [const { AtomicU64::new(0) }; RESULTS.len()];

/// The results of detached work, as labels.
const RESULTS: [&str; 4] = ["done", "failed", "refused", "lost"];

/// How detached work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// With success.
    Done,
    /// Without, after all tries.
    Failed,
    /// The work never began: there was too much of it.
    Refused,
    /// The process ended first.
    Lost,
}

pub fn count(result: Detached) {
    COUNTS[result as usize].fetch_add(1, Ordering::Relaxed);
}

/// How often each result was counted.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    RESULTS.into_iter().zip(COUNTS.iter().map(|count| count.load(Ordering::Relaxed)))
}

/// How much is running.
pub fn running() -> usize {
    *RUNNING.borrow()
}

/// Begins work on this runtime. The result is counted.
pub fn spawn(work: impl Future<Output = Detached> + Send + 'static) {
    let place = RunningTask::enter();
    drop(tokio::spawn(async move {
        let mut place = place;
        place.result = work.await;
        drop(place);
    }));
}

/// Waits until nothing runs.
pub async fn idle() {
    // The sender is never dropped.
    let _ = RUNNING.subscribe().wait_for(|running| *running == 0).await;
}

/// A task while it runs.
struct RunningTask {
    result: Detached,
}

impl RunningTask {
    fn enter() -> Self {
        RUNNING.send_modify(|running| *running += 1);
        RunningTask { result: Detached::Lost }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        count(self.result);
        RUNNING.send_modify(|running| *running -= 1);
    }
}
