//! Source E's experiment: a REST API on PostgreSQL under ever more clients, watched by Prometheus, beside what people pick instead.

mod cached;
mod database;
mod drive;
mod pgbench;
mod picture;
mod prometheus;
mod servers;
mod tables;
mod watch;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::report::{median, say};
use crate::{Result, product};
use database::Database;
use drive::{Drive, Outcome, Pacing, Work};
use servers::{Running, Server};
use watch::{Seen, Watch};

/// Source E's cases: clients and rounds, with its requests/s and mean milliseconds.
const CASES: [Case; 5] = [
    Case { name: "A", clients: 10, rounds: 20, source: (240.0, 42.0) },
    Case { name: "B", clients: 100, rounds: 20, source: (240.0, 210.0) },
    Case { name: "C", clients: 1_000, rounds: 20, source: (220.0, 250.0) },
    Case { name: "D", clients: 20, rounds: 100, source: (250.0, 80.0) },
    Case { name: "E", clients: 20, rounds: 1_000, source: (230.0, 90.0) },
];

/// Clients of the open loop.
const OPEN: [u32; 3] = [10, 100, 1_000];
/// Parts of the saturated rate at which it runs.
const PARTS: [f64; 3] = [0.25, 0.5, 0.75];
/// Clients where statements are compared.
const COMPARED: u32 = 100;
/// Between two cases, so that they are apart in what Prometheus has seen.
const PAUSE: Duration = Duration::from_secs(3);
/// Where the items are.
const PATH: &str = "/api/items";
/// Rounds of that comparison, of which the median counts.
const ROUNDS: usize = 3;

#[derive(Args)]
pub struct Options {
    /// The folder for the table and the pictures; made if it is not there
    #[arg(long)]
    out: PathBuf,
    /// Connections to PostgreSQL that each server may have
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=24))]
    connections: u32,
    /// Seconds for each row at a fixed rate and each comparison
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// A tenth of the rounds, to try it
    #[arg(long)]
    quick: bool,
    /// Only these servers
    #[arg(long = "server", value_enum)]
    servers: Vec<Server>,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    clients: u32,
    rounds: u32,
    source: (f64, f64),
}

/// A row of cases A to E.
pub struct Closed {
    case: Case,
    outcome: Outcome,
    seen: Seen,
    /// Microseconds of CPU for a request: of the server, of PostgreSQL.
    cpu: (f64, f64),
    /// When it ran, for the picture of the series.
    span: (SystemTime, SystemTime),
}

/// A row at a fixed rate.
pub struct Open {
    clients: u32,
    part: f64,
    rate: f64,
    outcome: Outcome,
}

/// What one server did.
pub struct Figures {
    server: Server,
    closed: Vec<Closed>,
    open: Vec<Open>,
    /// `get` alone: requests/s, and microseconds of CPU for a request, a round each.
    get: Vec<(f64, f64)>,
    /// Bytes of memory, at the most.
    peak: u64,
}

/// `pgbench`, a round each: requests/s of the five statements, and of `get` alone.
pub struct Limit {
    five: Vec<f64>,
    get: Vec<f64>,
}

/// Everything that was measured.
pub struct Report {
    figures: Vec<Figures>,
    limit: Option<Limit>,
    cached: Option<cached::Cached>,
    left_out: Vec<String>,
    notes: Vec<String>,
}

pub async fn run(options: Options) -> Result<()> {
    fs::create_dir_all(&options.out)?;
    let binary = product::find(options.binary.clone())?;
    let mut left_out = Vec::new();
    let wanted = if options.servers.is_empty() { Server::ALL.to_vec() } else { options.servers.clone() };
    let mut ready = Vec::new();
    for server in wanted {
        match server.prepare(&binary) {
            Ok(program) => ready.push((server, program)),
            Err(error) => left_out.push(format!("{} is left out: {error}", server.name())),
        }
    }
    let database = Database::start().await?;
    let mut running = Vec::new();
    for (server, program) in &ready {
        match server.start(program, &database.url(), options.connections) {
            Ok(one) => running.push(one),
            Err(error) => left_out.push(format!("{} is left out: {error}", server.name())),
        }
    }
    left_out.iter().try_for_each(|line| say(line))?;
    let watch = Watch::begin(database.id())?;
    let prometheus = prometheus::start(&running, watch.address());
    if let Err(error) = &prometheus {
        left_out.push(format!("Prometheus is left out: {error}"));
    }
    let mut figures = Vec::new();
    for one in &running {
        figures.push(measure(one, &database, &watch, &options).await?);
    }
    let limit = compare(&running, &mut figures, &database, &options, &mut left_out).await?;
    for (one, figures) in running.iter().zip(&mut figures) {
        figures.peak = one.process.peak()?;
    }
    let cached = match running.iter().any(|one| one.server == Server::CrocodilePear) {
        true => Some(cached::measure(&binary, &database, options.connections, options.seconds).await?),
        false => None,
    };
    let mut report = Report { figures, limit, cached, left_out, notes: database.notes().await? };
    if let Ok(prometheus) = &prometheus {
        match prometheus.series(&report).await {
            Ok(series) => fs::write(options.out.join("series.svg"), series)?,
            Err(error) => report.left_out.push(format!("the picture of the series is left out: {error}")),
        }
    }
    for (name, picture) in tables::pictures(&report) {
        fs::write(options.out.join(name), picture)?;
    }
    let text = tables::text(&report, &options)?;
    fs::write(options.out.join("items.md"), &text)?;
    say(&text)?;
    Ok(())
}

