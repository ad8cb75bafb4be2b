//! Threads for what takes long, beside the cores and below them in priority.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::threads::{self, step_back};

/// Threads that all do one kind of job. Each takes one when it has none.
pub struct WorkerPool<J>(SyncSender<J>);

impl<J: Send + 'static> WorkerPool<J> {
    /// Starts the threads. So many jobs may wait; without room for any, a job is taken only by a thread that waits for one.
    pub fn new(name: &str, threads: usize, room: usize, run: fn(J)) -> Self {
        let (sender, receiver) = sync_channel(room);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads {
            let receiver = receiver.clone();
            // With fewer threads than meant, more jobs are given back.
            if let Err(error) = threads::start(&format!("{name}-{number}"), move || work(&receiver, run)) {
                tracing::warn!("{error}");
            }
        }
        WorkerPool(sender)
    }

    /// Gives a job to the threads, or gives it back.
    pub fn lend(&self, job: J) -> Option<J> {
        match self.0.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
        }
    }
}

fn work<J>(jobs: &Mutex<Receiver<J>>, run: fn(J)) {
    step_back();
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // After a panic whoever waits gets no result, and the thread lives.
        threads::survives(|| run(job));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::super::worker_pool::*;

    #[test]
    fn a_job_that_panics_takes_no_thread_with_it() {
        let pool =
            WorkerPool::new("test", 1, 2, |told: Option<Sender<()>>| told.expect("a job").send(()).expect("heard"));
        let (told, hears) = channel();
        assert!(pool.lend(None).is_none());
        assert!(pool.lend(Some(told)).is_none());
        hears.recv().expect("it is done");
    }
}
