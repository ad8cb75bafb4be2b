//! HTTP as bytes, for clients and for upstreams alike.
//!
//! - `http1`: heads, framing, chunks and trailers of HTTP/1.1 (RFC 9112), parsed once and strictly.
//! - `list`, `media_type`: header fields that are lists with weights (RFC 9110, 5.6.1), and content types.
//! - `date`: dates as header fields have them (RFC 9110, 5.6.7).
//! - `loop_detection`: through which gateways a request came (`via`).
//!
//! `http1`, `list` and `media_type` are in the crate `crocodile-pear-http1`. Uses `error` and `runtime`. Begin at `http1`.
//!
//! Invariants: what two servers could read in two ways is refused; framing is made anew, never copied.
//! Bounds: a head of 64 KiB and 128 fields from an upstream; the client's are `clients.max_head` and 100.

pub mod date;
pub mod http1;
pub mod loop_detection;

pub use crocodile_pear_http1::{list, media_type};
