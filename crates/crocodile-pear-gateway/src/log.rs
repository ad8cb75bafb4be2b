//! The log: lines on the standard error stream.

use std::io::IsTerminal;

use crocodile_pear::spec;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::access::AccessSpec;

spec! {
    /// What to log, and how. The log goes to standard error.
    pub struct Log {
        /// The lowest level to write.
        pub level: Level = Level::Info,
        /// The format of a line.
        pub format: LogFormat = LogFormat::Text,
        /// The access log, one line per request: `on`, `off`, a format, or a map.
        pub access: AccessSpec = AccessSpec::Off,
        /// Whether to log timers at level `info` instead of `debug`. Each message that passes a timer makes one line.
        pub timers: bool = false,
    }
}

crocodile_pear::choice! {
    /// The lowest level to write.
    pub enum Level {
        /// Failures of the gateway itself.
        Error = "error",
        /// What an operator should look at.
        Warn = "warn",
        /// Starts, stops and reloads; requests and timers if they are turned on.
        Info = "info",
        /// Also failures of single calls and items.
        Debug = "debug",
    }
}

crocodile_pear::choice! {
    /// The form of a log line.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

/// Begins to write the log as configured. A second call changes nothing.
pub fn begin(log: Option<&Log>) {
    let level = match log.map_or(Level::Info, |log| log.level) {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let timers = log.is_some_and(|log| log.timers) || level == LevelFilter::DEBUG;
    let timers = if timers { level } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(level).with_target("crocodile_pear::timer", timers);
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let lines = match log.map_or(LogFormat::Text, |log| log.format) {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // An error says that a log has begun already.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}
