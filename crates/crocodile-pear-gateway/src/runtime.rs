//! Work beside the requests.
//!
//! - `tasks`: the thread for work in the background. `helper_threads`: the settings of the threads for long work.
//! - `watched_file`: files that are read again when they change. `service_manager`: messages to systemd.
//!
//! Uses the library alone. Begin at `tasks`.
//!
//! Invariants: nothing here runs on a thread that serves requests.

pub mod helper_threads;
pub(crate) mod service_manager;
pub(crate) mod tasks;
pub(crate) mod watched_file;
