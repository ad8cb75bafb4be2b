//! Work beside the requests.
//!
//! - `tasks`: the thread for work in the background. `helper_threads`: the settings of the threads for long work.
//! - `threads`: how one is started, and what it means that it cannot be. `worker_pool`: several for one kind of job.
//! - `memory_limit`: how much memory the process may have.
//! - `watched_file`: files that are read again when they change. `service_manager`: messages to systemd.
//!
//! Uses the library alone. Begin at `tasks`.
//!
//! Invariants: nothing here runs on a thread that serves requests.

pub mod helper_threads;
pub mod memory_limit;
pub(crate) mod service_manager;
pub(crate) mod tasks;
pub(crate) mod threads;
pub(crate) mod watched_file;
pub(crate) mod worker_pool;
