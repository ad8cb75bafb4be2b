//! Threads that compress for large answers where a core would otherwise rest.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crocodile_pear::unstable::error::{Error, Kind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::encoder::Encoder;
use crate::runtime::worker_pool::WorkerPool;

/// How long one computes before it asks whether somebody waits for its core. The system itself asks only every few
/// milliseconds; to be asked more often costs gzip a sixth of its speed.
const TURN: Duration = Duration::from_micros(250);

/// The bytes that a thread gets at a time: to wake it, and to be woken, costs one part in fifty of the work.
pub const LOAD: usize = 256 << 10;

/// Some of an answer, to be compressed.
pub struct CompressionJob {
    pub encoder: Encoder,
    pub parts: Vec<Bytes>,
    pub last: FlushMode,
    pub done: oneshot::Sender<CompressionResult>,
}

/// The rest of the work after the last byte of a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FlushMode {
    /// The next load.
    More,
    /// All that a fork of an encoder holds.
    Settled,
    /// All that the encoder holds: the next bytes have not come.
    Flushed,
    /// The end of the answer.
    Finished,
}

/// The result of a load.
pub struct CompressionResult {
    pub encoder: Encoder,
    pub made: Result<Vec<u8>, Error>,
}

impl CompressionJob {
    fn run(self) {
        let CompressionJob { mut encoder, parts, last, done } = self;
        let mut out = Vec::new();
        let mut since = Instant::now();
        let written = parts.iter().try_for_each(|part| {
            if since.elapsed() >= TURN {
                thread::yield_now();
                since = Instant::now();
            }
            encoder.write(part, &mut out)
        });
        let ended = written.and_then(|()| match last {
            FlushMode::More => Ok(()),
            FlushMode::Settled => {
                encoder.settle(&mut out);
                Ok(())
            }
            FlushMode::Flushed => encoder.flush(&mut out),
            FlushMode::Finished => encoder.finish(&mut out),
        });
        let made = ended.map(|()| out);
        // Nobody waits for it if the client has left.
        let _ = done.send(CompressionResult { encoder, made });
    }
}

/// No jobs wait: if no thread is idle, the core does the job itself.
static POOL: LazyLock<WorkerPool<CompressionJob>> =
    LazyLock::new(|| WorkerPool::new("compress", *WORKERS, 0, CompressionJob::run));

/// The number of threads, one for each core. It is read once: the system reads files for it.
pub static WORKERS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Threads for slow levels. If all are busy, the work waits; no core does it, because it would hold the core for too long.
static SLOW: LazyLock<WorkerPool<(OwnedSemaphorePermit, CompressionJob)>> =
    LazyLock::new(|| WorkerPool::new("compress-slow", *WORKERS, *WORKERS, |(_place, job)| job.run()));

/// A permit for each of these threads. A load waits for one before it is sent to them, and a load of another answer comes next.
static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(*WORKERS)));

/// Takes all permits. No thread begins a load until they are dropped.
#[cfg(test)]
pub async fn all_places() -> OwnedSemaphorePermit {
    let all = u32::try_from(*WORKERS).expect("few threads");
    PLACES.clone().acquire_many_owned(all).await.expect("never closed")
}

/// Does work on a thread, when one has time for it.
pub async fn run(encoder: Encoder, parts: Vec<Bytes>, last: FlushMode) -> Result<CompressionResult, Error> {
    let gone = || Error::new(Kind::Internal, "the answer cannot be compressed: its thread has ended");
    let (done, awaited) = oneshot::channel();
    let place = PLACES.clone().acquire_owned().await.map_err(|_| gone())?;
    match SLOW.lend((place, CompressionJob { encoder, parts, last, done })) {
        None => awaited.await.map_err(|_| gone()),
        Some(_) => Err(gone()),
    }
}

/// Compresses a whole body on these threads, load by load: it ends when its client leaves, and others have their turn.
pub async fn whole(mut encoder: Encoder, mut bytes: Bytes) -> Result<Vec<u8>, Error> {
    let mut all = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let part = bytes.split_to(bytes.len().min(LOAD));
        let last = if bytes.is_empty() { FlushMode::Finished } else { FlushMode::More };
        let done = run(encoder, vec![part], last).await?;
        all.extend_from_slice(&done.made?);
        if last == FlushMode::Finished {
            return Ok(all);
        }
        encoder = done.encoder;
    }
}

/// Gives work to a thread that has none, or gives it back.
pub fn lend(job: CompressionJob) -> Option<CompressionJob> {
    POOL.lend(job)
}
