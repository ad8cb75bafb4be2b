//! Traces, through the real binary, read by the messages of OpenTelemetry.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod agreement;
mod collector;
mod contexts;
mod inbox;
use crocodile_pear_stage as stage;
