//! Threads, and what it means that one cannot be made.

use std::io;

/// The error of a thread that cannot be started: its name, and which limits may be the reason. The system only says that
/// a resource is unavailable.
pub fn unavailable(name: &str, error: &io::Error) -> io::Error {
    let limits = "the limit of threads (`ulimit -u`, `TasksMax=`, `pids.max`) or of memory (`ulimit -v`, `MemoryMax=`) may be reached";
    io::Error::new(error.kind(), format!("cannot start the thread `{name}`: {error}; {limits}"))
}

/// The error of an event loop that cannot be made.
pub fn no_event_loop(name: &str, error: &io::Error) -> io::Error {
    let limits = "the limit of file descriptors (`ulimit -n`, `LimitNOFILE=`) may be reached";
    io::Error::new(error.kind(), format!("cannot make the event loop of the thread `{name}`: {error}; {limits}"))
}
