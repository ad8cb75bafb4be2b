//! Metrics in the Prometheus format. Each core has its own counters; a scrape adds them up.

pub mod access;
mod authentication;
pub mod cache;
mod events;
mod orders;
mod tls;
mod upstream;

pub use authentication::{Authenticated, AuthenticationCounters};
pub use events::EventCounters;
pub use orders::OrderCounters;

use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crocodile_pear::upstream::Upstream;
use http::StatusCode;
use indexmap::IndexMap;

use crate::address::Address;
use crate::server::{Ending, Entry};

/// Cores beyond this share a counter with another one.
const CORES: usize = 64;

thread_local! {
    /// Which core this thread is.
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Says which core this thread is.
pub fn begin_core(index: usize) {
    CORE.set(index % CORES);
}

/// Which core this thread is.
pub fn core() -> usize {
    CORE.get()
}

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
    /// It is a preflight for what its page may not do.
    Cors,
    /// It is one too many in its time.
    RateLimit,
    /// Too many of its consumer are in flight.
    InFlight,
    /// It is not what the schema says.
    Validate,
    /// It is a `PURGE` from elsewhere.
    Purge,
}

/// As labels, in the order of [`RefusedBy`].
const REFUSED_BY: [&str; 7] = ["addresses", "max_body", "cors", "rate_limit", "in_flight", "validate", "purge"];

/// The gateway's own counters.
pub struct Metrics {
    responses: Vec<Classes>,
    /// Broken off; the client left; the client was too slow. Few, so all cores share them.
    unfinished: [AtomicU64; 3],
    /// The listeners with TLS, by their addresses.
    listeners: OnceLock<Vec<(Address, Arc<Entry>)>>,
    /// By reason; each core has a cache line of its own.
    refused: Vec<Refusals>,
    connections_refused: AtomicU64,
    /// Requests by group and version; those that count have their counter.
    versions: Mutex<IndexMap<(String, String), Arc<AtomicU64>>>,
    /// Whether the store answers, and how often it did not.
    store: [AtomicU64; 2],
    /// By source and channel; those that count have their counters.
    events: Mutex<IndexMap<(String, String), Weak<EventCounters>>>,
    /// Certificates that are ordered, by name.
    orders: Mutex<IndexMap<String, Arc<OrderCounters>>>,
    /// By method; those that count have their counters.
    authentications: Mutex<IndexMap<&'static str, Arc<AuthenticationCounters>>>,
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
            versions: Mutex::default(),
            store: Default::default(),
            events: Mutex::default(),
            orders: Mutex::default(),
            authentications: Mutex::default(),
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
        let reason = match how {
            Ending::Whole => return,
            Ending::Failed(_) => 0,
            Ending::ClientGone | Ending::ClientReset(_) => 1,
            Ending::ClientSlow => 2,
        };
        self.unfinished[reason].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that a layer refused, for the core that this thread is.
    pub fn count_refused(&self, by: RefusedBy) {
        self.refused[CORE.get()].0[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was refused because its client's address has too many.
    pub fn count_refused_connection(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Says where clients connect, once.
    pub fn set_listeners(&self, listeners: Vec<(Address, Arc<Entry>)>) {
        // A process listens once.
        let _ = self.listeners.set(listeners);
    }

    /// What counts the requests for a version of a group. A reload counts on.
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

    /// The Prometheus text format, version 0.0.4.
    pub fn render(&self, upstreams: &IndexMap<String, Arc<Upstream>>) -> String {
        let mut out = String::new();
        out.push_str("# HELP crocodile_pear_responses_total Responses to clients, by the class of their status.\n");
        out.push_str("# TYPE crocodile_pear_responses_total counter\n");
        for class in 1..6 {
            let sum: u64 = self.responses.iter().map(|core| core.0[class].load(Ordering::Relaxed)).sum();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "crocodile_pear_responses_total{{status=\"{class}xx\"}} {sum}");
        }
        out.push_str(
            "# HELP crocodile_pear_responses_unfinished_total Responses that did not end well, by the reason.\n",
        );
        out.push_str("# TYPE crocodile_pear_responses_unfinished_total counter\n");
        for (reason, count) in REASONS.iter().zip(&self.unfinished) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "crocodile_pear_responses_unfinished_total{{reason=\"{reason}\"}} {count}");
        }
        self.render_refused(&mut out);
        self.render_tls(&mut out);
        self.render_versions(&mut out);
        self.render_events(&mut out);
        self.render_authentications(&mut out);
        self.render_orders(&mut out);
        upstream::render(upstreams, &mut out);
        out
    }
}

impl Metrics {
    fn render_versions(&self, out: &mut String) {
        out.push_str("# HELP crocodile_pear_version_requests_total Requests for a version of a group's endpoints.\n");
        out.push_str("# TYPE crocodile_pear_version_requests_total counter\n");
        for ((group, version), count) in self.versions.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (group, version, count) = (label(group), label(version), count.load(Ordering::Relaxed));
            let _ = writeln!(
                out,
                "crocodile_pear_version_requests_total{{group=\"{group}\",version=\"{version}\"}} {count}"
            );
        }
    }

    fn render_refused(&self, out: &mut String) {
        out.push_str("# HELP crocodile_pear_requests_refused_total Requests that a layer refused, by the layer.\n");
        out.push_str("# TYPE crocodile_pear_requests_refused_total counter\n");
        for (at, by) in REFUSED_BY.iter().enumerate() {
            let sum: u64 = self.refused.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum();
            let _ = writeln!(out, "crocodile_pear_requests_refused_total{{by=\"{by}\"}} {sum}");
        }
        let refused = self.connections_refused.load(Ordering::Relaxed);
        out.push_str("# HELP crocodile_pear_connections_refused_total Connections refused because of `connections_per_address`.\n");
        let _ = writeln!(
            out,
            "# TYPE crocodile_pear_connections_refused_total counter\ncrocodile_pear_connections_refused_total {refused}"
        );
        let [up, failures] = [0, 1].map(|at| self.store[at].load(Ordering::Relaxed));
        out.push_str("# HELP crocodile_pear_store_up 1 if the store answers, 0 if it is away or there is none.\n");
        let _ = writeln!(out, "# TYPE crocodile_pear_store_up gauge\ncrocodile_pear_store_up {up}");
        out.push_str("# HELP crocodile_pear_store_failures_total Requests whose limits did without the store.\n");
        let _ = writeln!(
            out,
            "# TYPE crocodile_pear_store_failures_total counter\ncrocodile_pear_store_failures_total {failures}"
        );
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// As in the access log.
const REASONS: [&str; 3] = ["failed", "client-gone", "client-slow"];
