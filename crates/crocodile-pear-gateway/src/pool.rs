//! `thread_pool`: helper threads for long work, so that the cores can go on serving.

use std::num::NonZeroUsize;

use crocodile_pear::offload::{Settings, configure};
use crocodile_pear::spec;
use crocodile_pear::spec::Size;

/// The priority of the helper threads, lower than that of the cores: on a busy machine, requests go first.
const NICE: i32 = 10;

spec! {
    /// The helper threads. What reads, evaluates, converts or writes a document of more than 64 KiB is done by them, and an expression
    /// that takes long: they have a lower priority than the threads that serve, and while they work other requests go on.
    pub struct ThreadPool {
        /// How many threads; as many as cores unless set, and at least two. Where there are several, one of them does only work on documents of less than 1 MiB.
        pub threads: Option<NonZeroUsize>,
        /// How much work may wait for one. What comes then is answered with 503.
        pub queue: NonZeroUsize = NonZeroUsize::new(128).expect("it is not zero"),
        /// The most memory that all of this work has at once: parsed documents and what expressions make of them. Work waits until there is enough for
        /// it; an expression that needs more than all of it fails.
        pub memory: Size = Size(512 << 20),
    }
}

/// Applies the written settings, or the defaults.
pub fn apply(written: Option<&ThreadPool>) {
    let usual = Settings { begin, ..Settings::default() };
    configure(match written {
        None => usual,
        Some(written) => Settings {
            threads: written.threads.map_or(usual.threads, usize::from),
            queue: written.queue.get(),
            memory: written.memory.0,
            ..usual
        },
    });
}

/// For this thread only. If the system refuses, all threads have the same priority.
fn begin() {
    let _ = rustix::process::setpriority_process(None, NICE);
}
