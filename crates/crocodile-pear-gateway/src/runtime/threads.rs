//! Threads, and what it means that one cannot be made.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use tokio::runtime::{self, Runtime};

/// How much less than the cores' threads helpers matter to the kernel: on a busy machine, requests go first.
const NICE: i32 = 10;

/// Gives this thread a lower priority than the cores have. If the system refuses, all threads have the same.
pub fn step_back() {
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Starts a thread.
///
/// # Errors
/// The system has no thread left. The error has the thread's name and the limits that may be the reason.
pub fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| unavailable(name, &error))
}

/// Does something that a thread must survive. Returns whether it came to its end: a panic is logged where it happens.
pub fn survives(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_ok()
}

/// Makes the event loop of one thread.
///
/// # Errors
/// If the system has no more descriptors.
pub fn event_loop() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

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
