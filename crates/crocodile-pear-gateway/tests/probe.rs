//! `probe`, run as an operator runs it, on servers of every kind.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[path = "probe/advice.rs"]
mod advice;
#[allow(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../crocodile-pear/tests/protocols/authority.rs"]
mod authority;
#[path = "probe/connections.rs"]
mod connections;
#[path = "probe/failure.rs"]
mod failure;
#[path = "probe/run.rs"]
mod run;
#[path = "probe/server.rs"]
mod server;
#[path = "probe/tls.rs"]
mod tls;
