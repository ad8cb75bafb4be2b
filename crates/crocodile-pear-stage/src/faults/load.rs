//! Requests at a rate, whatever becomes of them: each on a connection of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::figures::{Phase, Reply};
use super::{Ask, Asks};

/// So many numbers have requests: more than a run asks.
pub(super) const KNOWN: u64 = 40_000;

/// A request that has no answer by then never gets one.
const PATIENCE: Duration = Duration::from_secs(90);

/// So many right answers of each fault in a row: all is well.
const WELL: usize = 50;

/// A load that goes on.
pub(super) struct Load {
    shared: Arc<Shared>,
    runtime: Runtime,
    done: tokio::task::JoinHandle<Vec<Reply>>,
}

struct Shared {
    phase: AtomicU8,
    /// How many answers of each fault were right in a row, since the fault was mended.
    well: Box<[AtomicUsize]>,
    replies: Mutex<Vec<Reply>>,
}

impl Load {
    pub(super) fn begin(address: SocketAddr, rate: u32, asks: Vec<Vec<Ask>>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            phase: AtomicU8::new(Phase::Before as u8),
            well: asks.iter().map(|_| AtomicUsize::new(0)).collect(),
            replies: Mutex::default(),
        });
        let done = runtime.spawn(drive(address, rate, asks.into(), shared.clone()));
        Load { shared, runtime, done }
    }

    /// Requests that are sent from now on belong to this phase.
    pub(super) fn enter(&self, phase: Phase) {
        self.shared.well.iter().for_each(|well| well.store(0, Ordering::Relaxed));
        self.shared.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Whether answers are right again.
    pub(super) fn whole(&self) -> bool {
        self.shared.well.iter().all(|well| well.load(Ordering::Relaxed) >= WELL)
    }

    /// Asks no more, and waits for the answers.
    pub(super) fn end(self) -> Vec<Reply> {
        self.shared.phase.store(Phase::Over as u8, Ordering::Relaxed);
        self.runtime.block_on(self.done).unwrap()
    }
}

async fn drive(address: SocketAddr, rate: u32, asks: Asks, shared: Arc<Shared>) -> Vec<Reply> {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
    let mut running = JoinSet::new();
    for number in 0.. {
        tick.tick().await;
        while running.try_join_next().is_some() {}
        let phase = Phase::of(shared.phase.load(Ordering::Relaxed));
        if phase == Phase::Over {
            break;
        }
        let (asks, shared) = (asks.clone(), shared.clone());
        let (fault, number) = (number % asks.len(), number / asks.len());
        running.spawn(async move {
            let Some(ask) = asks[fault].get(number) else { return };
            let begun = Instant::now();
            let answer = tokio::time::timeout(PATIENCE, exchange(address, ask)).await;
            let took = begun.elapsed();
            // A request that is under way when the fault begins counts as sent during the fault, however long its answer takes.
            let phase = match (phase, Phase::of(shared.phase.load(Ordering::Relaxed))) {
                (Phase::Before, Phase::Before) => Phase::Before,
                (Phase::Before, _) => Phase::During,
                (phase, _) => phase,
            };
            let (status, body) =
                answer.unwrap_or_else(|_| Err("no answer".to_owned())).unwrap_or_else(|error| (0, error.into_bytes()));
            let right = status == 200 && ask.wanted.is(&body);
            if phase == Phase::Mended {
                match right {
                    true => drop(shared.well[fault].fetch_add(1, Ordering::Relaxed)),
                    false => shared.well[fault].store(0, Ordering::Relaxed),
                }
            }
            let said =
                if right { String::new() } else { String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned() };
            let reply = Reply { fault, number: number as u64, phase, status, right, took, said };
            shared.replies.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
        });
    }
    running.join_all().await;
    std::mem::take(&mut *shared.replies.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sends one request on a connection of its own; returns its status and its body.
async fn exchange(address: SocketAddr, ask: &Ask) -> Result<(u16, Vec<u8>), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).await.map_err(told)?;
    let (call, fields, body) = (&ask.call, &ask.fields, &ask.body);
    let length = if call.starts_with("GET") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let request = format!("{call} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n{length}{fields}\r\n{body}");
    stream.write_all(request.as_bytes()).await.map_err(told)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map_err(told)?;
    parse(&answer).ok_or_else(|| "the answer is not whole".to_owned())
}

/// The status and the body of an answer that has ended.
fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?.to_ascii_lowercase();
    let mut rest = &answer[end + 4..];
    let status = head.split(' ').nth(1)?.parse().ok()?;
    if let Some((_, length)) = head.split_once("\r\ncontent-length:") {
        let length: usize = length.lines().next()?.trim().parse().ok()?;
        return (rest.len() == length).then(|| (status, rest.to_vec()));
    }
    if !head.contains("\r\ntransfer-encoding: chunked") {
        return Some((status, rest.to_vec()));
    }
    let mut body = Vec::new();
    loop {
        let line = memchr::memmem::find(rest, b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some((status, body));
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_answers_are_read() {
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(parse(&[&sized[..], b"ab"].concat()), Some((200, b"ab".to_vec())));
        assert_eq!(parse(&[&sized[..], b"a"].concat()), None);
        let chunked = b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n";
        assert_eq!(parse(chunked), None);
        assert_eq!(parse(&[&chunked[..], b"0\r\n\r\n"].concat()), Some((503, b"abc".to_vec())));
    }
}
