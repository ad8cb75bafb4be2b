//! HTTP/2: as a client library speaks it, and in raw frames.

mod answers;
mod limits;
#[allow(dead_code, reason = "the floods use the rest")]
#[path = "../http2/raw.rs"]
mod raw;
