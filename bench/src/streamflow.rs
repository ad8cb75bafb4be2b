//! The thesis's inbox: a client that follows every link itself, and one request through the gateway.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear_demo::{self as demo, Demo};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Result;
use crate::client::{Answer, Connection};
use crate::product;
use crate::report::{Sheet, Style, median, say};

const HEADINGS: [&str; 8] = [
    "inbox",
    "by",
    "client's requests",
    "upstream calls",
    "bytes to the client",
    "cold ms",
    "first item ms",
    "wall ms",
];

#[derive(Args)]
pub struct Options {
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Milliseconds that every answer of the upstream takes
    #[arg(long, default_value_t = 20)]
    latency: u64,
    /// How many cases the inbox holds; several inboxes are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [156, 296], value_parser = clap::value_parser!(u16).range(1..=500))]
    cases: Vec<u16>,
    /// How often the gateway is asked; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// How many requests the direct client has under way: browsers have six
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

#[derive(Default)]
struct Tally {
    requests: usize,
    bytes: usize,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary.clone())?;
    let mut sheet = Sheet::new(2, HEADINGS);
    let source = |how: &str, cells: [&str; 4]| {
        [how, "thesis, 2015", cells[0], cells[1], cells[2], "-", "-", cells[3]].map(str::to_owned)
    };
    sheet.add(source("156 cases", ["373", "373", "1100000", "11000"]));
    sheet.add(source("156 cases, one request", ["1", "-", "159000", "5000"]));
    let mut said = Vec::new();
    for cases in options.cases.iter().copied().map(usize::from) {
        said.push(inbox(cases, &binary, &options, &mut sheet).await?);
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    for line in said {
        say(&line)?;
    }
    Ok(())
}

/// An inbox of so many cases, both ways; says what the table has no column for.
async fn inbox(cases: usize, binary: &Path, options: &Options, sheet: &mut Sheet) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = listener.local_addr()?;
    let latency = Duration::from_millis(options.latency);
    tokio::spawn(demo::upstreams(listener, Demo { latency, cases }));

    let begun = Instant::now();
    let direct = walk(upstream, usize::from(options.connections)).await?;
    let wall = format!("{:.0}", milliseconds(begun));
    let by = format!("{} connections", options.connections);
    let (requests, bytes) = (direct.requests.to_string(), direct.bytes.to_string());
    sheet.add([format!("{cases} cases"), by, requests.clone(), requests, bytes, "-".to_owned(), "-".to_owned(), wall]);

    let (counter, counted) = count(upstream).await?;
    let gateway = product::start(binary, "streamflow", |listen| product::inbox(listen, counter))?;
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        rounds.push(Round::ask(gateway.address, cases, &counted).await?);
    }
    let (cold, last) = (&rounds[0], &rounds[rounds.len() - 1]);
    sheet.add([
        format!("{cases} cases, one request"),
        "gateway".to_owned(),
        "1".to_owned(),
        last.calls.to_string(),
        last.bytes.to_string(),
        format!("{:.0}", cold.wall),
        format!("{:.0}", median(rounds.iter().map(|round| round.first).collect())),
        format!("{:.0}", median(rounds.iter().map(|round| round.wall).collect())),
    ]);
    let less = 100.0 - 100.0 * last.bytes as f64 / direct.bytes as f64;
    Ok(format!(
        "{cases} cases, {} ms latency: {less:.1} % fewer bytes; the first request, cold, has no connections to the upstream yet",
        options.latency
    ))
}

/// A request to the gateway.
struct Round {
    first: f64,
    wall: f64,
    bytes: usize,
    calls: usize,
}

