//! Threads that compress for large answers where a core would otherwise rest.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use tokio::sync::oneshot;

use super::encoder::Encoder;
use crate::runtime::threads::unavailable;

/// How much less than the cores' threads these matter to the kernel: on a busy machine, requests go first.
const NICE: i32 = 10;

/// How long one computes before it asks whether somebody waits for its core. The system itself asks only every few
/// milliseconds; to be asked more often costs gzip a sixth of its speed.
const TURN: Duration = Duration::from_micros(250);

/// Some of an answer, to be compressed.
pub struct Job {
    pub encoder: Encoder,
    pub parts: Vec<Bytes>,
    pub done: oneshot::Sender<Done>,
}

/// The result of a load.
pub struct Done {
    pub encoder: Encoder,
    pub made: Result<Vec<u8>, Error>,
}

impl Job {
    fn run(self) {
        let Job { mut encoder, parts, done } = self;
        let mut out = Vec::new();
        let mut since = Instant::now();
        let written = parts.iter().try_for_each(|part| {
            if since.elapsed() >= TURN {
                thread::yield_now();
                since = Instant::now();
            }
            encoder.write(part, &mut out)
        });
        let made = written.map(|()| {
            encoder.settle(&mut out);
            out
        });
        // Nobody waits for it if the client has left.
        let _ = done.send(Done { encoder, made });
    }
}

/// Without room for a job: it is taken only by a thread that waits for one.
static POOL: LazyLock<SyncSender<Job>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel(0);
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..*WORKERS {
        let receiver = receiver.clone();
        // With fewer threads than meant, cores do more themselves.
        let started = thread::Builder::new().name(format!("compress-{number}")).spawn(move || work(&receiver));
        if let Err(error) = started {
            tracing::warn!("{}", unavailable(&format!("compress-{number}"), &error));
        }
    }
    sender
});

/// The number of threads, one for each core. It is read once: the system reads files for it.
pub static WORKERS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Gives work to a thread that has none, or gives it back.
pub fn lend(job: Job) -> Option<Job> {
    match POOL.try_send(job) {
        Ok(()) => None,
        Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    // For this thread alone; where it is not granted, they are equals.
    let _ = rustix::process::setpriority_process(None, NICE);
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // The answer is broken off then, and the thread lives.
        let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
    }
}
