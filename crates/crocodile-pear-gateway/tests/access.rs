//! The access log, through the real binary.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod destinations;
mod formats;
mod unread;
