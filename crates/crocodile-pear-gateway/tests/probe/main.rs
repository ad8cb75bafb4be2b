//! `probe`, run as an operator runs it, on servers of every kind.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use crocodile_pear_stage as stage;

mod advice;
mod connections;
mod failure;
mod run;
mod server;
mod tls;
