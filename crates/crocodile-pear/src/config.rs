//! The configuration that an operator writes: read, checked, described.
//!
//! - `yaml`: a document becomes nodes, each with its place in the file. Variables of the environment are text in it, never more YAML.
//! - `spec`: nodes become typed settings. One declaration gives a setting its name, default, documentation and JSON Schema.
//! - `problem`: everything that is wrong, each with its place and its remedy, all at once.
//! - `files`: the files that a configuration names, read relative to the file that names them.
//! - `carried_state`: state that the next configuration takes over where nothing has changed.
//!
//! Uses nothing else of the library. Begin at `spec::Decode`.
//!
//! Invariants: no reader stops at the first problem; no value is parsed twice.
//! Bounds: 1 MiB a document, 128 levels, 1 MiB that aliases add.

pub mod carried_state;
pub mod files;
pub mod problem;
pub mod spec;
#[cfg(feature = "yaml")]
pub mod yaml;
#[cfg(not(feature = "yaml"))]
#[path = "config/yaml/absent.rs"]
pub mod yaml;
