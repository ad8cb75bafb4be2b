//! `probe`, run as an operator runs it, on servers of every kind.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod advice;
#[allow(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../../crocodile-pear/tests/protocols/authority.rs"]
mod authority;
mod connections;
mod failure;
mod run;
mod server;
mod tls;
