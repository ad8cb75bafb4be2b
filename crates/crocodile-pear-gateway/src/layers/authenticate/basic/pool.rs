//! Threads that check passwords outside the cores: one check takes as long as a thousand requests.

use std::sync::LazyLock;
use std::thread;

use tokio::sync::oneshot;

use crate::runtime::worker_pool::WorkerPool;

/// How many checks may wait. Further ones are refused at once.
const WAITING: usize = 64;

/// The most threads. Each needs the memory of one hash and takes time from the cores.
const THREADS: usize = 4;

type PasswordCheck = Box<dyn FnOnce() + Send>;

static POOL: LazyLock<WorkerPool<PasswordCheck>> = LazyLock::new(|| {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    WorkerPool::new("password", threads, WAITING, |check| check())
});

/// Runs `check` on another thread. `None` if too many checks wait.
pub async fn run(check: impl FnOnce() -> bool + Send + 'static) -> Option<bool> {
    let (told, answer) = oneshot::channel::<bool>();
    let job = move || {
        // Skips the check if the client has left.
        if !told.is_closed() {
            let _ = told.send(check());
        }
    };
    if POOL.lend(Box::new(job)).is_some() {
        return None;
    }
    answer.await.ok()
}
