//! The log: lines on the standard error stream.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

use crate::document::{Level, Log, LogFormat};

/// Begins to write the log as configured. A second call changes nothing.
pub fn begin(log: Option<&Log>) {
    let level = match log.map_or(Level::Info, |log| log.level) {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // An error says that a log has begun already.
    let _ = match log.map_or(LogFormat::Text, |log| log.format) {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
