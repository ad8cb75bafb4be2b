//! The measurements as tables of Markdown and as pictures, beside the wanted figures.

use std::fmt::Write;

use super::cases::{CASES, COMPARED, PARTS, ROUNDS};
use super::figures::{Closed, Figures, Options, Report};
use super::picture::{Chart, Line};
use super::servers::Server;
use crate::Result;
use crate::report::{Sheet, Style, median};

pub fn text(report: &Report, options: &Options) -> Result<String> {
    let mut out = String::from("# Items on PostgreSQL\n\n");
    let quick = if options.quick { " A tenth of the rounds." } else { "" };
    writeln!(
        out,
        "N clients make M rounds of create, list (20 rows), get, update, delete over kept connections; every answer is compared, and the table afterwards. \
         Each server may have {} connections to PostgreSQL.{quick} The clients, PostgreSQL and Prometheus run on the same {} cores.\n",
        options.connections,
        std::thread::available_parallelism()?
    )?;
    for note in report.notes.iter().chain(&report.left_out) {
        writeln!(out, "{note}\n")?;
    }
    writeln!(out, "## Cases A to E\n\n{}", closed(report))?;
    out += "Tasks: threads of the server. Connections: of PostgreSQL, those of all servers and of the bench. Run queue: of the machine, at the most. CPU: of the \
            server, and of PostgreSQL, for one request. Little: the mean, against N ÷ (requests/s).\n\n";
    writeln!(out, "![Throughput](throughput.svg)\n\n![Latency](latency.svg)\n\n![Series](series.svg)\n")?;
    writeln!(out, "## At fixed rates\n\n{}", open(report))?;
    out += "Rates are parts of what the same server did in case B; time counts from when a call was due.\n\n![Open loop](open.svg)\n\n";
    writeln!(out, "## Beside pgbench\n\n{}", compared(report))?;
    writeln!(
        out,
        "`get` alone: {COMPARED} clients, median of {ROUNDS} rounds in turn. pgbench: `-M prepared`, the same statements over the same number of connections.\n"
    )?;
    writeln!(out, "## Wanted\n\n{}", wanted(report))?;
    Ok(out)
}

fn closed(report: &Report) -> String {
    let headings = [
        "server",
        "case",
        "N",
        "requests",
        "failed",
        "requests/s",
        "x source",
        "mean ms",
        "p50",
        "p99",
        "Little",
        "tasks",
        "connections",
        "run queue",
        "CPU µs",
        "PostgreSQL µs",
    ];
    let mut sheet = Sheet::new(2, headings);
    for figures in &report.figures {
        for row in &figures.closed {
            let (outcome, rate) = (&row.outcome, row.outcome.per_second());
            sheet.add([
                figures.server.name().to_owned(),
                row.case.name.to_owned(),
                row.case.clients.to_string(),
                outcome.latencies.len().to_string(),
                outcome.failed.to_string(),
                format!("{rate:.0}"),
                format!("{:.0}", rate / row.case.source.0),
                format!("{:.2}", ms(outcome.mean())),
                format!("{:.2}", ms(outcome.percentile(0.5))),
                format!("{:.2}", ms(outcome.percentile(0.99))),
                format!("{:.2}", little(row)),
                row.seen.threads.to_string(),
                row.seen.connections.to_string(),
                row.seen.queue.to_string(),
                format!("{:.0}", row.cpu.0),
                format!("{:.0}", row.cpu.1),
            ]);
        }
    }
    for case in CASES {
        let none = String::new;
        let (rate, mean) = (case.source.0.to_string(), case.source.1.to_string());
        let (name, clients) = (case.name.to_owned(), case.clients.to_string());
        let requests = (case.clients * case.rounds * super::drive::CALLS).to_string();
        let source = "the source".to_owned();
        sheet.add([
            source,
            name,
            clients,
            requests,
            none(),
            rate,
            "1".into(),
            mean,
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
        ]);
    }
    sheet.text(Style::Markdown)
}

