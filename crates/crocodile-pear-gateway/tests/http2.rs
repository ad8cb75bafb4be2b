//! Clients of HTTP/2 before the real binary: hostile ones, and those that want more than an answer.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod downloads;
mod floods;
mod grpc;
mod grpc_web;
mod h2spec;
mod injections;
mod interop;
mod scene;
mod websocket;
