#![doc = include_str!("../README.md")]
//!
//! # The floors of this crate
//!
//! - [`visible`]: invisible characters, which are replaced before a text is shown.
//! - [`problem`]: everything that is wrong, each with its place and its remedy, all at once.
//! - [`settings`]: nodes become typed settings. One declaration gives a setting its name, default, documentation and JSON Schema.
//! - `yaml`: a text becomes nodes, each with its place. Variables of the environment are text in it, never more YAML.
//! - `document`: a configuration of several files is read, and its problems are reported.
//!
//! Begin at [`settings::Decode`].
//!
//! Invariants: no reader stops at the first problem; no value is parsed twice.
//! Bounds: a file has at most 16 MiB, maps and lists are nested at most 64 deep, and aliases add at most a million nodes and bytes.

#[cfg(feature = "documents")]
pub mod document;
pub mod problem;
pub mod settings;
pub mod visible;
#[cfg(feature = "yaml")]
pub mod yaml;
