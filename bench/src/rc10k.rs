//! The reverse C10K experiment (source B): every client's request becomes six calls that take five seconds each.

use std::cell::Cell;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::LocalSet;

use crate::Result;
use crate::client::Connection;
use crate::hold::{Hold, Version};
use crate::process::{Process, Sample, sample};
use crate::report::{Sheet, Style, say};
use crate::{load, product};

/// Calls that a request becomes: three servers, two calls each.
const CALLS: u32 = 6;
/// How often the gateway is looked at.
const EVERY: Duration = Duration::from_millis(200);
/// An answer that is later than this beyond its five seconds is a failure.
const PATIENCE: Duration = Duration::from_secs(30);
/// For a row at a steady rate: twice the time of a call, so that half of it has all calls waiting.
const STEADY: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct Options {
    /// Milliseconds from one client to the next, a row each
    #[arg(long, value_delimiter = ',', default_values_t = [40.0, 20.0, 10.0, 5.0, 3.0, 2.0])]
    gaps: Vec<f64>,
    /// Clients that all wait at the same time, a row each
    #[arg(long, value_delimiter = ',', default_values_t = [1_700, 2_666])]
    clients: Vec<u32>,
    /// Milliseconds that every call takes
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    hold: u64,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// A row: so many clients, one after each gap.
struct Arrivals {
    clients: u32,
    gap: Duration,
}

/// The result of a row.
struct Row {
    failures: u32,
    /// Requests that waited at the same time.
    at_once: u32,
    /// Beyond the time of a call, sorted.
    late: Vec<Duration>,
    peak: Sample,
    /// The CPU time of a call.
    cpu: f64,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let hold = Duration::from_millis(options.hold);
    let steady = options.gaps.iter().map(|gap| {
        let gap = Duration::from_secs_f64(gap.max(0.1) / 1_000.0);
        Arrivals { clients: (STEADY.as_nanos() / gap.as_nanos()) as u32, gap }
    });
    // Within half of a call's time: they are all there before the first has its answer.
    let burst = options.clients.iter().map(|clients| Arrivals { clients: *clients, gap: hold / 2 / (*clients).max(1) });
    let rows: Vec<Arrivals> = steady.chain(burst).collect();
    let headings = [
        "a client every",
        "clients",
        "waiting calls",
        "failures",
        "threads",
        "peak MiB",
        "KiB a call",
        "open files",
        "µs CPU a call",
        "late ms p50",
        "p99",
        "most",
    ];
    let mut sheet = Sheet::new(1, headings);
    for arrivals in rows {
        if std::io::stderr().is_terminal() {
            eprintln!("{} clients, one every {:?}", arrivals.clients, arrivals.gap);
        }
        let row = LocalSet::new().run_until(measure(&binary, &arrivals, hold)).await?;
        sheet.add(cells(&arrivals, &row));
    }
    sheet.print(Style::choose(options.markdown))?;
    for line in BESIDE {
        say(line)?;
    }
    Ok(())
}

/// Measurements of others.
const BESIDE: [&str; 4] = [
    "",
    "The source (Liu & Deters, 2009), 3 x 2 calls of 5 s: 8,400 calls at once at 3 ms, unstable at 2 ms; WSO2 Mashup Server: overloaded below 300.",
    "10,200 calls at once, the design's figures: KrakenD's engine 621 MiB, 256 µs a call; hyper on both sides 343 MiB, 45 µs; the prototype 73 MiB, 34 µs.",
    "Wanted: no failure, 110 MiB, 45 µs, answers at most 100 ms late.",
];

async fn measure(binary: &Path, arrivals: &Arrivals, hold: Duration) -> Result<Row> {
    let servers = Hold::start(hold, Version::Http1)?;
    let gateway = product::start(binary, "rc10k", |listen| product::mashup(listen, &servers.addresses))?;
    // Once through, so that code and configuration are there before the clock runs.
    ask(gateway.address).await?;
    let before = gateway.cpu()?;
    let watch = Watch::begin(&gateway);
    let (late, failures, at_once) = drive(gateway.address, arrivals, hold).await;
    let peak = watch.end()?;
    let calls = f64::from(arrivals.clients * CALLS);
    let cpu = (gateway.cpu()? - before).as_secs_f64() * 1e6 / calls;
    let peak = Sample { resident: gateway.peak()?, ..peak };
    Ok(Row { failures, at_once, late, peak, cpu })
}

/// Lets the clients come, each at its time; how late their answers were, failures, and the most at once.
async fn drive(address: SocketAddr, arrivals: &Arrivals, hold: Duration) -> (Vec<Duration>, u32, u32) {
    let waiting = Rc::new(Cell::new((0_u32, 0_u32)));
    let begun = tokio::time::Instant::now();
    let mut clients = Vec::with_capacity(arrivals.clients as usize);
    for number in 0..arrivals.clients {
        tokio::time::sleep_until(begun + arrivals.gap * number).await;
        let waiting = waiting.clone();
        clients.push(tokio::task::spawn_local(async move {
            let (now, most) = waiting.get();
            waiting.set((now + 1, most.max(now + 1)));
            let since = Instant::now();
            let outcome = tokio::time::timeout(hold + PATIENCE, ask(address)).await;
            let took = since.elapsed();
            let (now, most) = waiting.get();
            waiting.set((now - 1, most));
            match outcome {
                Ok(Ok(())) => Ok(took.saturating_sub(hold)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("no answer".to_owned()),
            }
        }));
    }
    let (mut late, mut failures) = (Vec::new(), 0);
    for client in clients {
        match client.await {
            Ok(Ok(took)) => late.push(took),
            Ok(Err(error)) if failures == 0 => {
                eprintln!("the first failure: {error}");
                failures += 1;
            }
            _ => failures += 1,
        }
    }
    late.sort_unstable();
    (late, failures, waiting.get().1)
}

async fn ask(address: SocketAddr) -> Result<()> {
    let answer = Connection::open(address).await?.exchange(&load::get("/mashup", "gateway")).await?;
    let names = [r#""a":{"#, r#""f":{"#];
    let text = String::from_utf8_lossy(&answer.body);
    match answer.status {
        200 if names.iter().all(|name| text.contains(name)) => Ok(()),
        status => Err(format!("status {status}: {text}").into()),
    }
}

/// A thread that looks at the gateway now and then, and keeps the most of each.
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Sample>>,
}

impl Watch {
    pub fn begin(gateway: &Process) -> Self {
        let (over, id) = (Arc::new(AtomicBool::new(false)), gateway.id());
        let seen = over.clone();
        let thread = thread::spawn(move || {
            let mut most = sample(id)?;
            while !seen.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                most = most.max(sample(id)?);
            }
            Ok(most)
        });
        Self { over, thread }
    }

    pub fn end(self) -> Result<Sample> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the watching thread panicked")?
    }
}

fn cells(arrivals: &Arrivals, row: &Row) -> [String; 12] {
    let at = |part: f64| {
        let place = (row.late.len() as f64 * part).ceil() as usize;
        row.late.get(place.saturating_sub(1)).map_or(f64::NAN, |late| late.as_secs_f64() * 1_000.0)
    };
    let calls = row.at_once * CALLS;
    [
        format!("{:.1} ms", arrivals.gap.as_secs_f64() * 1_000.0),
        arrivals.clients.to_string(),
        calls.to_string(),
        row.failures.to_string(),
        row.peak.threads.to_string(),
        format!("{:.0}", row.peak.resident as f64 / f64::from(1 << 20)),
        format!("{:.1}", row.peak.resident as f64 / 1024.0 / f64::from(calls)),
        row.peak.files.to_string(),
        format!("{:.0}", row.cpu),
        format!("{:.0}", at(0.5)),
        format!("{:.0}", at(0.99)),
        format!("{:.0}", at(1.0)),
    ]
}
