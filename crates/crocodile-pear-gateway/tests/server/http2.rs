//! HTTP/2: as a client library speaks it, and in raw frames.

#[path = "http2/answers.rs"]
mod answers;
#[path = "http2/limits.rs"]
mod limits;
#[allow(dead_code, reason = "the floods use the rest")]
#[path = "../http2/raw.rs"]
mod raw;
