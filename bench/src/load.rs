//! The load generator: a fixed number of requests over kept connections, every answer compared.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::Result;
use crate::client::Connection;
use crate::expected::Expected;

/// An answer later than this ends the run.
const PATIENCE: Duration = Duration::from_secs(30);

/// The load: a request, a server, and a number of repetitions.
pub struct Load {
    pub address: SocketAddr,
    /// The bytes of one request.
    pub request: Vec<u8>,
    pub expected: Expected,
    pub requests: usize,
    pub connections: usize,
    /// All of it must be done in this time.
    pub within: Duration,
}

/// How it went. Every answer was right, or there would be none.
pub struct Pace {
    pub took: Duration,
    /// The latency of each request, sorted.
    pub latencies: Vec<Duration>,
}

impl Pace {
    pub fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    /// The latency that this part of all requests kept within.
    pub fn percentile(&self, part: f64) -> Duration {
        let place = (self.latencies.len() as f64 * part).ceil() as usize;
        self.latencies.get(place.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl Load {
    /// Runs the load to its end, or to the first wrong answer.
    pub async fn run(self) -> Result<Pace> {
        let within = self.within;
        tokio::time::timeout(within, self.drive()).await.map_err(|_| format!("not done within {within:?}"))?
    }

    async fn drive(self) -> Result<Pace> {
        let (connections, requests) = (self.connections, self.requests);
        let load = Rc::new(self);
        let left = Rc::new(Cell::new(requests));
        let tasks = LocalSet::new();
        let begun = Instant::now();
        let workers: Vec<_> = (0..connections.min(requests))
            .map(|_| tasks.spawn_local(Rc::clone(&load).work(Rc::clone(&left))))
            .collect();
        tasks
            .run_until(async {
                let mut latencies = Vec::with_capacity(requests);
                for worker in workers {
                    latencies.extend(worker.await??);
                }
                let took = begun.elapsed();
                latencies.sort_unstable();
                Ok(Pace { took, latencies })
            })
            .await
    }

    async fn work(self: Rc<Self>, left: Rc<Cell<usize>>) -> Result<Vec<Duration>> {
        let mut connection = tokio::time::timeout(PATIENCE, Connection::open(self.address)).await??;
        let mut latencies = Vec::new();
        while let Some(remaining) = left.get().checked_sub(1) {
            left.set(remaining);
            let begun = Instant::now();
            let exchange = tokio::time::timeout(PATIENCE, connection.exchange(&self.request));
            let answer = exchange.await.map_err(|_| format!("no answer within {PATIENCE:?}"))??;
            latencies.push(begun.elapsed());
            if answer.status != 200 || !self.expected.matches(&answer.body) {
                let shown = String::from_utf8_lossy(&answer.body[..answer.body.len().min(400)]).into_owned();
                return Err(
                    format!("a wrong answer: status {}, {} bytes: {shown}", answer.status, answer.body.len()).into()
                );
            }
        }
        Ok(latencies)
    }
}

/// The bytes of a plain GET.
pub fn get(target: &str, host: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n").into_bytes()
}

/// The bytes of a POST of JSON.
pub fn post(target: &str, host: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nContent-Type: application/json\r\n");
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream;

    fn load(address: SocketAddr, expected: Vec<u8>) -> Load {
        let (request, expected) = (get("/item?n=3", "up"), Expected::Exactly(expected));
        Load { address, request, expected, requests: 100, connections: 8, within: PATIENCE }
    }

    #[tokio::test]
    async fn every_request_is_made_once() {
        let address = upstream::start().expect("an upstream");
        let pace = load(address, upstream::item(3)).run().await.expect("right answers");
        assert_eq!(pace.latencies.len(), 100);
        assert!(pace.percentile(0.5) <= pace.percentile(0.99));
    }

    #[tokio::test]
    async fn a_wrong_answer_ends_the_run() {
        let address = upstream::start().expect("an upstream");
        assert!(load(address, upstream::item(4)).run().await.is_err());
    }
}
