//! The parts of the gateway, so that tests and benchmarks can run them one by one.

pub mod server;