fn open(report: &Report) -> String {
    let mut sheet =
        Sheet::new(1, ["server", "part", "rate", "N", "requests/s", "failed", "mean ms", "p50", "p99", "p99.9"]);
    for figures in &report.figures {
        for row in &figures.open {
            let at = |part| format!("{:.2}", ms(row.outcome.percentile(part)));
            sheet.add([
                figures.server.name().to_owned(),
                format!("{:.2}", row.part),
                format!("{:.0}", row.rate),
                row.clients.to_string(),
                format!("{:.0}", row.outcome.per_second()),
                row.outcome.failed.to_string(),
                format!("{:.2}", ms(row.outcome.mean())),
                at(0.5),
                at(0.99),
                at(0.999),
            ]);
        }
    }
    sheet.text(Style::Markdown)
}

fn compared(report: &Report) -> String {
    let mut sheet =
        Sheet::new(1, ["", "five calls, requests/s", "get alone, requests/s", "x pgbench", "CPU µs a get", "peak MiB"]);
    let base = report.limit.as_ref().map_or(f64::NAN, |limit| median(limit.get.clone()));
    for figures in &report.figures {
        let (rate, cpu) = figures.get();
        sheet.add([
            figures.server.name().to_owned(),
            format!("{:.0}", figures.closed[1].outcome.per_second()),
            format!("{rate:.0}"),
            format!("{:.2}", rate / base),
            format!("{cpu:.1}"),
            format!("{:.0}", figures.peak as f64 / f64::from(1 << 20)),
        ]);
    }
    if let Some(cached) = &report.cached {
        let row = |name: &str, rate: f64, cpu: f64| {
            [
                name.to_owned(),
                String::new(),
                format!("{rate:.0}"),
                format!("{:.2}", rate / base),
                format!("{cpu:.1}"),
                String::new(),
            ]
        };
        sheet.add(row("crocodile-pear, cache and trigger", cached.own.0, cached.own.1));
        sheet.add(row("a cache hit without a database", cached.hit.0, cached.hit.1));
    }
    if let Some(limit) = &report.limit {
        let five = format!("{:.0}", median(limit.five.clone()));
        sheet.add(["pgbench".to_owned(), five, format!("{base:.0}"), "1.00".into(), String::new(), String::new()]);
    }
    sheet.text(Style::Markdown)
}

/// The wanted figures, line by line.
fn wanted(report: &Report) -> String {
    let mut sheet = Sheet::new(1, ["of the gateway", "measured", "wanted", ""]);
    let mut add = |what: &str, measured: f64, bound: f64, least: bool| {
        let hit = if least { measured >= bound } else { measured <= bound };
        let sign = if least { ">=" } else { "<=" };
        let verdict = if hit { "hit" } else { "miss" };
        sheet.add([what.to_owned(), format!("{measured:.2}"), format!("{sign} {bound}"), verdict.to_owned()]);
    };
    let find = |server| report.figures.iter().find(|figures| figures.server == server);
    let Some(own) = find(Server::CrocodilePear) else { return "The gateway was left out.\n".to_owned() };
    let failed: u64 = own.closed.iter().map(|row| row.outcome.failed).sum::<u64>()
        + own.open.iter().map(|row| row.outcome.failed).sum::<u64>();
    add("failed requests", failed as f64, 0.0, false);
    let slowest = own.closed.iter().map(|row| row.outcome.per_second() / row.case.source.0).fold(f64::MAX, f64::min);
    add("requests/s against the source's, the worst case", slowest, 20.0, true);
    let rate = |place: usize| own.closed[place].outcome.per_second();
    add("requests/s at N = 1,000 against N = 10", rate(2) / rate(0), 0.9, true);
    add(
        "mean against N ÷ (requests/s), the worst case",
        own.closed.iter().map(little).fold(0.0, f64::max),
        1.15,
        false,
    );
    add("p99 at half of the saturated rate, N = 1,000 against N = 10", half(own, 1_000) / half(own, 10), 2.0, false);
    if let Some(limit) = &report.limit {
        add("get against pgbench", own.get().0 / median(limit.get.clone()), 0.5, true);
    }
    for (server, bound) in [(Server::Fastify, 1.5), (Server::Go, 1.1)] {
        if let Some(other) = find(server) {
            add(&format!("get against {}", server.name()), own.get().0 / other.get().0, bound, true);
            add(
                &format!("five calls against {}, N = 100", server.name()),
                rate(1) / other.closed[1].outcome.per_second(),
                bound,
                true,
            );
        }
    }
    if let Some(cached) = &report.cached {
        add("CPU of a cached get against a cache hit", cached.own.1 / cached.hit.1, 1.1, false);
        add("old answers after the event", cached.old.into(), 0.0, false);
        add("ms from the commit to the new row, median", cached.fresh.0, 10.0, false);
        add("ms from the commit to the new row, the most", cached.fresh.1, 100.0, false);
    }
    sheet.text(Style::Markdown)
}

