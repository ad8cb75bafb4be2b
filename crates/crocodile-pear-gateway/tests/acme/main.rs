//! Certificates from an authority, through the real binary and Pebble, the test server of Let's Encrypt.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// A test that is skipped says so.
#![allow(clippy::print_stdout)]

mod failures;
mod orders;
mod pebble;
mod renewals;
use crocodile_pear_stage as stage;
