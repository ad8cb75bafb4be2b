//! Traces, through the real binary, read by the messages of OpenTelemetry.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod agreement;
mod collector;
mod contexts;
mod inbox;
