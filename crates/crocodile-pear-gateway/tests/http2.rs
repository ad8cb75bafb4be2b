//! Clients of HTTP/2 before the real binary: hostile ones, and those that want more than an answer.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

#[allow(dead_code, reason = "the library's tests use the rest")]
#[path = "../../crocodile-pear/tests/protocols/authority.rs"]
mod authority;
#[path = "http2/floods.rs"]
mod floods;
#[path = "http2/grpc.rs"]
mod grpc;
#[path = "http2/h2spec.rs"]
mod h2spec;
#[path = "http2/injections.rs"]
mod injections;
#[allow(dead_code, reason = "the server's tests use the rest")]
#[path = "http2/raw.rs"]
mod raw;
#[path = "http2/scene.rs"]
mod scene;
use crocodile_pear_stage as stage;
#[path = "http2/websocket.rs"]
mod websocket;