/// Cases A to E and the fixed rates.
async fn measure(one: &Running, database: &Database, watch: &Watch, options: &Options) -> Result<Figures> {
    let mut figures = Figures { server: one.server, closed: Vec::new(), open: Vec::new(), get: Vec::new(), peak: 0 };
    let drive = |clients, rounds, pacing| Drive {
        address: one.process.address,
        clients,
        rounds,
        pacing,
        work: Work::Five,
        path: PATH,
        page: database.page(),
        gauge: watch.clients(),
    };
    // Connections opened, statements prepared, memory touched.
    drive(50, 10, Pacing::Closed).run().await?;
    for case in CASES {
        let rounds = if options.quick { (case.rounds / 10).max(2) } else { case.rounds };
        eprintln!("{}: case {}, {} clients, {rounds} rounds", one.server.name(), case.name, case.clients);
        tokio::time::sleep(PAUSE).await;
        let before = (one.process.cpu()?, database.cpu()?, database.state().await?);
        watch.reset(one.process.id());
        let begun = SystemTime::now();
        let outcome = drive(case.clients, rounds, Pacing::Closed).run().await?;
        let span = (begun, SystemTime::now());
        let seen = watch.most();
        let made = u64::from(case.clients * rounds);
        database.check(&before.2, made - outcome.failed.min(made), outcome.failed).await?;
        let requests = outcome.latencies.len().max(1) as f64;
        let spent = |now: Duration, then: Duration| (now.saturating_sub(then)).as_secs_f64() * 1e6 / requests;
        let cpu = (spent(one.process.cpu()?, before.0), spent(database.cpu()?, before.1));
        figures.closed.push(Closed { case, outcome, seen, cpu, span });
    }
    // Case B is saturated, and not yet crowded.
    let saturated = figures.closed[1].outcome.per_second();
    for part in PARTS {
        for clients in OPEN {
            let rate = saturated * part;
            eprintln!("{}: {rate:.0} requests/s, {clients} clients", one.server.name());
            let seconds = Duration::from_secs(options.seconds);
            let outcome = drive(clients, 0, Pacing::Open { rate, seconds }).run().await?;
            figures.open.push(Open { clients, part, rate, outcome });
        }
    }
    Ok(figures)
}

/// The statement `get` through each server and without one, in turn.
async fn compare(
    running: &[Running],
    figures: &mut [Figures],
    database: &Database,
    options: &Options,
    left_out: &mut Vec<String>,
) -> Result<Option<Limit>> {
    let seconds = Duration::from_secs(options.seconds);
    let mut limit = match pgbench::find() {
        Ok(_) => Some(Limit { five: Vec::new(), get: Vec::new() }),
        Err(error) => {
            left_out.push(format!("pgbench is left out: {error}"));
            None
        }
    };
    for round in 1..=ROUNDS {
        eprintln!("get alone, round {round} of {ROUNDS}");
        for (one, figures) in running.iter().zip(&mut *figures) {
            let before = one.process.cpu()?;
            let outcome = drive::gets(one.process.address, PATH, COMPARED, seconds).await?;
            let cpu = (one.process.cpu()? - before).as_secs_f64() * 1e6 / outcome.latencies.len().max(1) as f64;
            figures.get.push((outcome.per_second(), cpu));
        }
        if let Some(limit) = &mut limit {
            limit.get.push(pgbench::get(database, options.connections, seconds).await?);
            limit.five.push(pgbench::five(database, options.connections, seconds).await?);
        }
    }
    Ok(limit)
}

impl Figures {
    /// The median of its rounds.
    fn get(&self) -> (f64, f64) {
        (median(self.get.iter().map(|round| round.0).collect()), median(self.get.iter().map(|round| round.1).collect()))
    }
}
