//! The results of an importer.

use crocodile_pear_spec::problem::{ConfigProblem, Problems, Span};

use super::report::Report;
use super::yaml::Map;
use crocodile_pear_spec::document::{Source, Sources};

/// An input that was read.
pub struct Imported {
    /// The configuration.
    pub configuration: Map,
    /// The report about every setting.
    pub report: Report,
}

/// An input that cannot be read.
pub struct Unreadable {
    /// Its files, as far as they were read.
    pub sources: Sources,
    /// Why, with the places.
    pub problems: Vec<ConfigProblem>,
}

impl Unreadable {
    /// Makes one problem with a file: at a place, or with the whole of it.
    pub fn new(file: Source, span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.error::<()>(span, message, remedy);
        Self { sources: Sources { files: vec![file], ..Sources::default() }, problems: problems.into_sorted() }
    }
}
