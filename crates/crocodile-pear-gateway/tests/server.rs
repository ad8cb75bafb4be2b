//! The inbound side, spoken to in raw bytes.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod answers;
mod deadlines;
mod framing;
mod http2;
mod interim;
mod scene;
mod smuggling;