fn half(figures: &Figures, clients: u32) -> f64 {
    let row = figures.open.iter().find(|row| row.clients == clients && row.part == PARTS[1]);
    row.map_or(f64::NAN, |row| ms(row.outcome.percentile(0.99)))
}

/// The mean against what the law of Little gives for these clients at this throughput.
fn little(row: &Closed) -> f64 {
    row.outcome.mean().as_secs_f64() / (f64::from(row.case.clients) / row.outcome.per_second())
}

pub fn pictures(report: &Report) -> [(&'static str, String); 3] {
    let over = |figure: &dyn Fn(&Closed) -> f64| {
        let line = |(colour, figures): (usize, &Figures)| Line {
            name: figures.server.name().to_owned(),
            colour,
            dashed: false,
            points: figures.closed[..3].iter().map(|row| (f64::from(row.case.clients), figure(row))).collect(),
        };
        report.figures.iter().enumerate().map(line).collect::<Vec<_>>()
    };
    let source = |figure: fn((f64, f64)) -> f64| Line {
        name: "the source".to_owned(),
        colour: 4,
        dashed: true,
        points: CASES[..3].iter().map(|case| (f64::from(case.clients), figure(case.source))).collect(),
    };
    let mut rates = over(&|row| row.outcome.per_second());
    rates.push(source(|source| source.0));
    let throughput = Chart {
        title: "Throughput over clients, closed loop",
        across: "clients",
        upwards: "requests/s",
        powers: false,
        lines: rates,
    };
    let mut means = over(&|row| ms(row.outcome.mean()));
    let late = over(&|row| ms(row.outcome.percentile(0.99)));
    means.iter_mut().for_each(|line| line.name += ", mean");
    means.extend(late.into_iter().map(|line| Line { name: line.name + ", p99", dashed: true, ..line }));
    means.push(source(|source| source.1));
    let latency = Chart {
        title: "Response time over clients, closed loop",
        across: "clients",
        upwards: "ms",
        powers: true,
        lines: means,
    };
    let at = |(colour, figures): (usize, &Figures)| {
        let lines = |part: f64, dashed: bool| Line {
            name: format!("{}, p99 at {part} of its saturated rate", figures.server.name()),
            colour,
            dashed,
            points: figures
                .open
                .iter()
                .filter(|row| row.part == part)
                .map(|row| (f64::from(row.clients), ms(row.outcome.percentile(0.99))))
                .collect(),
        };
        [lines(PARTS[1], false), lines(PARTS[2], true)]
    };
    let open = Chart {
        title: "Response time over clients, at a fixed rate",
        across: "clients",
        upwards: "ms",
        powers: true,
        lines: report.figures.iter().enumerate().flat_map(at).collect(),
    };
    [("throughput.svg", throughput.draw()), ("latency.svg", latency.draw()), ("open.svg", open.draw())]
}

fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
