//! Where the problems of a step go.

use crate::config::problem::{Problems, Span};

/// Collects problems; knows where the step is written that is being compiled.
pub struct Sink<'a> {
    problems: &'a mut Problems,
    place: Span,
    /// Whether a step of the pipeline cannot be read. Problems that could come from that are left out.
    doubts: bool,
}

impl<'a> Sink<'a> {
    /// For the step at `place`.
    pub fn new(problems: &'a mut Problems, place: Span) -> Self {
        Sink { problems, place, doubts: false }
    }

    /// From now on, for the step at `place`.
    pub fn move_to(&mut self, place: Span) {
        self.place = place;
    }

    /// Where the step is written.
    pub fn place(&self) -> Span {
        self.place
    }

    /// From now on, only [`sure`](Self::sure) problems are noted: what the other steps give is not known.
    pub fn doubt(&mut self) {
        self.doubts = true;
    }

    /// Whether a step of the pipeline cannot be read.
    pub fn doubts(&self) -> bool {
        self.doubts
    }

    /// Notes an error at a word of the step; answers `None`, so that `compile` can end with it.
    pub fn error<T>(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Option<T> {
        if self.doubts { None } else { self.sure(span, message, remedy) }
    }

    /// The same for an error that does not depend on the other steps.
    pub fn sure<T>(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Option<T> {
        self.problems.error(self.pin(span), message, remedy)
    }

    /// The same of the whole step.
    pub fn error_here<T>(&mut self, message: impl Into<String>, remedy: impl Into<String>) -> Option<T> {
        self.error(self.place, message, remedy)
    }

    /// Notes a warning at a word of the step.
    pub fn warning(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        if !self.doubts {
            self.problems.warning(self.pin(span), message, remedy);
        }
    }

    /// The same of the whole step.
    pub fn warning_here(&mut self, message: impl Into<String>, remedy: impl Into<String>) {
        self.warning(self.place, message, remedy);
    }

    /// Whether anything found so far stops the configuration from running.
    pub fn fatal(&self) -> bool {
        self.problems.fatal()
    }

    /// All that was found, for what decodes.
    pub fn all(&mut self) -> &mut Problems {
        self.problems
    }

    /// A default has no place in the file: then the step's place is used.
    fn pin(&self, span: Span) -> Span {
        if span.line == 0 { self.place } else { span }
    }
}
