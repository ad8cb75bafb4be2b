//! The clients: each makes the five calls round by round, at once or at its times, and looks at every answer.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem;
use tokio::task::LocalSet;

use super::database::ROWS;
use crate::Result;
use crate::client::{Answer, Connection};

/// An answer later than this is a failure.
const PATIENCE: Duration = Duration::from_secs(30);
/// No run takes longer.
const LONGEST: Duration = Duration::from_secs(300);

/// Calls of a round.
pub const CALLS: u32 = 5;

#[derive(Clone, Copy)]
pub enum Pacing {
    /// A client's next call begins when its last has ended.
    Closed,
    /// All clients together begin so many calls in a second, each at its own times.
    Open { rate: f64, seconds: Duration },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Create, list, get, update, delete.
    Five,
    /// Get, of any row.
    Get,
}

pub struct Drive {
    pub address: SocketAddr,
    pub clients: u32,
    pub rounds: u32,
    pub pacing: Pacing,
    pub work: Work,
    /// Where the items are.
    pub path: &'static str,
    /// The answer of a list.
    pub page: Vec<u8>,
    /// How many clients there are, for who watches.
    pub gauge: Arc<AtomicU64>,
}

pub struct Outcome {
    pub took: Duration,
    /// The latency of each call that was answered as it should be, sorted.
    pub latencies: Vec<Duration>,
    pub failed: u64,
    /// The first failure.
    pub why: Option<String>,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    pub fn mean(&self) -> Duration {
        self.latencies.iter().sum::<Duration>() / u32::try_from(self.latencies.len().max(1)).unwrap_or(u32::MAX)
    }

