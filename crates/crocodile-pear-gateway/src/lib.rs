//! The gateway, as a library for its binary, its tests and its bench.

mod address;
mod admin;
mod background;
mod certificates;
pub mod cli;
pub mod compress;
pub mod config;
pub mod demo;
pub mod document;
pub mod gateway;
mod health;
mod itself;
pub mod layer;
pub mod layers;
pub mod listen;
pub mod live;
mod log;
pub mod metrics;
mod network;
pub mod pool;
mod rate;
pub mod respond;
mod route;
pub mod server;
pub mod stack;
pub mod upgrade;
mod watched;
