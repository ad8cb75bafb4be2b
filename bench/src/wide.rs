//! Far more calls than there may be connections: each request becomes a thousand calls over HTTP/2, all held at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use memchr::memmem;
use tokio::task::LocalSet;

use crate::client::Connection;
use crate::hold::{Hold, Version};
use crate::rc10k::Watch;
use crate::report::{Sheet, Style, say};
use crate::{Result, load, product, upstream};

/// An answer that is later than this beyond its calls is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub struct Options {
    /// Clients that all wait at the same time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Calls that each request becomes
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls: u32,
    /// Milliseconds that every call takes
    #[arg(long, default_value_t = 15_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    hold: u64,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let hold = Duration::from_millis(options.hold);
    let servers = Hold::start(hold, Version::Http2)?;
    let gateway = product::start(&binary, "wide", |listen| product::wide(listen, servers.addresses[0], options.calls))?;
    let before = gateway.cpu()?;
    let watch = Watch::begin(&gateway);
    let (late, failures) =
        LocalSet::new().run_until(drive(gateway.address, options.clients, options.calls, hold)).await;
    let peak = watch.end()?;
    let calls = options.clients * options.calls;
    let cpu = (gateway.cpu()? - before).as_secs_f64() * 1e6 / f64::from(calls);
    let resident = gateway.peak()?;
    let headings = [
        "waiting calls",
        "clients",
        "failures",
        "threads",
        "peak MiB",
        "KiB a call",
        "open files",
        "µs CPU a call",
        "late ms, most",
    ];
    let mut sheet = Sheet::new(0, headings);
    sheet.add([
        calls.to_string(),
        options.clients.to_string(),
        failures.to_string(),
        peak.threads.to_string(),
        format!("{:.0}", resident as f64 / f64::from(1 << 20)),
        format!("{:.1}", resident as f64 / 1024.0 / f64::from(calls)),
        peak.files.to_string(),
        format!("{cpu:.0}"),
        late.map_or("-".to_owned(), |late| late.as_millis().to_string()),
    ]);
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    say("Wanted: 100,000 calls waiting at once, no failure, at most 1 GiB.")?;
    Ok(())
}

/// Lets all clients ask at once; how late the last answer was, and how many were wrong.
async fn drive(address: SocketAddr, clients: u32, calls: u32, hold: Duration) -> (Option<Duration>, u32) {
    let asking: Vec<_> = (0..clients)
        .map(|_| {
            tokio::task::spawn_local(async move {
                let since = Instant::now();
                tokio::time::timeout(hold + PATIENCE, ask(address, calls)).await.map_err(|_| "no answer")??;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(since.elapsed().saturating_sub(hold))
            })
        })
        .collect();
    let (mut late, mut failures) = (None, 0);
    for client in asking {
        match client.await {
            Ok(Ok(took)) => late = late.max(Some(took)),
            failed => {
                if failures == 0 {
                    eprintln!("the first failure: {failed:?}");
                }
                failures += 1;
            }
        }
    }
    (late, failures)
}

async fn ask(address: SocketAddr, calls: u32) -> Result<()> {
    let answer = Connection::open(address).await?.exchange(&load::get("/wide", "gateway")).await?;
    let item = upstream::item(1);
    let items = memmem::find_iter(&answer.body, &item).count();
    match answer.status {
        200 if items == calls as usize => Ok(()),
        status => Err(format!("status {status}, {items} items of {calls}").into()),
    }
}
