//! HTTP/2: as a client library speaks it, and in raw frames.

mod answers;
mod limits;
