//! Reads the files that a configuration names, and keeps a list of the files that were read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::problem::{ConfigProblem, Span};
use crate::settings::Located;

use super::mask::Mask;

/// The most bytes of a file. A longer one is a mistake: ten thousand endpoints need less.
const LONGEST: u64 = 16 << 20;

/// The standard input, in the place of a file.
const STDIN: &str = "-";

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

/// Reads a file that a configuration names, or says why it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    bytes(path).map_err(|fault| reason(&fault))
}

/// The bytes of a file, within the bound.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = match path.as_os_str() == STDIN {
        true => io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes)?,
        false => File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?,
    };
    if length as u64 > LONGEST {
        return Err(io::Error::other("it is longer than 16 MiB"));
    }
    Ok(bytes)
}

/// Why it cannot be read.
pub fn reason(fault: &io::Error) -> String {
    match fault.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => fault.to_string(),
    }
}
