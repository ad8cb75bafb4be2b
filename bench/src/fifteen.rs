//! Fifteen configurations that people write, under load: every answer is for its own request, and whole.

mod cases;
mod upstream;

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::LocalSet;

use self::cases::{ALL, Case, TOKEN};
use crate::Result;
use crate::client::Connection;
use crate::process::{Folder, Process, free_address};
use crate::product;
use crate::report::{Sheet, Style, say};

#[derive(Args)]
pub struct Options {
    /// How often each of the fifteen is asked, in each round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Over how many connections, each with one request at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// How many rounds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rounds: u64,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// An answer later than this is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many wrong answers are shown.
const SHOWN: u64 = 3;

pub async fn run(options: Options) -> Result<()> {
    let gateway = start(&product::find(options.binary.clone())?)?;
    let mut sheet = Sheet::new(1, ["configuration", "answers", "wrong", "lost", "answers/s"]);
    let mut faults = 0;
    for round in 0..options.rounds {
        for case in ALL {
            let first = 1_000_000 * (round + 1);
            let tally = LocalSet::new().run_until(load(case, gateway.address, first, &options)).await?;
            faults += tally.wrong + tally.lost;
            sheet.add([
                format!("{case:?}"),
                tally.right.to_string(),
                tally.wrong.to_string(),
                tally.lost.to_string(),
                format!("{:.0}", tally.right as f64 / tally.took.as_secs_f64()),
            ]);
        }
    }
    sheet.print(Style::choose(options.markdown))?;
    match faults {
        0 => Ok(()),
        faults => Err(format!("{faults} answers were wrong or lost").into()),
    }
}

/// The gateway, with two upstreams.
fn start(binary: &Path) -> Result<Process> {
    let (folder, address) = (Folder::new("fifteen")?, free_address()?);
    let file = folder.write("gateway.yaml", include_str!("fifteen/gateway.yaml"))?;
    folder.write("parts.yaml", include_str!("fifteen/parts.yaml"))?;
    let mut command = Command::new(binary);
    command.arg("run").arg(file).env("RUST_LOG", "error").env("TOKEN", TOKEN).env("LISTEN", address.to_string());
    command.env("UP", upstream::start()?.to_string()).env("OTHER", upstream::start()?.to_string());
    Process::start(command, address, folder).map_err(|error| format!("{}: {error}", binary.display()).into())
}

/// How one of them went.
#[derive(Default)]
struct Tally {
    right: u64,
    wrong: u64,
    lost: u64,
    took: Duration,
}

async fn load(case: Case, address: SocketAddr, first: u64, options: &Options) -> Result<Tally> {
    let next = Rc::new(Cell::new(first));
    let end = first + options.requests;
    let begun = Instant::now();
    let workers: Vec<_> = (0..options.connections)
        .map(|_| tokio::task::spawn_local(work(case, address, Rc::clone(&next), end)))
        .collect();
    let mut tally = Tally::default();
    for worker in workers {
        let own = worker.await??;
        tally.right += own.right;
        tally.wrong += own.wrong;
        tally.lost += own.lost;
    }
    tally.took = begun.elapsed();
    Ok(tally)
}

async fn work(case: Case, address: SocketAddr, next: Rc<Cell<u64>>, end: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut connection = Connection::open(address).await?;
    while next.get() < end {
        let n = next.replace(next.get() + 1);
        let mut head = Vec::new();
        let request = case.request(n);
        match tokio::time::timeout(PATIENCE, connection.ask(&request, &mut head)).await {
            Ok(Ok(answer)) if case.fits(n, &String::from_utf8_lossy(&head), &answer) => tally.right += 1,
            Ok(Ok(answer)) => {
                tally.wrong += 1;
                if tally.wrong <= SHOWN {
                    let shown = String::from_utf8_lossy(&answer.body[..answer.body.len().min(400)]).into_owned();
                    say(&format!("{case:?} {n}: wrong\n{}{shown}", String::from_utf8_lossy(&head)))?;
                }
            }
            Ok(Err(error)) => {
                tally.lost += 1;
                say(&format!("{case:?} {n}: {error}"))?;
                connection = Connection::open(address).await?;
            }
            Err(_) => {
                tally.lost += 1;
                say(&format!("{case:?} {n}: no answer within {PATIENCE:?}"))?;
                connection = Connection::open(address).await?;
            }
        }
    }
    Ok(tally)
}
