//! The log: lines on the standard error stream, which no request waits for.

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, dynamic_filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::visible;
use crate::observe::access_log::AccessSpec;
use crate::telemetry::line_writer::{Destination, Journal, Journals};

spec! {
    /// The log: its level and format. It goes to standard error.
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

crocodile_pear::unstable::choice! {
    /// The lowest level to write.
    pub enum Level {
        /// Failures of the gateway itself.
        Error = "error",
        /// Events that an operator should look at.
        Warn = "warn",
        /// Starts, stops and reloads; requests and timers if they are turned on.
        Info = "info",
        /// Also failures of single calls and items.
        Debug = "debug",
    }
}

crocodile_pear::unstable::choice! {
    /// The form of a log line.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// JSON, one object per line.
        Json = "json",
    }
}

/// The process's own log. A process has one, however often its configuration is read.
static LOG: OnceLock<JournalWriter> = OnceLock::new();

/// A log file that takes nothing does not hold the end of the process for longer.
const FLUSH: Duration = Duration::from_secs(2);

/// Begins to write the log as configured. A second call changes nothing. What is dropped at the end writes the last lines.
pub fn begin(log: Option<&Log>) -> Flush {
    let level = match log.map_or(Level::Info, |log| log.level) {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let timers = log.is_some_and(|log| log.timers) || level == LevelFilter::DEBUG;
    let timers = if timers { level } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(level).with_target("crocodile_pear::timer", timers);
    let (format, colours) = (log.map_or(LogFormat::Text, |log| log.format), io::stderr().is_terminal());
    let writer = LOG.get_or_init(|| JournalWriter::begin(format, colours)).clone();
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // An error says that a log has begun already.
    if tracing_subscriber::registry().with(lines.with_filter(filter.and(foreign()))).try_init().is_ok() {
        std::panic::set_hook(Box::new(report));
    }
    Flush
}

/// Bounds the warnings of other crates, such as the DNS resolver's: one line in 10 s.
fn foreign<S: Subscriber>() -> impl Filter<S> {
    static LIMITER: LogLimiter = LogLimiter::every(Duration::from_secs(10));
    dynamic_filter_fn(|line, _| {
        let own = line.target().starts_with("crocodile_pear");
        own || *line.level() > tracing::Level::WARN || !line.is_event() || LIMITER.allows()
    })
}

/// Log lines that were not written: the reader of the standard error stream took none.
pub fn dropped() -> u64 {
    LOG.get().map_or(0, |log| log.journals.dropped())
}

/// Writes the lines that wait, before others are written to the same stream. Bounded, as all flushes are.
pub fn flush() {
    LOG.get().into_iter().for_each(|log| log.journals.flush(FLUSH));
}

/// Writes the last lines of the log when it is dropped.
pub struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        flush();
    }
}

/// Gives each line to the journal of the standard error stream: the thread that logs never waits for its reader.
#[derive(Clone)]
struct JournalWriter {
    journals: Arc<Journals>,
    journal: Arc<Journal>,
    format: LogFormat,
    colours: bool,
}

impl JournalWriter {
    fn begin(format: LogFormat, colours: bool) -> Self {
        let journals = Arc::new(Journals::default());
        let journal = journals.journal(&Destination::Stderr);
        journals.begin();
        JournalWriter { journals, journal, format, colours }
    }
}

impl MakeWriter<'_> for JournalWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl io::Write for JournalWriter {
    /// Called once for each line, whole. Names and errors in it may come from clients and upstreams.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let shown = match self.format {
            LogFormat::Text => visible::line(&text, self.colours),
            LogFormat::Json => visible::json(&text),
        };
        self.journal.add(shown.as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reports a panic in the log. The standard hook writes to the standard error stream itself, and waits for its reader.
fn report(panic: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let backtrace = std::backtrace::Backtrace::capture();
    tracing::error!(thread, "{}", panic.to_string().replace('\n', " "));
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        // A line of the log is one line.
        backtrace.to_string().lines().for_each(|line| tracing::error!("{line}"));
    }
    // The process may be about to end.
    LOG.get().into_iter().for_each(|log| log.journals.flush(Duration::from_millis(100)));
}
