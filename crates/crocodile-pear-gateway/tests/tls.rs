//! TLS with clients, through the real binary.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod clients;
mod listeners;
mod names;
mod proxies;
mod refusals;
mod sessions;
mod swaps;
