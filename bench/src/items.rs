//! Source E's experiment: a REST API on PostgreSQL under ever more clients, watched by Prometheus, beside what people pick instead.

mod cached;
mod cases;
mod database;
mod drive;
mod figures;
mod pgbench;
mod picture;
mod prometheus;
mod servers;
mod tables;
mod watch;

use std::fs;
use std::time::{Duration, SystemTime};

use crate::report::say;
use crate::{Result, product};
use cases::{CASES, COMPARED, OPEN, PARTS, PATH, ROUNDS};
use database::Database;
use drive::{Drive, Pacing, Work};
pub use figures::Options;
use figures::{Closed, Figures, Limit, Open, Report};
use servers::{Running, Server};
use watch::Watch;

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
        true => Some(cached::measure(&binary, &database, options.connections, options.seconds()).await?),
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
        tokio::time::sleep(options.pause()).await;
        let before = (one.process.cpu()?, database.cpu()?, database.state().await?);
        watch.reset(one.process.id());
        let begun = SystemTime::now();
        let outcome = drive(case.clients, rounds, Pacing::Closed).run().await?;
        let span = (begun, SystemTime::now());
        let seen = watch.most();
        if let Some(why) = &outcome.why {
            eprintln!("{}: case {}: {} failed, the first: {why}", one.server.name(), case.name, outcome.failed);
        }
        database.check(&before.2, u64::from(case.clients * rounds), outcome.failed).await?;
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
            let seconds = options.seconds();
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
    let seconds = options.seconds();
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
