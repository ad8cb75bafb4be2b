//! Upstreams of small answers that can be told to misbehave, each on a runtime that can be taken away from it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::stage::ports::free_address;

/// What a server does, and what it has seen.
#[derive(Default)]
pub struct Mood {
    /// Requests that arrived whole.
    pub asked: AtomicU64,
    pub connections: AtomicU64,
    /// How often each body came.
    pub bodies: Mutex<HashMap<String, u32>>,
    /// Answers with 500.
    pub fails: AtomicBool,
    /// Reads, answers and accepts nothing.
    pub stalls: AtomicBool,
    /// Closes behind every answer of this number; behind none, at 0.
    pub closes: AtomicU64,
    /// Closes behind one of so many answers, by no rule; behind none, at 0.
    pub whims: AtomicU64,
    changed: Notify,
}

impl Mood {
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    pub fn stall(&self, on: bool) {
        self.stalls.store(on, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    async fn well(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.stalls.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }

    fn leaves(&self, answered: u64) -> bool {
        let closes = self.closes.load(Ordering::SeqCst);
        let whims = self.whims.load(Ordering::SeqCst);
        // Knuth's multiplicative hash of the number: as good as chance here, and the same every time.
        let whim = |whims: u64| self.asked().wrapping_mul(2_654_435_761) >> 7 & 0xffff < 65_536 / whims;
        (closes > 0 && answered.is_multiple_of(closes)) || (whims > 0 && whim(whims))
    }
}

/// A server, gone with its connections when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub mood: Arc<Mood>,
    runtime: Option<Runtime>,
}

impl Server {
    pub fn new() -> Self {
        Self::at(free_address())
    }

    pub fn at(address: SocketAddr) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mood = Arc::new(Mood::default());
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(accept(listener, mood.clone()));
        Server { address, mood, runtime: Some(runtime) }
    }

    /// Ends it as a killed process ends: nothing listens, and every connection is closed.
    pub fn kill(self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        }
    }
}

async fn accept(listener: TcpListener, mood: Arc<Mood>) {
    loop {
        mood.well().await;
        let Ok((stream, _)) = listener.accept().await else { return };
        mood.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(serve(stream, mood.clone()));
    }
}

async fn serve(stream: TcpStream, mood: Arc<Mood>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    for answered in 1.. {
        let (mut length, mut trickles) = (0, false);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            trickles |= line.starts_with("GET /trickle ");
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        mood.well().await;
        mood.asked.fetch_add(1, Ordering::SeqCst);
        if length > 0 {
            *mood.bodies.lock().unwrap().entry(String::from_utf8(body).unwrap()).or_default() += 1;
        }
        if trickles {
            return trickle(stream).await;
        }
        let status = if mood.fails.load(Ordering::SeqCst) { "500 Oh" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await.ok()?;
        if mood.leaves(answered) {
            return None;
        }
    }
    None
}

/// An answer that never ends, a byte each half second.
async fn trickle(mut stream: BufReader<TcpStream>) -> Option<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
    loop {
        stream.write_all(b"1\r\na\r\n").await.ok()?;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}
