//! New connections to a server: DNS, TCP or a Unix socket, TLS.

pub(crate) mod acquire;
pub(crate) mod address_race;
pub(crate) mod connections;
pub(crate) mod counters;
pub(crate) mod dial;
#[cfg(feature = "http2")]
pub(crate) mod h2_connection;
#[cfg(not(feature = "http2"))]
#[path = "connect/h2_absent.rs"]
pub(crate) mod h2_connection;
pub(crate) mod host_name;
pub(crate) mod io;
pub(crate) mod location;
pub(crate) mod origin;
pub(crate) mod pool;
pub(crate) mod resolve;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::net::connect_error::ConnectFault;
use crate::net::protocol::Offer;
use crate::net::tls::Tls;
use crate::runtime::deadline_timer::within;
use crate::runtime::socket::Socket;
use crate::telemetry::request_record::Opening;
use dial::{LATE, connect, connect_unix};
use host_name::HostName;
use io::Io;
use location::place_of;
use resolve::Resolver;

/// Opens connections to one server.
pub(crate) struct Connector {
    host: Host,
    tls: Option<Tls>,
    /// Host and port, or the Unix socket, for operators.
    written: Box<str>,
    /// Whether the latest attempt has failed.
    failing: AtomicBool,
    /// Failed attempts, and those that failed because of TLS.
    failed: AtomicU64,
    distrusted: AtomicU64,
    opened: OpeningCosts,
    burst: Burst,
}

/// The cost of opening connections: how many had which phase, and for how long all together.
#[derive(Default)]
struct OpeningCosts([PhaseCounters; 3]);

#[derive(Default)]
struct PhaseCounters {
    number: AtomicU64,
    nanoseconds: AtomicU64,
}

/// A phase of opening connections to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTotal {
    /// `dns`, `connect` or `tls`.
    pub phase: &'static str,
    /// Connections that had it.
    pub number: u64,
    pub time: Duration,
}

const PHASES: [&str; 3] = ["dns", "connect", "tls"];

