//! The other end of a socket in tests: servers that do what a test says, and authorities that sign for them.
//!
//! The crate knows nothing of the project: the library's tests stand on it too, and need not build the gateway for it.

// A test may panic where something unexpected happens, and prints what a server could not read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

pub mod absent;
pub mod accept;
pub mod asked;
pub mod authority;
pub mod changing;
pub mod http2;
pub mod moody;
pub mod played;
pub mod served;
pub mod shop;
pub mod test_rng;
pub mod wait;

use std::time::Duration;

/// The bound of all waiting in tests. A test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);
