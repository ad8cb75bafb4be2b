//! A fault in what the operator wrote: where it stands, what is wrong, what would be right.

use std::collections::{BTreeSet, HashSet};

/// A place in a configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Which of the files read, in the order of reading.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// How many characters are meant; at least 1.
    pub length: u32,
}

/// A fault in a configuration, with what the operator needs to mend it without a manual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Its place.
    pub span: Span,
    /// The fault.
    pub message: String,
    /// The text to write instead.
    pub remedy: Option<String>,
    /// Whether it stops the configuration from running.
    pub severity: Severity,
}

/// Whether a problem stops the configuration from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot run.
    Error,
    /// The configuration runs, and probably not as meant.
    Warning,
}

/// Gathers every problem of a configuration, so that one run of `check` tells all.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<ConfigProblem>,
    /// Where the errors begin: file, line, column.
    errors: BTreeSet<(u32, u32, u32)>,
}

impl Problems {
    /// Notes an error; answers `None`, so that a decoder can end with it.
    pub fn error<T>(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Option<T> {
        self.push(Severity::Error, span, message, remedy);
        None
    }

    /// Notes a warning.
    pub fn warning(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        self.push(Severity::Warning, span, message, remedy);
    }

    fn push(&mut self, severity: Severity, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        let (message, remedy) = (message.into(), Some(remedy.into()).filter(|remedy| !remedy.is_empty()));
        if severity == Severity::Error {
            self.errors.insert((span.file, span.line, span.column));
        }
        self.found.push(ConfigProblem { span, message, remedy, severity });
    }

    /// Whether an error was found within this place before: what follows from it need not be told.
    pub fn found_within(&self, span: Span) -> bool {
        let (file, line, column) = (span.file, span.line, span.column);
        self.errors.range((file, line, column)..(file, line, column.saturating_add(span.length))).next().is_some()
    }

    /// Whether anything found stops the configuration from running.
    pub fn fatal(&self) -> bool {
        !self.errors.is_empty()
    }

    /// All of them, in the order of the files; what an alias brings in several times is told once.
    pub fn into_sorted(mut self) -> Vec<ConfigProblem> {
        self.found.sort_by_key(|problem| problem.span);
        let mut told = HashSet::new();
        self.found.retain(|problem| told.insert((problem.span, problem.message.clone())) || problem.span.line == 0);
        self.found
    }
}