impl OpeningCosts {
    /// Counts a connection that is open. Only a name is looked up, and only TLS has a handshake.
    fn count(&self, opening: Opening, named: bool, secured: bool) {
        let Opening { dns, connect, tls } = opening;
        let took = [named.then_some(dns), Some(connect), secured.then_some(tls)];
        for (counters, took) in self.0.iter().zip(took) {
            let Some(took) = took else { continue };
            counters.number.fetch_add(1, Ordering::Relaxed);
            counters.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

enum Host {
    /// An address: nothing to look up.
    Address(SocketAddr),
    Name(Arc<HostName>),
    /// A Unix socket.
    Socket(Arc<Path>),
}

impl Connector {
    /// `host` as in a URL: a name or an address, in brackets if it is IPv6.
    pub(super) fn new(host: &str, port: u16, tls: Option<Tls>, resolver: Option<&Resolver>) -> Self {
        let written = format!("{host}:{port}").into();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match bare.parse::<IpAddr>() {
            Ok(address) => Host::Address(SocketAddr::new(address, port)),
            Err(_) => Host::Name(Arc::new(HostName::new(bare, port, resolver.cloned()))),
        };
        Connector::to(host, written, tls)
    }

    /// To a Unix socket.
    pub(super) fn unix(path: &Arc<Path>, tls: Option<Tls>) -> Self {
        Connector::to(Host::Socket(path.clone()), place_of(path), tls)
    }

    fn to(host: Host, written: Box<str>, tls: Option<Tls>) -> Self {
        let (failed, distrusted) = (AtomicU64::new(0), AtomicU64::new(0));
        let (failing, opened, burst) = (AtomicBool::new(false), OpeningCosts::default(), Burst::new());
        Connector { host, tls, written, failing, failed, distrusted, opened, burst }
    }

    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The host name that is looked up; `None` if there is nothing to look up.
    pub(super) fn name(&self) -> Option<&Arc<HostName>> {
        match &self.host {
            Host::Address(_) | Host::Socket(_) => None,
            Host::Name(name) => Some(name),
        }
    }

    /// When the next connection may begin; `None` means now. A Unix socket reports a full queue itself.
    pub(super) fn turn(&self) -> Option<Instant> {
        match &self.host {
            Host::Address(_) | Host::Name(_) => self.burst.turn(),
            Host::Socket(_) => None,
        }
    }

    /// Failed attempts, and those that failed because of TLS.
    pub(super) fn failures(&self) -> (u64, u64) {
        (self.failed.load(Ordering::Relaxed), self.distrusted.load(Ordering::Relaxed))
    }

    /// The time that opening connections took so far; only the phases that there were.
    pub(super) fn phases(&self) -> Vec<PhaseTotal> {
        let phases = PHASES.iter().zip(&self.opened.0).map(|(phase, counters)| PhaseTotal {
            phase,
            number: counters.number.load(Ordering::Relaxed),
            time: Duration::from_nanos(counters.nanoseconds.load(Ordering::Relaxed)),
        });
        phases.filter(|total| total.number > 0).collect()
    }

    /// Connects, all addresses of a name and the handshake together within `limit`.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout`, or `Busy` when this machine has no socket left.
    pub(super) async fn connect(&self, limit: Timeout, offer: Offer) -> Result<(Io, Opening), Error> {
        let connected = match limit {
            Timeout::Never => self.reach(offer, limit).await,
            Timeout::After(time) => {
                let late = || match self.name().filter(|name| name.why_unknown().is_some()) {
                    // The name server is the reason, not the server.
                    Some(name) => name.late(time),
                    None => ConnectFault::new(Kind::Timeout, LATE, format!("no connection within {time:?}")),
                };
                within(time, self.reach(offer, limit)).await.unwrap_or_else(|| Err(late()))
            }
        };
        match connected {
            Ok(opened) => {
                self.good();
                self.opened.count(opened.1, self.name().is_some(), self.has_tls());
                Ok(opened)
            }
            Err(fault) => Err(self.bad(fault)),
        }
    }

    async fn reach(&self, offer: Offer, limit: Timeout) -> Result<(Io, Opening), ConnectFault> {
        let (since, mut opening) = (Instant::now(), Opening::default());
        let stream: Socket = match &self.host {
            Host::Address(address) => connect(*address).await?.into(),
            Host::Name(name) => {
                // A name that is not looked up in time is the reason, not the server.
                let addresses = name.addresses(limit).await?;
                opening.dns = since.elapsed();
                name.connect(addresses).await?.into()
            }
            Host::Socket(path) => connect_unix(path).await?.into(),
        };
        let connected = Instant::now();
        opening.connect = (connected - since).saturating_sub(opening.dns);
        let Some(tls) = &self.tls else { return Ok((Io::Clear(stream), opening)) };
        let shaken = tls.connect(stream, offer).await;
        if shaken.is_err() {
            self.distrusted.fetch_add(1, Ordering::Relaxed);
        }
        opening.tls = connected.elapsed();
        shaken.map(|stream| (Io::Tls(stream), opening))
    }

    fn good(&self) {
        // Read first: it is almost always false, and the line stays in every core's cache.
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(target: "crocodile_pear::upstream", server = %self.written, "connected again");
        }
    }

    fn bad(&self, fault: ConnectFault) -> Error {
        let (error, why) = fault.into_parts();
        self.failed.fetch_add(1, Ordering::Relaxed);
        // One warning per outage: a dead server fails every call.
        match self.failing.swap(true, Ordering::Relaxed) {
            false => {
                tracing::warn!(target: "crocodile_pear::upstream", server = %self.written, why, "cannot connect: {error}");
            }
            true => {
                tracing::debug!(target: "crocodile_pear::upstream", server = %self.written, why, "cannot connect: {error}");
            }
        }
        error
    }
}

/// So many connections may begin at once.
const AT_ONCE: u32 = 96;

/// The time between those that follow.
const APART: Duration = Duration::from_micros(40);

/// How fast new connections to one server may begin: the time at which the next one would if all were that far apart.
///
/// A server takes new connections from a queue. Most queues have 128 or 511 places. An attempt that finds the queue full is
/// dropped, and the kernel repeats it only after a second. So the first connections for a long list begin at once, and the
/// others follow at short intervals, in which the server can take some from its queue.
pub(crate) struct Burst {
    base: Instant,
    /// In nanoseconds since the base.
    next: AtomicU64,
}

impl Burst {
    pub(crate) fn new() -> Self {
        Burst { base: Instant::now(), next: AtomicU64::new(0) }
    }

    /// Reserves the next connection. Returns when it may begin; `None` means now.
    pub(crate) fn turn(&self) -> Option<Instant> {
        let (now, apart) = (nanoseconds(self.base.elapsed()), nanoseconds(APART));
        let after = |next: u64| Some(next.max(now) + apart);
        let next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or(0);
        let due = next.max(now).saturating_sub(nanoseconds(APART * (AT_ONCE - 1)));
        (due > now).then(|| self.base + Duration::from_nanos(due))
    }
}

/// Enough for 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_go_at_once_and_the_others_one_by_one() {
        let burst = Burst::new();
        advance(Duration::from_secs(3)).await;
        assert!((0..AT_ONCE).all(|_| burst.turn().is_none()));
        let begun = Instant::now();
        for number in 1..=1_000 {
            assert_eq!(burst.turn(), Some(begun + APART * number));
        }
        // After a pause, the connections begin at once again.
        advance(APART * (1_000 + AT_ONCE)).await;
        assert!((0..AT_ONCE).all(|_| burst.turn().is_none()) && burst.turn().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_now_and_then_never_wait() {
        let burst = Burst::new();
        for _ in 0..10_000 {
            advance(APART).await;
            assert_eq!(burst.turn(), None);
        }
    }
}
