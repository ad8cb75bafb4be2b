//! Source C: what a kept connection saves, over a link of 15 ms each way that is made here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::Result;
use crate::client::Connection;
use crate::process::Process;
use crate::report::{Sheet, Style, say};
use crate::{load, product, upstream};

#[derive(Args)]
pub struct Options {
    /// Milliseconds of the link, each way
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    delay: u64,
    /// Calls for each row, one after the other
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    calls: u32,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

pub async fn run(options: Options) -> Result<()> {
    LocalSet::new().run_until(table(options)).await
}

async fn table(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let delay = Duration::from_millis(options.delay);
    let link = link(upstream::start()?, delay).await?;
    let gateway = |keep: &'static str| product::start(&binary, "keepalive", |listen| product::kept(listen, link, keep));
    let (kept, closed): (Process, Process) = (gateway("30s")?, gateway("0s")?);
    let mut sheet = Sheet::new(2, ["over the link", "connection", "p50 ms", "p99 ms"]);
    let rows = [
        ("a client alone", "cold", calls(link, "/item", false, options.calls).await?),
        ("a client alone", "kept", calls(link, "/item", true, options.calls).await?),
        ("the gateway, HTTP/1.1", "cold", calls(closed.address, "/proxy", true, options.calls).await?),
        ("the gateway, HTTP/1.1", "kept", calls(kept.address, "/proxy", true, options.calls).await?),
    ];
    for (what, how, times) in rows {
        let at = |part: f64| {
            let place = (times.len() as f64 * part).ceil() as usize;
            times.get(place.saturating_sub(1)).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
        };
        sheet.add([what.into(), how.into(), format!("{:.1}", at(0.5)), format!("{:.1}", at(0.99))]);
    }
    sheet.print(Style::choose(options.markdown))?;
    let trip = 2 * options.delay;
    say(&format!(
        "\nThe link's own: {trip} ms kept, {} ms cold; its timers round up to a millisecond each way.",
        2 * trip
    ))?;
    say(
        "The source (State Farm), 15 ms each way with TLS: 135 ms cold, 30 ms kept; in production 206 ms saved a call.",
    )?;
    Ok(())
}

/// Times of calls, sorted, the first of a kept connection left out.
async fn calls(address: SocketAddr, target: &str, keep: bool, calls: u32) -> Result<Vec<Duration>> {
    let request = load::get(target, "bench");
    let mut connection = Connection::open(address).await?;
    connection.exchange(&request).await?;
    let mut times = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        let begun = Instant::now();
        if !keep {
            connection = Connection::open(address).await?;
        }
        let answer = connection.exchange(&request).await?;
        times.push(begun.elapsed());
        if answer.status != 200 {
            return Err(format!("status {}", answer.status).into());
        }
    }
    times.sort_unstable();
    Ok(times)
}

/// A proxy that hands on bytes after a delay. The two trips of TCP's handshake, which loopback does at once, are added
/// to the first bytes.
async fn link(to: SocketAddr, delay: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::task::spawn_local(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                let Ok(far) = TcpStream::connect(to).await else { return };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let ((near_out, near_in), (far_out, far_in)) = (near.into_split(), far.into_split());
                tokio::task::spawn_local(carry(near_out, far_in, delay, 2 * delay));
                carry(far_out, near_in, delay, Duration::ZERO).await;
            });
        }
    });
    Ok(address)
}

/// Pieces under way at most: the bench sends one at a time.
const PIECES: usize = 64;

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration, mut first: Duration) {
    let (sender, mut pieces) = mpsc::channel::<(tokio::time::Instant, Vec<u8>)>(PIECES);
    let read = async move {
        loop {
            let mut piece = Vec::with_capacity(16 << 10);
            if !matches!(from.read_buf(&mut piece).await, Ok(1..)) {
                return;
            }
            let due = tokio::time::Instant::now() + delay + std::mem::take(&mut first);
            if sender.send((due, piece)).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
