//! The files that were read.

use std::path::{Path, PathBuf};

use crate::problem::{ConfigProblem, Span};
use crate::settings::Located;

use super::mask::Mask;
use super::read::read;

/// A file that was read.
#[derive(Debug)]
pub struct Source {
    /// Its path, as the operator would write it.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

/// The files that a configuration was read from.
#[derive(Debug, Default)]
pub struct Sources {
    /// The files; a `Span` names its file by its place here.
    pub files: Vec<Source>,
    /// Hides the values that came from the environment.
    pub mask: Mask,
}

impl Sources {
    /// `file:line:column`; only the file, where nothing more is known.
    pub fn place(&self, span: Span) -> String {
        let path = self.file(span.file).map_or_else(String::new, |source| source.path.display().to_string());
        if span.line == 0 { path } else { format!("{path}:{}:{}", span.line, span.column) }
    }

    /// A problem without values of the environment.
    pub fn masked(&self, problem: &ConfigProblem) -> ConfigProblem {
        let line = usize::try_from(problem.span.line).unwrap_or(0).checked_sub(1);
        let line = self.file(problem.span.file).zip(line).and_then(|(source, line)| source.text.lines().nth(line));
        let hide = |text: &str| self.mask.hide_of(text, line.unwrap_or_default());
        ConfigProblem {
            message: hide(&problem.message),
            remedy: problem.remedy.as_deref().map(hide),
            ..problem.clone()
        }
    }

    /// The file of a span.
    pub fn file(&self, file: u32) -> Option<&Source> {
        self.files.get(usize::try_from(file).ok()?)
    }

    /// Reads a file that is named in one of these, from the folder of that one; or says why it cannot be read.
    pub fn beside(&self, written: &Located<String>) -> Result<Vec<u8>, String> {
        read(&self.path(written))
    }

    /// Where a file is that is named in one of these: relative to the folder of that one.
    pub fn path(&self, written: &Located<String>) -> PathBuf {
        let folder = self.file(written.span.file).and_then(|source| source.path.parent());
        folder.unwrap_or(Path::new("")).join(&written.value)
    }

    /// Adds a file; answers the number that its spans carry.
    pub(super) fn add(&mut self, path: PathBuf, text: String) -> u32 {
        self.files.push(Source { path, text });
        u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
    }
}
