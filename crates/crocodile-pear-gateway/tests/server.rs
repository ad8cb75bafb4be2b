//! The inbound side, spoken to in raw bytes.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

#[path = "server/answers.rs"]
mod answers;
#[path = "server/deadlines.rs"]
mod deadlines;
#[path = "server/framing.rs"]
mod framing;
#[path = "server/http2.rs"]
mod http2;
#[path = "server/interim.rs"]
mod interim;
#[path = "server/scene.rs"]
mod scene;
#[path = "server/smuggling.rs"]
mod smuggling;
