<<<<<<< HEAD
//! The gateway, as a library for its binary and its bench.

mod admin;
pub mod cli;
pub mod config;
mod deadline;
pub mod demo;
pub mod document;
pub mod gateway;
pub mod live;
mod log;
pub mod metrics;
pub mod respond;
mod route;
=======
//! The parts of the gateway, so that tests and benchmarks can run them one by one.

>>>>>>> server
pub mod server;
