//! The inbound side, spoken to in raw bytes.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod answers;
mod deadlines;
mod framing;
mod http2;
mod interim;
mod scene;
mod smuggling;
