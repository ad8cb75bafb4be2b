//! A server of small answers that can be told to misbehave.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::asked::Asked;
use crate::served::{ANY, Served, bind};

/// The behaviour of a server, and the requests that it has seen.
#[derive(Default)]
pub struct Mood {
    /// Requests that arrived whole.
    pub asked: AtomicU64,
    pub connections: AtomicU64,
    /// How often each body came.
    pub bodies: Mutex<HashMap<String, u32>>,
    /// Answers with 500.
    pub fails: AtomicBool,
    /// Closes the connection in place of an answer.
    pub hangs_up: AtomicBool,
    /// Reads, and answers nothing.
    pub mute: AtomicBool,
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

    /// Changes what it does, also to those who wait.
    pub fn set(&self, which: impl FnOnce(&Self) -> &AtomicBool, on: bool) {
        which(self).store(on, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    async fn over(&self, mood: &AtomicBool) {
        loop {
            let changed = self.changed.notified();
            if !mood.load(Ordering::SeqCst) {
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
    _served: Served,
}

impl Server {
    pub fn new() -> Self {
        Self::at(ANY.into())
    }

    pub fn at(address: SocketAddr) -> Self {
        Self::of(bind(address))
    }

    pub fn of(listener: Listener) -> Self {
        let mood = Arc::new(Mood::default());
        let served = Served::run_on(listener, {
            let mood = mood.clone();
            move |listener| accept(listener, mood)
        });
        Server { address: served.address, mood, _served: served }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as a killed process ends: nothing listens, and every connection is closed.
    pub fn kill(self) -> SocketAddr {
        self.address
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

async fn accept(listener: TcpListener, mood: Arc<Mood>) {
    loop {
        mood.over(&mood.stalls).await;
        let Ok((stream, _)) = listener.accept().await else { return };
        mood.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(serve(stream, mood.clone()));
    }
}

async fn serve(stream: TcpStream, mood: Arc<Mood>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    for answered in 1.. {
        let asked = Asked::receive(&mut stream).await.ok()??;
        mood.over(&mood.stalls).await;
        mood.asked.fetch_add(1, Ordering::SeqCst);
        if !asked.body.is_empty() {
            *mood.bodies.lock().unwrap().entry(String::from_utf8(asked.body).unwrap()).or_default() += 1;
        }
        mood.over(&mood.mute).await;
        if mood.hangs_up.load(Ordering::SeqCst) {
            return None;
        }
        if asked.target == "/trickle" {
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
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
