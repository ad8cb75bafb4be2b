//! The settings of a run, and all measurements.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;

use super::cached::Cached;
use super::cases::{Case, PAUSE};
use super::drive::Outcome;
use super::servers::Server;
use super::watch::Seen;
use crate::report::median;

#[derive(Args)]
pub struct Options {
    /// The folder for the table and the pictures; made if it is not there
    #[arg(long)]
    pub out: PathBuf,
    /// Connections to PostgreSQL that each server may have
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=24))]
    pub connections: u32,
    /// Seconds for each row at a fixed rate and each comparison; 4 if not told, and 1 with --quick
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub seconds: Option<u64>,
    /// A tenth of the rounds, and short pauses, to try it
    #[arg(long)]
    pub quick: bool,
    /// Only these servers
    #[arg(long = "server", value_enum)]
    pub servers: Vec<Server>,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    pub binary: Option<PathBuf>,
}

impl Options {
    pub fn seconds(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 1 } else { 4 }))
    }

    pub fn pause(&self) -> Duration {
        if self.quick { PAUSE / 6 } else { PAUSE }
    }
}

/// A row of cases A to E.
pub struct Closed {
    pub case: Case,
    pub outcome: Outcome,
    pub seen: Seen,
    /// Microseconds of CPU for a request: of the server, of PostgreSQL.
    pub cpu: (f64, f64),
    /// When it ran, for the picture of the series.
    pub span: (SystemTime, SystemTime),
}

/// A row at a fixed rate.
pub struct Open {
    pub clients: u32,
    pub part: f64,
    pub rate: f64,
    pub outcome: Outcome,
}

/// The figures of one server.
pub struct Figures {
    pub server: Server,
    pub closed: Vec<Closed>,
    pub open: Vec<Open>,
    /// `get` alone: requests/s, and microseconds of CPU for a request, a round each.
    pub get: Vec<(f64, f64)>,
    /// Bytes of memory, at the most.
    pub peak: u64,
}

/// `pgbench`, a round each: requests/s of the five statements, and of `get` alone.
pub struct Limit {
    pub five: Vec<f64>,
    pub get: Vec<f64>,
}

/// Everything that was measured.
pub struct Report {
    pub figures: Vec<Figures>,
    pub limit: Option<Limit>,
    pub cached: Option<Cached>,
    pub left_out: Vec<String>,
    pub notes: Vec<String>,
}

impl Figures {
    /// The median of its rounds.
    pub fn get(&self) -> (f64, f64) {
        (median(self.get.iter().map(|round| round.0).collect()), median(self.get.iter().map(|round| round.1).collect()))
    }
}
