//! HTTP/2: as a client library speaks it, and in raw frames.

#[path = "http2/answers.rs"]
mod answers;
#[path = "http2/limits.rs"]
mod limits;
#[path = "http2/raw.rs"]
mod raw;
