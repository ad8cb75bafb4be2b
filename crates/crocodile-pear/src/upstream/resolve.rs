//! DNS: a thread of its own looks names up, and again before an answer expires, so that calls do not wait.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, Record};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::dial::connect;
use super::fault::ConnectFault;
use crate::error::Kind;
use crate::problem::Problems;
use crate::spec::{Decode, Definitions, Json, Node};

/// Names that may wait for the thread, which accepts each at once.
const QUEUE: usize = 64;
/// The shortest time between two lookups, whatever the TTL.
const SOONEST: Duration = Duration::from_secs(1);
/// The longest.
const LATEST: Duration = Duration::from_secs(3600);
/// The time to the next lookup after a failed one. The last known addresses are used meanwhile.
const AGAIN: Duration = Duration::from_secs(2);
/// How long a configured name server may take before it is asked again, or the next one.
const WITHIN: Duration = Duration::from_secs(1);
/// How long one address is tried before the next is tried too (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// The port of name servers (RFC 1035, 4.2).
const PORT: u16 = 53;

/// Name servers: one, or a list.
#[derive(Clone, Debug)]
pub struct ResolverSpec(Vec<SocketAddr>);

impl Decode for ResolverSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let several = node.as_list().unwrap_or(std::slice::from_ref(node));
        if several.is_empty() {
            return node.wrong(WANTED, "leave it out to use the name servers of the system", problems);
        }
        // All are read before a failure ends it, so that every problem is reported.
        let read: Vec<_> = several.iter().map(|server| server_address(server, problems)).collect();
        read.into_iter().collect::<Option<_>>().map(ResolverSpec)
    }

    fn schema(_: &mut Definitions) -> Json {
        json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}

const WANTED: &str = "the address of a name server, or a list of them";

fn server_address(node: &Node, problems: &mut Problems) -> Option<SocketAddr> {
    let text = node.expect_text(WANTED, problems)?.value;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
    match text.parse().ok().or_else(|| Some(SocketAddr::new(bare.parse().ok()?, PORT))) {
        Some(address) if address.port() == 0 => {
            problems.error(node.span, "port 0 cannot be used", "leave the port out: the default is 53")
        }
        Some(address) => Some(address),
        None => node.wrong(WANTED, "write `127.0.0.1:53` or `[::1]:53`", problems),
    }
}

impl ResolverSpec {
    /// A resolver that asks these name servers.
    pub fn ready(&self) -> Resolver {
        Resolver::at(self.0.clone())
    }
}

/// A DNS resolver with a thread of its own.
#[derive(Clone)]
pub struct Resolver(Arc<Asker>);

struct Asker {
    /// The name servers; those of the system, if the list is empty.
    servers: Vec<SocketAddr>,
    /// To the thread, which starts with the first name.
    names: OnceLock<mpsc::Sender<Order>>,
}

/// A name to follow.
enum Order {
    Addresses(Following<IpAddr>),
    Service(Following<Target>),
}

/// Where the answers of a name go.
struct Following<T> {
    name: Box<str>,
    known: watch::Sender<Known<T>>,
    news: Arc<News>,
}

/// A server of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) priority: u16,
    pub(super) host: Box<str>,
    pub(super) port: u16,
    pub(super) weight: u16,
}

/// Counters of a name.
#[derive(Default)]
pub(super) struct News {
    /// How often its addresses have changed.
    changes: AtomicU32,
    /// Failed DNS lookups.
    failures: AtomicU64,
}

impl News {
    /// How often what is known of the name has changed.
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Failed DNS lookups.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// What is known of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Known<T> {
    #[default]
    NotYet,
    /// No lookup has succeeded so far.
    Nothing,
    These(Arc<[T]>),
}

/// A name that is looked up again and again, for as long as this or a clone of it lives.
#[derive(Clone)]
pub(super) struct Lookup<T>(watch::Receiver<Known<T>>);

impl<T> Lookup<T> {
    /// What is known now.
    pub(super) fn now(&self) -> Option<Arc<[T]>> {
        match &*self.0.borrow() {
            Known::These(known) => Some(known.clone()),
            Known::NotYet | Known::Nothing => None,
        }
    }

    /// What is known after the first lookup.
    pub(super) async fn known(&self) -> Option<Arc<[T]>> {
        // An error means that the thread has ended.
        let _ = self.0.clone().wait_for(|known| !matches!(known, Known::NotYet)).await;
        self.now()
    }

    /// Waits for something else to be known.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The thread has ended: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Resolver {
    /// As the system is configured.
    fn default() -> Self {
        static SYSTEM: LazyLock<Resolver> = LazyLock::new(|| Resolver::at(Vec::new()));
        SYSTEM.clone()
    }
}

