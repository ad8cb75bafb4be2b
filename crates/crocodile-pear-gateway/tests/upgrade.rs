//! Connections that change their protocol, through the real binary: in raw bytes, and with WebSocket on both sides.
//! `CONNECTIONS=1000 MESSAGES=100 cargo test --release --test gateway upgrade:: -- --ignored --nocapture` measures.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// The measurement prints what it found.
#![allow(clippy::print_stdout)]

mod bytes;
mod http2;
mod origins;
mod requests;
mod scene;
mod stops;
mod websocket;