    pub fn percentile(&self, part: f64) -> Duration {
        let place = (self.latencies.len() as f64 * part).ceil() as usize;
        self.latencies.get(place.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// `get` alone, of any row, as fast as so many clients can.
pub async fn gets(address: SocketAddr, path: &'static str, clients: u32, seconds: Duration) -> Result<Outcome> {
    let pacing = Pacing::Open { rate: f64::INFINITY, seconds };
    Drive { address, clients, rounds: 0, pacing, work: Work::Get, path, page: Vec::new(), gauge: Arc::default() }
        .run()
        .await
}

impl Drive {
    pub async fn run(self) -> Result<Outcome> {
        tokio::time::timeout(LONGEST, self.all()).await.map_err(|_| format!("not done within {LONGEST:?}"))?
    }

    async fn all(self) -> Result<Outcome> {
        self.gauge.store(self.clients.into(), Ordering::Relaxed);
        let drive = Rc::new(self);
        let tasks = LocalSet::new();
        let begun = Instant::now();
        let clients: Vec<_> =
            (0..drive.clients).map(|number| tasks.spawn_local(Client::run(drive.clone(), number, begun))).collect();
        let outcome = tasks.run_until(async {
            let mut outcome = Outcome { took: Duration::ZERO, latencies: Vec::new(), failed: 0, why: None };
            for client in clients {
                let one = client.await?;
                outcome.latencies.extend(one.latencies);
                outcome.failed += one.failed;
                outcome.why = outcome.why.take().or(one.why);
            }
            outcome.took = begun.elapsed();
            outcome.latencies.sort_unstable();
            Result::Ok(outcome)
        });
        let outcome = outcome.await?;
        drive.gauge.store(0, Ordering::Relaxed);
        Ok(outcome)
    }
}

struct Client {
    drive: Rc<Drive>,
    connection: Option<Connection>,
    begun: Instant,
    /// When its calls are due: the first, and one after the other.
    due: Option<(Duration, Duration)>,
    calls: u32,
    /// For the choice of rows.
    random: u64,
    latencies: Vec<Duration>,
    failed: u64,
    why: Option<String>,
}

impl Client {
    async fn run(drive: Rc<Drive>, number: u32, begun: Instant) -> Self {
        let due = match drive.pacing {
            Pacing::Open { rate, .. } if rate.is_finite() => {
                let every = Duration::from_secs_f64(f64::from(drive.clients) / rate);
                // One after the other within the first period.
                Some((every * number / drive.clients, every))
            }
            _ => None,
        };
        let random = u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut client =
            Self { drive, connection: None, begun, due, calls: 0, random, latencies: Vec::new(), failed: 0, why: None };
        let mut round = 0;
        while client.goes_on(round) {
            round += 1;
            if let Err(error) = client.round().await {
                client.failed += 1;
                client.why.get_or_insert_with(|| error.to_string());
                client.connection = None;
                // Nobody hammers a server that refuses everything.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        client
    }

    fn goes_on(&self, round: u32) -> bool {
        match self.drive.pacing {
            Pacing::Closed => round < self.drive.rounds,
            Pacing::Open { seconds, .. } => self.begun.elapsed() < seconds,
        }
    }

    async fn round(&mut self) -> Result<()> {
        if self.drive.work == Work::Get {
            let id = self.choose();
            return self.item("GET", id, None, id.is_multiple_of(2)).await;
        }
        let value = self.calls.is_multiple_of(2);
        let created = self.call("POST", self.drive.path, Some(value)).await?;
        expect(created.status == 201, "create", &created)?;
        let id = number(&created.body).ok_or("created without an id")?;
        expect(created.body == written(id, value), "create", &created)?;
        let listed = self.call("GET", self.drive.path, None).await?;
        expect(listed.status == 200 && listed.body == self.drive.page, "list", &listed)?;
        self.item("GET", id, None, value).await?;
        self.item("PUT", id, Some(!value), !value).await?;
        self.item("DELETE", id, None, !value).await
    }

    async fn item(&mut self, method: &str, id: u32, sent: Option<bool>, wanted: bool) -> Result<()> {
        let answer = self.call(method, &format!("{}/{id}", self.drive.path), sent).await?;
        expect(answer.status == 200 && answer.body == written(id, wanted), method, &answer)
    }

    async fn call(&mut self, method: &str, path: &str, sent: Option<bool>) -> Result<Answer> {
        let request = match sent {
            None => format!("{method} {path} HTTP/1.1\r\nhost: items\r\n\r\n"),
            Some(value) => {
                let body = format!("{{\"value\":{value}}}");
                let fields = format!("content-type: application/json\r\ncontent-length: {}", body.len());
                format!("{method} {path} HTTP/1.1\r\nhost: items\r\n{fields}\r\n\r\n{body}")
            }
        };
        if self.connection.is_none() {
            let opened = tokio::time::timeout(PATIENCE, Connection::open(self.drive.address)).await;
            self.connection = Some(opened.map_err(|_| "no connection")??);
        }
        let since = self.wait().await;
        let connection = self.connection.as_mut().ok_or("no connection")?;
        let answer = tokio::time::timeout(PATIENCE, connection.exchange(request.as_bytes())).await;
        let answer = answer.map_err(|_| format!("no answer within {PATIENCE:?}"))??;
        self.latencies.push(since.elapsed());
        Ok(answer)
    }

    /// Waits until the next call is due. It counts from then on, also where the one before has ended later; where this client
    /// was woken late, that is not the server's fault.
    async fn wait(&mut self) -> Instant {
        let Some((first, every)) = self.due else { return Instant::now() };
        let due = self.begun + first + every * self.calls;
        self.calls += 1;
        if due <= Instant::now() {
            return due;
        }
        tokio::time::sleep_until(due.into()).await;
        Instant::now()
    }

    fn choose(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(ROWS)) as u32 + 1
    }
}

fn written(id: u32, value: bool) -> Vec<u8> {
    format!("{{\"id\":{id},\"value\":{value}}}").into_bytes()
}

fn number(body: &[u8]) -> Option<u32> {
    let rest = &body[memmem::find(body, b"\"id\":")? + 5..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

fn expect(right: bool, call: &str, answer: &Answer) -> Result<()> {
    if right {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]);
    Err(format!("{call}: a wrong answer: {} {shown}", answer.status).into())
}