impl Resolver {
    /// One that asks these name servers; those of the system, if the list is empty.
    pub fn at(servers: Vec<SocketAddr>) -> Self {
        Resolver(Arc::new(Asker { servers, names: OnceLock::new() }))
    }

    /// Looks the addresses of a name up.
    fn follow(&self, name: &str, news: &Arc<News>) -> Lookup<IpAddr> {
        self.order(name, news, Order::Addresses)
    }

    /// Looks the servers of a service up.
    pub(super) fn follow_service(&self, name: &str, news: &Arc<News>) -> Lookup<Target> {
        self.order(name, news, Order::Service)
    }

    fn order<T>(&self, name: &str, news: &Arc<News>, order: impl FnOnce(Following<T>) -> Order) -> Lookup<T> {
        let (known, receiver) = watch::channel(Known::NotYet);
        let names = self.0.names.get_or_init(|| start(self.0.servers.clone()));
        let following = Following { name: name.into(), known: known.clone(), news: news.clone() };
        if names.try_send(order(following)).is_err() {
            known.send_replace(Known::Nothing);
        }
        Lookup(receiver)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

fn start(servers: Vec<SocketAddr>) -> mpsc::Sender<Order> {
    let (names, orders) = mpsc::channel(QUEUE);
    let started = thread::Builder::new().name("resolver".into()).spawn(move || run(&servers, orders));
    if let Err(error) = started {
        tracing::error!(%error, "cannot start the DNS resolver thread; no name can be resolved");
    }
    names
}

fn run(servers: &[SocketAddr], mut orders: mpsc::Receiver<Order>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "cannot start the DNS resolver; no name can be resolved"),
    };
    runtime.block_on(async {
        let resolver = match resolver(servers) {
            Ok(resolver) => Arc::new(resolver),
            Err(error) => return tracing::error!(%error, "cannot start the DNS resolver; no name can be resolved"),
        };
        while let Some(order) = orders.recv().await {
            let resolver = resolver.clone();
            match order {
                Order::Addresses(order) => {
                    tokio::spawn(follow(order, async move |name| addresses(&resolver, name).await));
                }
                Order::Service(order) => {
                    tokio::spawn(follow(order, async move |name| targets(&resolver, name).await));
                }
            }
        }
    });
}

fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let mut builder = match servers {
        [] => TokioResolver::builder_tokio()?,
        servers => {
            let config = ResolverConfig::from_parts(None, vec![], servers.iter().map(name_server).collect());
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            *builder.options_mut() = ResolverOpts::default();
            // Calls wait for the first answer: there must be time for a second attempt.
            builder.options_mut().timeout = WITHIN;
            builder
        }
    };
    let options = builder.options_mut();
    // The answers are kept here, with their expiry.
    options.cache_size = 0;
    options.ip_strategy = hickory_resolver::config::LookupIpStrategy::Ipv4AndIpv6;
    builder.build()
}

/// Over UDP; over TCP if the answer is too long (RFC 7766).
fn name_server(server: &SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|connection| connection.port = server.port());
    NameServerConfig::new(server.ip(), true, connections)
}

/// The result of a lookup, and until when it is valid.
type Answer<T> = Result<(Arc<[T]>, std::time::Instant), hickory_resolver::net::NetError>;

async fn addresses(resolver: &TokioResolver, name: &str) -> Answer<IpAddr> {
    let found = resolver.lookup_ip(name).await?;
    Ok((alternate(found.iter()), found.valid_until()))
}

async fn targets(resolver: &TokioResolver, name: &str) -> Answer<Target> {
    let found = resolver.srv_lookup(name).await?;
    let target = |record: &Record| match &record.data {
        RData::SRV(srv) => Some(Target {
            priority: srv.priority,
            host: srv.target.to_ascii().trim_end_matches('.').into(),
            port: srv.port,
            weight: srv.weight,
        }),
        _ => None,
    };
    let targets = found.answers().iter().filter_map(target);
    // A service whose only target is the root is not offered here (RFC 2782).
    let mut targets: Vec<Target> = targets.filter(|target| !target.host.is_empty()).collect();
    // By priority; else sorted so that the order of the answer does not matter.
    targets.sort_unstable();
    targets.dedup_by(|one, other| (&one.host, one.port) == (&other.host, other.port));
    Ok((targets.into(), found.valid_until()))
}

