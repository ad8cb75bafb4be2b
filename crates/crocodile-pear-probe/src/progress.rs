//! The progress of a probe, on a terminal; in a pipe it is quiet.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// More often nobody can read it, and it would disturb what is measured.
const EVERY: Duration = Duration::from_millis(100);

pub struct ProgressLine {
    shown: bool,
    last: Cell<Option<Instant>>,
}

impl ProgressLine {
    pub fn new() -> Self {
        ProgressLine { shown: std::io::stderr().is_terminal(), last: Cell::new(None) }
    }

    /// Shows the part that begins now.
    pub fn say(&self, what: &str) {
        if self.shown {
            self.last.set(Some(Instant::now()));
            write(&format!("\r{what:60}"));
        }
    }

    /// How far it has come.
    pub fn count(&self, what: &str, number: u32, all: u32) {
        if self.last.get().is_none_or(|last| last.elapsed() >= EVERY) {
            self.say(&format!("{what}: {number} of {all}"));
        }
    }

    /// Takes the line away.
    pub fn done(&self) {
        if self.shown {
            write(&format!("\r{:60}\r", ""));
        }
    }
}

fn write(text: &str) {
    let mut stream = std::io::stderr();
    // A measurement goes on if nobody can read its progress.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}
