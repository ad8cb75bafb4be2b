//! Metrics. Each core has its own counters; a scrape adds them up.

mod authentication;
pub mod cache;
mod configuration;
pub mod consumers;
mod cores;
pub mod databases;
mod detached;
mod events;
pub mod exposition;
mod limits;
mod operators;
mod orders;
mod process;
pub mod requests;
mod slot;
mod tls;
mod upstream;

pub use self::slot::begin_core;
pub use authentication::{Authenticated, AuthenticationCounters};
pub use cache::SharedCounters;
pub use events::EventCounters;
use exposition::{Exposition, label};
pub use limits::LimitCounters;
pub use orders::OrderCounters;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use crocodile_pear::unstable::upstream::ReadyUpstream;
use http::StatusCode;
use indexmap::IndexMap;

use self::authentication::AuthenticationRegistry;
use self::configuration::Configurations;
use self::cores::CoreCounters;
use self::events::EventRegistry;
use self::limits::LimitRegistry;
use self::operators::Operators;
use self::orders::OrderRegistry;
pub use self::requests::CutOff;
use self::requests::{RouteCounters, RouteRegistry};
use self::slot::{CORE, CORES};
use crate::net::address::Address;
use crate::server::{Ending, ListenerSettings, Unfinished};

/// Responses by status class; each core has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Classes([AtomicU64; 6]);

/// Why a request was refused before its pipeline ran.
#[derive(Clone, Copy, Debug)]
pub enum RefusedBy {
    /// Its client's address is not allowed.
    Addresses,
    /// Its body is too large.
    MaxBody,
    /// A preflight asked for what its page may not do.
    Cors,
    /// The client's rate limit is reached.
    RateLimit,
    /// Too many of its consumer are in flight.
    InFlight,
    /// The request does not match the schema.
    Validate,
    /// A `PURGE` came from an address that may not purge.
    Purge,
    /// Its quota is used up.
    Quota,
}

/// The layers as labels, in the order of [`RefusedBy`].
const REFUSED_BY: [&str; 8] =
    ["addresses", "max_body", "cors", "rate_limit", "in_flight", "validate", "purge", "quota"];

/// The gateway's own counters.
pub struct Metrics {
    responses: Vec<Classes>,
    /// Broken off; the client left; the client was too slow. Few, so all cores share them.
    unfinished: [AtomicU64; 3],
    /// The listeners with TLS, by their addresses.
    listeners: OnceLock<Vec<(Address, Arc<ListenerSettings>)>>,
    /// By reason; each core has a cache line of its own.
    refused: Vec<Refusals>,
    connections_refused: AtomicU64,
    connections_closed_for_room: AtomicU64,
    /// Requests by group and version; those that count have their counter.
    versions: Mutex<IndexMap<(String, String), Arc<AtomicU64>>>,
    /// Whether the store answers, and how often it did not.
    store: [AtomicU64; 2],
    events: EventRegistry,
    orders: OrderRegistry,
    authentications: AuthenticationRegistry,
    routes: RouteRegistry,
    /// Requests in flight when the first core cut them off, and answers that had begun before.
    cut_off: OnceLock<CutOff>,
    limits: LimitRegistry,
    /// Held by what measures them, too.
    cores: Arc<CoreCounters>,
    configurations: Configurations,
    operators: Operators,
}

/// Refused requests by reason; each core has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Refusals([AtomicU64; REFUSED_BY.len()]);

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            responses: (0..CORES).map(|_| Classes::default()).collect(),
            unfinished: Default::default(),
            listeners: OnceLock::new(),
            refused: (0..CORES).map(|_| Refusals::default()).collect(),
            connections_refused: AtomicU64::new(0),
            connections_closed_for_room: AtomicU64::new(0),
            versions: Mutex::default(),
            store: Default::default(),
            events: EventRegistry::default(),
            orders: OrderRegistry::default(),
            authentications: AuthenticationRegistry::default(),
            routes: RouteRegistry::default(),
            cut_off: OnceLock::new(),
            limits: LimitRegistry::default(),
            cores: Arc::default(),
            configurations: Configurations::default(),
            operators: Operators::default(),
        }
    }
}

