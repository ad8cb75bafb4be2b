//! The gateway, as a library for its binary and its bench.

pub mod demo;
