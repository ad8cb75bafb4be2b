//! Threads that compress for large answers where a core would otherwise rest.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use tokio::sync::oneshot;

use super::encoder::Encoder;
use crate::runtime::worker_pool::WorkerPool;

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

/// No jobs wait: if no thread is idle, the core does the job itself.
static POOL: LazyLock<WorkerPool<Job>> = LazyLock::new(|| WorkerPool::new("compress", *WORKERS, 0, Job::run));

/// The number of threads, one for each core. It is read once: the system reads files for it.
pub static WORKERS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Gives work to a thread that has none, or gives it back.
pub fn lend(job: Job) -> Option<Job> {
    POOL.lend(job)
}
