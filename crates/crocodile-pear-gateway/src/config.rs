//! The configuration as text: read from its files into one tree, with every problem told.

mod include;
mod report;
mod variable;
mod yaml;

use std::path::{Path, PathBuf};

use crocodile_pear::{problem::Problems, spec::Node};

pub use report::{Colour, Format, report};

/// A file that was read.
#[derive(Debug)]
pub struct Source {
    /// Its path, as the operator would write it.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// The files that were read; a `Span` names its file by its place here.
#[derive(Debug, Default)]
pub struct Sources(pub Vec<Source>);

impl Sources {
    /// The file of a span.
    pub fn file(&self, file: u32) -> Option<&Source> {
        self.0.get(usize::try_from(file).ok()?)
    }

    /// Adds a file; answers the number that its spans carry.
    fn add(&mut self, path: PathBuf, text: String) -> u32 {
        self.0.push(Source { path, text });
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }
}

/// Reads a configuration with all that it includes, and the environment's variables put in. There is no tree if a
/// file cannot be read or is no YAML; a tree may come with problems that stop it from running.
pub fn load(path: &Path) -> (Option<Node>, Sources, Problems) {
    include::load(path, &|name| std::env::var(name).ok())
}
