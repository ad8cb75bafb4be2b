//! The access log, through the real binary.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod destinations;
mod formats;
mod unread;
use crocodile_pear_stage as stage;
