//! The gateway, as a library for its binary, its tests and its bench.

// No program uses it: docs say what a name does not.
#![allow(missing_docs)]

mod acme;
mod admin;
pub mod cli;
pub mod config;
pub mod gateway;
pub mod http;
pub mod layer;
pub mod layers;
pub mod listeners;
pub mod net;
pub mod observe;
pub mod runtime;
pub mod server;
pub mod shared;
pub mod telemetry;
