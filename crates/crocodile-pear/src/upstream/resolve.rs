//! Names to addresses, off the way of every call: a thread of its own asks, and asks again before an answer expires.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::connect::dial;
use crate::error::{Error, Kind};

/// Names that may be waiting to be taken up; each is taken up at once.
const QUEUE: usize = 64;
/// An answer is not asked for more often than this, whatever it says of itself.
const SOONEST: Duration = Duration::from_secs(1);
/// Nor is it believed for longer.
const LATEST: Duration = Duration::from_secs(3600);
/// After a failure; the last good answer stands meanwhile.
const AGAIN: Duration = Duration::from_secs(2);
/// How long an address may be tried alone (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Who is asked for the addresses of names.
#[derive(Clone)]
pub struct Resolver {
    names: mpsc::Sender<Order>,
}

/// A name to follow.
struct Order {
    name: Box<str>,
    known: watch::Sender<Known>,
}

/// What is known of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    NotYet,
    /// Nothing was ever found.
    Nothing,
    Addresses(Arc<[IpAddr]>),
}

impl Default for Resolver {
    /// As the system is configured.
    fn default() -> Self {
        static SYSTEM: LazyLock<Resolver> = LazyLock::new(|| Resolver::start(None));
        SYSTEM.clone()
    }
}

impl Resolver {
    /// One that asks the server at this address.
    pub fn at(server: SocketAddr) -> Self {
        Self::start(Some(server))
    }

    fn start(server: Option<SocketAddr>) -> Self {
        let (names, orders) = mpsc::channel(QUEUE);
        let started = thread::Builder::new().name("resolver".into()).spawn(move || run(server, orders));
        if let Err(error) = started {
            tracing::error!(%error, "no thread for names: they cannot be resolved");
        }
        Resolver { names }
    }

    /// Begins to follow a name, until nobody wants to know it any more.
    fn follow(&self, name: &str) -> watch::Receiver<Known> {
        let (known, receiver) = watch::channel(Known::NotYet);
        if let Err(refused) = self.names.try_send(Order { name: name.into(), known }) {
            let order = match refused {
                mpsc::error::TrySendError::Full(order) | mpsc::error::TrySendError::Closed(order) => order,
            };
            order.known.send_replace(Known::Nothing);
        }
        receiver
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

fn run(server: Option<SocketAddr>, mut orders: mpsc::Receiver<Order>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "names cannot be resolved"),
    };
    runtime.block_on(async {
        let resolver = match resolver(server) {
            Ok(resolver) => Arc::new(resolver),
            Err(error) => return tracing::error!(%error, "names cannot be resolved"),
        };
        while let Some(order) = orders.recv().await {
            tokio::spawn(follow(resolver.clone(), order));
        }
    });
}

fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let mut builder = match server {
        None => TokioResolver::builder_tokio()?,
        Some(server) => {
            let mut udp = ConnectionConfig::udp();
            udp.port = server.port();
            let servers = vec![NameServerConfig::new(server.ip(), true, vec![udp])];
            let config = ResolverConfig::from_parts(None, vec![], servers);
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            *builder.options_mut() = ResolverOpts::default();
            builder
        }
    };
    let options = builder.options_mut();
    // What is known is kept here, with its time.
    options.cache_size = 0;
    options.ip_strategy = hickory_resolver::config::LookupIpStrategy::Ipv4AndIpv6;
    builder.build()
}

/// Asks for a name again and again.
async fn follow(resolver: Arc<TokioResolver>, Order { name, known }: Order) {
    loop {
        let next = match resolver.lookup_ip(&*name).await {
            Ok(found) => {
                let left = found.valid_until().saturating_duration_since(std::time::Instant::now());
                let addresses: Arc<[IpAddr]> = alternate(found.iter());
                known.send_if_modified(|known| {
                    let found = Known::Addresses(addresses);
                    let changed = *known != found;
                    *known = found;
                    changed
                });
                // Before it expires, so that nobody ever waits for it.
                (left * 9 / 10).clamp(SOONEST, LATEST)
            }
            Err(error) => {
                tracing::debug!(target: "crocodile_pear::upstream", %error, %name, "a name was not resolved");
                known.send_if_modified(|known| {
                    let first = *known == Known::NotYet;
                    if first {
                        *known = Known::Nothing;
                    }
                    first
                });
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            () = known.closed() => return,
        }
    }
}

/// IPv6 and IPv4 in turn (RFC 8305, 4), each once and in an order that does not depend on the answer's.
fn alternate(found: impl Iterator<Item = IpAddr>) -> Arc<[IpAddr]> {
    let mut all: Vec<IpAddr> = found.collect();
    all.sort_unstable();
    all.dedup();
    let (four, six): (Vec<IpAddr>, Vec<IpAddr>) = all.into_iter().partition(IpAddr::is_ipv4);
    let most = four.len().max(six.len());
    (0..most).flat_map(|at| [six.get(at), four.get(at)]).flatten().copied().collect()
}

/// A name and its port.
pub(super) struct Name {
    name: Box<str>,
    port: u16,
    /// The system's unless set, begun when it is first needed.
    resolver: Option<Resolver>,
    /// Followed from the first call on.
    known: OnceLock<watch::Receiver<Known>>,
    turn: AtomicUsize,
}

impl Name {
    pub(super) fn new(name: &str, port: u16, resolver: Option<Resolver>) -> Self {
        Name { name: name.into(), port, resolver, known: OnceLock::new(), turn: AtomicUsize::new(0) }
    }

    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// Those of the last address that failed, or `Unreachable` if there is none.
    pub(super) async fn connect(&self) -> Result<TcpStream, Error> {
        let mut known = self.known.get_or_init(|| self.resolver.clone().unwrap_or_default().follow(&self.name)).clone();
        let none = || Error::new(Kind::Unreachable, "no address");
        let known = known.wait_for(|known| *known != Known::NotYet).await.map_err(|_| none())?.clone();
        let Known::Addresses(addresses) = known else { return Err(none()) };
        // One after another is first, so that the load is spread.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let order = (0..addresses.len()).map(|at| addresses[(at + turn) % addresses.len()]);
        race(order.map(|address| SocketAddr::new(address, self.port))).await.unwrap_or_else(|| Err(none()))
    }
}

/// Tries address after address, the next when one fails or keeps waiting too long (RFC 8305, 5); nothing if there is none.
async fn race(mut addresses: impl Iterator<Item = SocketAddr>) -> Option<Result<TcpStream, Error>> {
    let mut running = FuturesUnordered::new();
    running.push(dial(addresses.next()?));
    let mut next = Instant::now() + HEAD_START;
    let mut waiting = addresses.next();
    loop {
        let outcome = match waiting {
            None => running.next().await?,
            Some(address) => match tokio::time::timeout_at(next, running.next()).await {
                Ok(Some(outcome)) => outcome,
                Ok(None) | Err(_) => {
                    running.push(dial(address));
                    (next, waiting) = (Instant::now() + HEAD_START, addresses.next());
                    continue;
                }
            },
        };
        if outcome.is_ok() || (running.is_empty() && waiting.is_none()) {
            return Some(outcome);
        }
        next = Instant::now();
    }
}
