//! The output of an import: checked as `check` does, then written to its file, never over an existing one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::cli::file::{self, Loaded};
use crate::config;
use crate::shared::persistent_state::PersistentState;

/// Checks a configuration as if it stood in this file, in this process.
pub fn check(path: &Path, text: &str) -> Loaded {
    let (node, sources, problems) = config::parse(&path.display().to_string(), text, &|name| std::env::var(name).ok());
    file::compile(node.as_ref(), sources, &PersistentState::default(), problems)
}

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The file stays, and writing fails.
    Keep,
    /// The file is replaced, by a rename: nobody reads half of it.
    Replace,
}

/// Writes the configuration.
///
/// # Errors
/// Where the file exists and must be kept, or cannot be written.
pub fn save(path: &Path, text: &str, existing: Existing) -> io::Result<()> {
    if existing == Existing::Keep {
        return OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes());
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    fs::write(&beside, text)?;
    fs::rename(&beside, path).inspect_err(|_| drop(fs::remove_file(&beside)))
}
