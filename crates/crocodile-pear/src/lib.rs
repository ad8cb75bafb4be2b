//! Many calls out, one answer back, streamed as the parts arrive.

pub mod alarm;
pub mod cache;
mod calling;
mod client;
pub mod database;
pub mod error;
pub mod flow;
pub mod format;
pub mod histogram;
pub mod http1;
pub mod jq;
pub mod json;
pub mod limiter;
pub mod offload;
pub mod plan;
pub mod problem;
pub mod record;
pub mod scope;
pub mod socket;
pub mod spec;
pub mod step;
pub mod steps;
pub mod template;
pub mod threads;
pub mod timeline;
pub mod trace;
pub mod upstream;
pub mod via;
pub mod yaml;

pub use client::{
    Client, Code, Faults, IntoExpression, IntoItems, IntoSelect, Jq, MAX_BODY, Parts, Pipeline, Prepared, Request,
    Whole, jq, select,
};
