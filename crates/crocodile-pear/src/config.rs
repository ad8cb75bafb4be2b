//! The configuration that an operator writes: read, checked, described. Most of it is in the crate `crocodile-pear-spec`:
//!
//! - `yaml`: a document becomes nodes, each with its place in the file. Variables of the environment are text in it, never more YAML.
//! - `spec`: nodes become typed settings. One declaration gives a setting its name, default, documentation and JSON Schema.
//! - `problem`: everything that is wrong, each with its place and its remedy, all at once.
//!
//! This crate adds:
//!
//! - `files`: the files that a configuration names, read relative to the file that names them.
//! - `carried_state`: state that the next configuration takes over where nothing has changed.
//!
//! Uses nothing else of the library. Begin at `spec::Decode`.
//!
//! Invariants: no reader stops at the first problem; no value is parsed twice.
//! Bounds: a file has at most 16 MiB, maps and lists are nested at most 64 deep, and aliases add at most a million nodes and bytes.

pub mod carried_state;
pub mod files;
#[cfg(feature = "yaml")]
pub use crocodile_pear_spec::yaml;
pub use crocodile_pear_spec::{problem, settings as spec};
#[cfg(not(feature = "yaml"))]
#[path = "config/yaml_absent.rs"]
pub mod yaml;
