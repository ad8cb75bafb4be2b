//! Certificates from an authority, through the real binary and Pebble, the test server of Let's Encrypt.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// A test that is skipped says so.
#![allow(clippy::print_stdout)]

mod failures;
mod orders;
mod pebble;
mod renewals;
