//! HTTP/1.1 as bytes, from `crocodile-pear-http1`. This crate adds `scratch`: the bytes that a thread reads into.

pub mod scratch;

pub use crocodile_pear_http1::*;
