#![doc = include_str!("../README.md")]
//!
//! Begin at [`krakend::import`] or [`nginx::import`].
//!
//! Invariants: a setting that no file takes is reported; a text of the input stays a text in YAML, jq, templates and URLs.
//! Bounds: a file has at most 16 MiB.

mod duration;
mod jq;
pub mod krakend;
pub mod nginx;
pub mod outcome;
pub mod report;
mod upstream_name;
pub mod yaml;

pub use outcome::{Imported, Unreadable};