/// Looks a name up again and again.
async fn follow<T: Clone + fmt::Debug + PartialEq>(order: Following<T>, look: impl AsyncFn(&str) -> Answer<T>) {
    let mut failing = false;
    loop {
        let next = match look(&order.name).await {
            Ok((found, until)) => {
                order.found(found);
                if std::mem::take(&mut failing) {
                    tracing::info!(target: TARGET, name = %order.name, "DNS lookup succeeds again");
                }
                let left = until.saturating_duration_since(std::time::Instant::now());
                // Before it expires, so that no call waits for a lookup.
                (left * 9 / 10).clamp(SOONEST, LATEST)
            }
            Err(error) => {
                // One warning per outage.
                if !std::mem::replace(&mut failing, true) {
                    let known = matches!(*order.known.borrow(), Known::These(_));
                    let then = if known { "using the last known addresses" } else { "no address is known" };
                    tracing::warn!(target: TARGET, name = %order.name, %error, "DNS lookup failed; {then}");
                }
                order.failed();
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            () = order.known.closed() => return,
        }
    }
}

const TARGET: &str = "crocodile_pear::upstream";

impl<T: Clone + fmt::Debug + PartialEq> Following<T> {
    fn found(&self, these: Arc<[T]>) {
        let found = Known::These(these.clone());
        let before = self.known.borrow().clone();
        if before == found {
            return;
        }
        let changed = matches!(before, Known::These(_));
        self.known.send_modify(|known| {
            *known = found;
            // Under the same lock as the answer, so that a reader that sees the answer also sees the count.
            self.news.changes.fetch_add(u32::from(changed), Ordering::Release);
        });
        if changed {
            tracing::info!(target: TARGET, name = %self.name, addresses = ?these, "DNS: the addresses have changed");
        }
    }

    /// The last known addresses stay in use.
    fn failed(&self) {
        self.news.failures.fetch_add(1, Ordering::Relaxed);
        self.known.send_if_modified(|known| {
            let first = *known == Known::NotYet;
            if first {
                *known = Known::Nothing;
            }
            first
        });
    }
}

/// IPv6 and IPv4 alternating (RFC 8305, 4), each once, sorted so that the order of the answer does not matter.
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
    /// The system's unless set.
    resolver: Option<Resolver>,
    /// Looked up from the first call on.
    known: OnceLock<Lookup<IpAddr>>,
    news: Arc<News>,
    turn: AtomicUsize,
}

impl Name {
    pub(super) fn new(name: &str, port: u16, resolver: Option<Resolver>) -> Self {
        let (known, news, turn) = (OnceLock::new(), Arc::default(), AtomicUsize::new(0));
        Name { name: name.into(), port, resolver, known, news, turn }
    }

    /// How often its addresses have changed.
    pub(super) fn changes(&self) -> u32 {
        self.news.changes()
    }

    /// Failed DNS lookups.
    pub(super) fn failures(&self) -> u64 {
        self.news.failures()
    }

    /// Whether this is one of its addresses.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.known.get().and_then(Lookup::now).is_none_or(|addresses| addresses.contains(&address))
    }

    /// The addresses, once some are known.
    ///
    /// # Errors
    /// `Unreachable` if there are none.
    pub(super) async fn addresses(&self) -> Result<Arc<[IpAddr]>, ConnectFault> {
        let follow = || self.resolver.clone().unwrap_or_default().follow(&self.name, &self.news);
        self.known.get_or_init(follow).known().await.ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> ConnectFault {
        ConnectFault::new(Kind::Unreachable, "no address", format!("no address is known for {}", self.name))
    }

    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// Those of the last address that failed, or `Unreachable` if there is none.
    pub(super) async fn connect(&self, addresses: Arc<[IpAddr]>) -> Result<TcpStream, ConnectFault> {
        // Each connection begins with the next address, so that the load is spread.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let order = (0..addresses.len()).map(|at| addresses[(at + turn) % addresses.len()]);
        race(order.map(|address| SocketAddr::new(address, self.port))).await.unwrap_or_else(|| Err(self.unknown()))
    }
}

/// Tries address after address, the next one when one fails or takes too long (RFC 8305, 5); `None` without addresses.
async fn race(mut addresses: impl Iterator<Item = SocketAddr>) -> Option<Result<TcpStream, ConnectFault>> {
    let mut running = FuturesUnordered::new();
    running.push(connect(addresses.next()?));
    let mut next = Instant::now() + HEAD_START;
    let mut waiting = addresses.next();
    loop {
        let outcome = match waiting {
            None => running.next().await?,
            Some(address) => match tokio::time::timeout_at(next, running.next()).await {
                Ok(Some(outcome)) => outcome,
                Ok(None) | Err(_) => {
                    running.push(connect(address));
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
