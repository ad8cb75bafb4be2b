//! Threads that check passwords, beside the cores: a check takes as long as a thousand requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// How many checks may wait. More are turned away at once.
const WAITING: usize = 64;

/// The most threads. Each needs the memory of a hash, and takes from the cores.
const THREADS: usize = 4;

/// How much less than the cores' threads these matter to the kernel.
const NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

static POOL: LazyLock<SyncSender<Job>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel(WAITING);
    let receiver = Arc::new(Mutex::new(receiver));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    for number in 0..threads {
        let receiver = receiver.clone();
        // With fewer threads than meant, more checks are turned away.
        let _ = thread::Builder::new().name(format!("password-{number}")).spawn(move || work(&receiver));
    }
    sender
});

/// What `check` gives, on another thread; nothing, where too many wait.
pub async fn run(check: impl FnOnce() -> bool + Send + 'static) -> Option<bool> {
    let (told, answer) = oneshot::channel::<bool>();
    let job = move || {
        // A client that left needs no answer.
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
        // The one who waits is told that there is no answer, and the thread lives.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}
