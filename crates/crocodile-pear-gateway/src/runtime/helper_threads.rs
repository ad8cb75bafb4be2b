//! `thread_pool`: helper threads for long work, so that the cores can go on serving.

use std::num::NonZeroUsize;

use crocodile_pear::unstable::config::spec::Size;
use crocodile_pear::unstable::offload::{OffloadSettings, configure};
use crocodile_pear::unstable::spec;

use super::memory_limit;
use super::threads::step_back;

spec! {
    /// Helper threads for long work: to read, evaluate, convert or write a document of more than 64 KiB, and for
    /// expressions that take long. Their priority is lower than that of the threads that serve requests, so other
    /// requests go on meanwhile.
    pub struct ThreadPool {
        /// The number of helper threads. Default: the number of cores, at least two. If there are several, one of
        /// them takes only documents of less than 1 MiB.
        pub threads: Option<NonZeroUsize>,
        /// How many requests may wait for a helper thread. Further ones get 503. All jobs of one request count as one, and so do all
        /// requests of one connection. If several wait, the helper threads take a job of each in turn.
        pub queue: NonZeroUsize = NonZeroUsize::new(128).expect("it is not zero"),
        /// The most memory that all jobs use together: parsed documents, and the values that expressions make of
        /// them. A job waits until enough memory is free. An expression that needs more than the whole limit fails.
        /// Default: 512MiB, but at most a fifth of the memory limit of the process's control group.
        pub memory: Option<Size>,
    }
}

/// The memory of all jobs, as written or by default.
pub fn memory(written: Option<&ThreadPool>) -> Size {
    let written = written.and_then(|written| written.memory);
    written.unwrap_or_else(|| memory_limit::within(Size(OffloadSettings::default().memory), memory_limit::limit()))
}

/// Applies the written settings, or the defaults.
pub fn apply(written: Option<&ThreadPool>) {
    let usual = OffloadSettings { begin: step_back, memory: memory(written).0, ..OffloadSettings::default() };
    configure(match written {
        None => usual,
        Some(written) => OffloadSettings {
            threads: written.threads.map_or(usual.threads, usize::from),
            queue: written.queue.get(),
            ..usual
        },
    });
}