impl Metrics {
    /// Counts a response whose head is ready, for the core that this thread is.
    pub fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[CORE.get()].0[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer that did not end well.
    pub fn count_end(&self, how: &Ending) {
        if let Some(reason) = how.unfinished() {
            self.unfinished[reason as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request that a layer refused, for the core that this thread is.
    pub fn count_refused(&self, by: RefusedBy) {
        self.refused[CORE.get()].0[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was refused because its client's address has too many.
    pub fn count_refused_connection(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts idle connections that were closed because descriptors are scarce.
    pub fn count_closed_for_room(&self, count: usize) {
        self.connections_closed_for_room.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Says where clients connect, once.
    pub fn set_listeners(&self, listeners: Vec<(Address, Arc<ListenerSettings>)>) {
        // A process listens once.
        let _ = self.listeners.set(listeners);
    }

    /// The connections of the operators' listener.
    pub fn operators(&self) -> &Operators {
        &self.operators
    }

    /// Where clients connect.
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.get().into_iter().flatten().map(|(address, _)| address.to_string()).collect()
    }

    /// The certificates of the listeners that have TLS: the listener, the name, when it expires.
    pub fn certificates(&self) -> Vec<(String, String, SystemTime)> {
        let secured = self.listeners.get().into_iter().flatten();
        let secured = secured.filter_map(|(address, entry)| Some((address.to_string(), entry.tls.as_ref()?)));
        let identities = secured.flat_map(|(address, tls)| {
            let all = tls.identities().into_iter();
            all.map(move |identity| (address.clone(), identity.label().to_owned(), identity.expiry))
        });
        identities.collect()
    }

    /// Requests that layers refused, by the layer.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSED_BY.iter().enumerate().map(|(at, by)| {
            let sum = self.refused.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum();
            (*by, sum)
        })
    }

    /// The counter of requests for a version of a group. A reload continues it.
    pub fn version(&self, group: &str, version: &str) -> Arc<AtomicU64> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.entry((group.to_owned(), version.to_owned())).or_default().clone()
    }

    /// Says whether the store answers.
    pub fn set_store_up(&self, up: bool) {
        self.store[0].store(up.into(), Ordering::Relaxed);
    }

    /// Counts a request that had to do without the store.
    pub fn count_store_failure(&self) {
        self.store[1].fetch_add(1, Ordering::Relaxed);
    }

    /// The counters of the credentials of a method. A reload continues them.
    pub fn authentications(&self, method: &'static str) -> Arc<AuthenticationCounters> {
        self.authentications.of(method)
    }

    /// The counters of the messages of a source of events. A reload continues them.
    pub fn events(&self, source: &str, channel: &str) -> Arc<EventCounters> {
        self.events.of(source, channel)
    }

    /// The counters of the orders of the certificate for this name. A reload continues them.
    pub fn orders(&self, name: &str) -> Arc<OrderCounters> {
        self.orders.of(name)
    }

    /// The counters of a limit of a layer for the requests of a route; `None` for those that no endpoint serves. A reload continues them.
    pub fn limit(&self, layer: &'static str, name: &str, route: Option<&str>) -> Arc<LimitCounters> {
        self.limits.of(layer, name, route)
    }

    /// The counters of the requests for a route; `None` for requests that no endpoint serves. A reload continues them.
    pub fn route(&self, name: Option<&str>) -> Arc<RouteCounters> {
        self.routes.of(name)
    }

    pub fn routes(&self) -> Vec<(Arc<str>, Arc<RouteCounters>)> {
        self.routes.all()
    }

    /// Requests that are in flight now are cut off.
    pub fn begin_cutting_off(&self) {
        self.cut_off.get_or_init(|| self.routes.in_flight());
    }

    /// The number of requests that were cut off, once the cores have ended: those without an answer, and answers and streams.
    pub fn cut_off(&self) -> CutOff {
        let Some(before) = self.cut_off.get() else { return CutOff::default() };
        let answers = self.routes.in_flight().answers.saturating_sub(before.answers);
        CutOff { requests: before.requests.saturating_sub(answers), answers }
    }

    /// Counts a connection of a client that is open from now on.
    pub fn count_opened(&self) {
        self.cores.count_opened();
    }

    /// Counts one that has ended.
    pub fn count_closed(&self) {
        self.cores.count_closed();
    }

    /// Measures how late the runtime of this core is, for as long as somebody counts.
    pub fn watch_core(&self, index: usize) -> impl Future<Output = ()> + Send + 'static + use<> {
        cores::watch(&self.cores, index)
    }

    /// Counts a configuration that was read again and is in use from now on.
    pub fn count_reload(&self, took: Duration) {
        self.configurations.count(took);
    }

    /// Counts one that was read again and refused.
    pub fn count_refused_reload(&self, took: Duration) {
        self.configurations.count_refused(took);
    }

    /// Writes all that is counted here, and of these upstreams.
    pub fn render(&self, upstreams: &IndexMap<String, Arc<ReadyUpstream>>, out: &mut Exposition) {
        self.routes.render(out);
        self.render_responses(out);
        self.render_refused(out);
        self.limits.render(out);
        detached::render(out);
        self.cores.render(out);
        self.render_store(out);
        self.render_tls(out);
        self.render_versions(out);
        self.events.render(out);
        self.authentications.render(out);
        self.orders.render(out);
        upstream::render(upstreams, out);
        self.configurations.render(out);
        self.operators.render(out);
        process::render(out);
    }

    fn render_responses(&self, out: &mut Exposition) {
        let help = "Responses to clients, by status class.";
        let mut family = out.counter("crocodile_pear_responses_total", help);
        for class in 1..6 {
            let sum: u64 = self.responses.iter().map(|core| core.0[class].load(Ordering::Relaxed)).sum();
            family.add(format_args!("status=\"{class}xx\""), sum);
        }
        let help = "Responses that failed or were cut off, by reason.";
        let mut family = out.counter("crocodile_pear_responses_unfinished_total", help);
        for (reason, count) in Unfinished::ALL.map(Unfinished::name).iter().zip(&self.unfinished) {
            family.add(format_args!("reason=\"{reason}\""), count.load(Ordering::Relaxed));
        }
    }

    fn render_versions(&self, out: &mut Exposition) {
        let help = "Requests for a version of a group's endpoints.";
        let mut family = out.counter("crocodile_pear_version_requests_total", help);
        for ((group, version), count) in self.versions.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (group, version, count) = (label(group), label(version), count.load(Ordering::Relaxed));
            family.add(format_args!("group=\"{group}\",version=\"{version}\""), count);
        }
    }

    fn render_refused(&self, out: &mut Exposition) {
        let help = "Requests rejected by a layer, by layer.";
        let mut family = out.counter("crocodile_pear_requests_refused_total", help);
        for (at, by) in REFUSED_BY.iter().enumerate() {
            let sum: u64 = self.refused.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum();
            family.add(format_args!("by=\"{by}\""), sum);
        }
        let help = "Connections refused because of `connections_per_address`.";
        let refused = self.connections_refused.load(Ordering::Relaxed);
        out.counter("crocodile_pear_connections_refused_total", help).only(refused);
        let help = "Idle connections of clients that were closed because file descriptors ran out.";
        let closed = self.connections_closed_for_room.load(Ordering::Relaxed);
        out.counter("crocodile_pear_connections_closed_for_room_total", help).only(closed);
    }

    fn render_store(&self, out: &mut Exposition) {
        let [up, failures] = [0, 1].map(|at| self.store[at].load(Ordering::Relaxed));
        out.gauge("crocodile_pear_store_up", "1 if the store answers, 0 if it does not or there is none.").only(up);
        let help = "Requests whose rate limit was applied without the store.";
        out.counter("crocodile_pear_store_failures_total", help).only(failures);
    }
}
