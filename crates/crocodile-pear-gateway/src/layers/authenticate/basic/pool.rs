//! Threads that check passwords outside the cores: one check takes as long as a thousand requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::runtime::threads::unavailable;

/// How many checks may wait. Further ones are refused at once.
const WAITING: usize = 64;

/// The most threads. Each needs the memory of one hash and takes time from the cores.
const THREADS: usize = 4;

/// The priority of these threads, lower than that of the cores.
const NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

static POOL: LazyLock<SyncSender<Job>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel(WAITING);
    let receiver = Arc::new(Mutex::new(receiver));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    for number in 0..threads {
        let receiver = receiver.clone();
        // If a thread cannot be started, fewer threads remain, and more checks are refused.
        let started = thread::Builder::new().name(format!("password-{number}")).spawn(move || work(&receiver));
        if let Err(error) = started {
            tracing::warn!("{}", unavailable(&format!("password-{number}"), &error));
        }
    }
    sender
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
    POOL.try_send(Box::new(job)).ok()?;
    answer.await.ok()
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    let _ = rustix::process::setpriority_process(None, NICE);
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // After a panic the caller gets no result, and the thread continues.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}