impl Round {
    async fn ask(gateway: SocketAddr, cases: usize, counted: &AtomicUsize) -> Result<Self> {
        let before = counted.load(Ordering::Relaxed);
        let mut connection = Connection::open(gateway).await?;
        let begun = Instant::now();
        let mut tally = Tally::default();
        let answer = tally.call(&mut connection, "/inbox", gateway).await?;
        let wall = milliseconds(begun);
        let items = memmem::find_iter(&answer.body, b"\"due\":\"2015-").count();
        if items != cases {
            return Err(format!("{items} of {cases} cases came").into());
        }
        let first = answer.began.duration_since(begun).as_secs_f64() * 1000.0;
        Ok(Round { first, wall, bytes: tally.bytes, calls: counted.load(Ordering::Relaxed) - before })
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// Follows every link every time, as the thesis's client did, over so many connections.
async fn walk(upstream: SocketAddr, connections: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    let inbox = tally.ask(&mut Connection::open(upstream).await?, "/streamflow/api/cases/inbox", upstream).await?;
    let links: Arc<Vec<String>> = Arc::new(texts(&inbox, b"\"href\":\""));
    let next = Arc::new(AtomicUsize::new(0));
    let walkers: Vec<_> =
        (0..connections).map(|_| tokio::spawn(visit(upstream, Arc::clone(&links), Arc::clone(&next)))).collect();
    for walker in walkers {
        let part = walker.await??;
        tally.requests += part.requests;
        tally.bytes += part.bytes;
    }
    Ok(tally)
}

async fn visit(upstream: SocketAddr, links: Arc<Vec<String>>, next: Arc<AtomicUsize>) -> Result<Tally> {
    let (mut tally, mut connection) = (Tally::default(), Connection::open(upstream).await?);
    while let Some(id) = links.get(next.fetch_add(1, Ordering::Relaxed)) {
        tally.ask(&mut connection, &format!("/streamflow/api/cases/{id}"), upstream).await?;
        let general = tally.ask(&mut connection, &format!("/streamflow/api/cases/{id}/general"), upstream).await?;
        if memmem::find(&general, b"\"priority\":{").is_some() {
            tally.ask(&mut connection, "/streamflow/api/priorities", upstream).await?;
        }
    }
    Ok(tally)
}

/// The texts that follow this.
fn texts(body: &[u8], before: &[u8]) -> Vec<String> {
    let from = memmem::find_iter(body, before).map(|at| &body[at + before.len()..]);
    from.filter_map(|rest| Some(String::from_utf8_lossy(&rest[..memchr::memchr(b'"', rest)?]).into_owned())).collect()
}

/// A listener that hands everything on to the upstream, and counts the requests.
async fn count(upstream: SocketAddr) -> Result<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (address, counted) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&counted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass(stream, upstream, Arc::clone(&counter)));
        }
    });
    Ok((address, counted))
}

async fn pass(stream: TcpStream, upstream: SocketAddr, counted: Arc<AtomicUsize>) -> Result<()> {
    stream.set_nodelay(true)?;
    let onwards = TcpStream::connect(upstream).await?;
    onwards.set_nodelay(true)?;
    let ((mut from, mut to), (mut answers, mut requests)) = (stream.into_split(), onwards.into_split());
    tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to).await });
    let mut buffer = vec![0; 8 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        // A request's head leaves the gateway in one write.
        counted.fetch_add(memmem::find_iter(&buffer[..read], b"\r\n\r\n").count(), Ordering::Relaxed);
        requests.write_all(&buffer[..read]).await?;
    }
}

impl Tally {
    async fn ask(&mut self, connection: &mut Connection, target: &str, host: SocketAddr) -> Result<Vec<u8>> {
        self.call(connection, target, host).await.map(|answer| answer.body)
    }

    async fn call(&mut self, connection: &mut Connection, target: &str, host: SocketAddr) -> Result<Answer> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n");
        let answer = connection.exchange(request.as_bytes()).await?;
        if answer.status != 200 {
            return Err(format!("{target}: status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
        }
        self.requests += 1;
        self.bytes += answer.head + answer.framing + answer.body.len();
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_inbox_takes_373_requests() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let upstream = listener.local_addr().expect("bound");
        tokio::spawn(demo::upstreams(listener, Demo::default()));
        let tally = walk(upstream, 6).await.expect("an inbox");
        assert!(tally.requests == 373 && tally.bytes > 1_000_000);
    }
}
