//! Clients: so many requests a second, whatever becomes of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

/// A client that has waited for this long has left.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much longer than usual every load is.
pub fn times() -> u64 {
    std::env::var("OUTAGES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

#[derive(Clone, Copy)]
pub struct Load {
    pub gateway: SocketAddr,
    pub method: &'static str,
    pub requests: u64,
    /// Requests a second; as many as there can be, at 0.
    pub rate: u64,
    pub connections: u64,
    /// The body that each request must bring, by its number, which is its path; a short one unless set.
    pub wanted: Option<fn(u64) -> Vec<u8>>,
}

/// The results that the clients saw.
#[derive(Default, Debug)]
pub struct Seen {
    pub sent: u64,
    /// The requests not answered with 200: when, and what came instead.
    pub failures: Vec<(Duration, String)>,
    pub slowest: Duration,
}

impl Load {
    pub fn get(gateway: SocketAddr, requests: u64) -> Self {
        Load { gateway, method: "GET", requests: requests * times(), rate: 0, connections: 16, wanted: None }
    }

    pub fn post(gateway: SocketAddr, requests: u64) -> Self {
        Load { method: "POST", ..Self::get(gateway, requests) }
    }

    pub fn paced(self, rate: u64) -> Self {
        Load { rate, connections: 64, ..self }
    }

    pub fn at_once(self, connections: u64) -> Self {
        Load { connections, ..self }
    }

    pub fn wanting(self, wanted: fn(u64) -> Vec<u8>) -> Self {
        Load { wanted: Some(wanted), ..self }
    }

    /// Runs it in the background; `join` tells what was seen.
    pub fn begin(self) -> std::thread::JoinHandle<Seen> {
        std::thread::spawn(move || self.run())
    }

    pub fn run(self) -> Seen {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (begun, next) = (Instant::now(), Arc::<AtomicU64>::default());
            let clients: Vec<_> =
                (0..self.connections).map(|_| tokio::spawn(self.client(begun, next.clone()))).collect();
            let mut all = Seen::default();
            for client in clients {
                let Seen { sent, failures, slowest } = client.await.unwrap();
                all.sent += sent;
                all.failures.extend(failures);
                all.slowest = all.slowest.max(slowest);
            }
            all
        })
    }

    async fn client(self, begun: Instant, next: Arc<AtomicU64>) -> Seen {
        let (mut seen, mut stream) = (Seen::default(), None);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.requests {
                return seen;
            }
            if let Some(due) = (number * 1_000_000).checked_div(self.rate) {
                sleep_until(begun + Duration::from_micros(due)).await;
            }
            let since = Instant::now();
            let outcome = timeout(PATIENCE, self.ask(number, &mut stream)).await;
            seen.sent += 1;
            seen.slowest = seen.slowest.max(since.elapsed());
            let wrong = match outcome {
                Ok(Ok(200)) => continue,
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "nothing".to_owned(),
            };
            stream = None;
            seen.failures.push((begun.elapsed(), wrong));
        }
    }

    async fn ask(&self, number: u64, stream: &mut Option<BufReader<TcpStream>>) -> std::io::Result<u16> {
        let stream = match stream {
            Some(stream) => stream,
            None => stream.insert(BufReader::new(TcpStream::connect(self.gateway).await?)),
        };
        let body = if self.method == "POST" { number.to_string() } else { String::new() };
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let path = self.wanted.map_or("item".to_owned(), |_| number.to_string());
        let request = format!("{} /{path} HTTP/1.1\r\nhost: gateway\r\n{length}\r\n{body}", self.method);
        stream.get_mut().write_all(request.as_bytes()).await?;
        let (status, body) = answer(stream).await?;
        match self.wanted {
            Some(wanted) if wanted(number) != body => Err(std::io::Error::other("another body")),
            _ => Ok(status),
        }
    }
}

async fn answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let malformed = || std::io::Error::other("no answer");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(malformed());
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().map_err(|_| malformed())?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status, body))
}
