//! Metrics in the Prometheus format. Each core has its own counters; a scrape adds them up.

pub mod access;
pub mod cache;

use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crocodile_pear::upstream::{CounterSnapshot, ServerState, Upstream};
use http::StatusCode;
use indexmap::IndexMap;

use crate::address::Address;
use crate::server::{Ending, Entry, Tls};

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

/// What is counted of one source of events.
#[derive(Default)]
pub struct EventCounters {
    up: AtomicU64,
    messages: AtomicU64,
    failures: AtomicU64,
    lost: AtomicU64,
}

impl EventCounters {
    /// Says that it is listened to.
    pub fn set_up(&self) {
        self.up.store(1, Ordering::Relaxed);
    }

    /// Counts a connection that was lost: it is not listened to.
    pub fn count_lost(&self) {
        self.up.store(0, Ordering::Relaxed);
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message.
    pub fn count_message(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message that was not understood.
    pub fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// What became of the credentials of one method.
#[derive(Clone, Copy, Debug)]
pub enum Authenticated {
    /// One was valid.
    Granted,
    /// One was not.
    Refused,
    /// One could not be checked.
    Unavailable,
    /// There was none, of any method.
    Missing,
}

/// As labels, in the order of [`Authenticated`].
const AUTHENTICATED: [&str; 4] = ["granted", "refused", "unavailable", "missing"];

/// What became of the credentials of one method, by the core.
pub struct AuthenticationCounters(Vec<Findings>);

/// Each core has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Findings([AtomicU64; AUTHENTICATED.len()]);

impl Default for AuthenticationCounters {
    fn default() -> Self {
        AuthenticationCounters((0..CORES).map(|_| Findings::default()).collect())
    }
}

impl AuthenticationCounters {
    /// Counts one, for the core that this thread is.
    pub fn count(&self, what: Authenticated) {
        self.0[CORE.get()].0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AUTHENTICATED.iter().enumerate().map(|(at, result)| {
            let sum = self.0.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum();
            (*result, sum)
        })
    }
}

/// How the orders of one certificate ended.
#[derive(Debug, Default)]
pub struct OrderCounters {
    issued: AtomicU64,
    failed: AtomicU64,
    /// When it is renewed, in seconds since 1970.
    renewal: AtomicU64,
}

impl OrderCounters {
    /// Counts one that ended with a certificate.
    pub fn count_issued(&self) {
        self.issued.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that failed.
    pub fn count_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Says when the certificate is renewed.
    pub fn set_renewal(&self, at: SystemTime) {
        self.renewal.store(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(), Ordering::Relaxed);
    }

    fn results(&self) -> [(&'static str, u64); 2] {
        [("issued", self.issued.load(Ordering::Relaxed)), ("failed", self.failed.load(Ordering::Relaxed))]
    }
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

    /// The handshakes and the certificates of the listeners that have TLS.
    fn render_tls(&self, out: &mut String) {
        let listeners = self.listeners.get().into_iter().flatten();
        let secured: Vec<(String, &Tls)> =
            listeners.filter_map(|(address, entry)| Some((label(&address.to_string()), entry.tls.as_ref()?))).collect();
        if secured.is_empty() {
            return;
        }
        let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, u64)>| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(out, "{name}{{{labels}}} {value}");
            }
        };
        let done = secured.iter().flat_map(|(address, tls)| {
            tls.counters.handshakes().map(|(kind, count)| (format!("listener=\"{address}\",kind=\"{kind}\""), count))
        });
        family("crocodile_pear_tls_handshakes_total", "counter", HANDSHAKES, done.collect());
        let failed = secured.iter().flat_map(|(address, tls)| {
            let counts = tls.counters.failures();
            counts.map(move |(reason, count)| (format!("listener=\"{address}\",reason=\"{reason}\""), count))
        });
        family("crocodile_pear_tls_handshakes_failed_total", "counter", FAILED_HANDSHAKES, failed.collect());
        let expiry = secured.iter().flat_map(|(address, tls)| {
            tls.identities().into_iter().map(move |identity| {
                let seconds = identity.expiry.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                (format!("listener=\"{address}\",name=\"{}\"", label(identity.label())), seconds)
            })
        });
        family("crocodile_pear_tls_certificate_expiry_timestamp_seconds", "gauge", EXPIRY, expiry.collect());
        let due = secured.iter().filter_map(|(address, tls)| {
            let due = tls.setup().trust?.next_update?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Some((format!("listener=\"{address}\""), due.as_secs()))
        });
        family("crocodile_pear_tls_crl_next_update_timestamp_seconds", "gauge", NEXT_UPDATE, due.collect());
    }

    /// What counts the requests for a version of a group. A reload counts on.
    pub fn version(&self, group: &str, version: &str) -> Arc<AtomicU64> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.entry((group.to_owned(), version.to_owned())).or_default().clone()
    }

    /// What counts the credentials of a method. A reload counts on.
    pub fn authentications(&self, method: &'static str) -> Arc<AuthenticationCounters> {
        let mut known = self.authentications.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(method).or_default().clone()
    }

    /// What counts the orders of the certificate for this name. A reload counts on.
    pub fn orders(&self, name: &str) -> Arc<OrderCounters> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.entry(name.to_owned()).or_default().clone()
    }

    /// Says whether the store answers.
    pub fn set_store_up(&self, up: bool) {
        self.store[0].store(up.into(), Ordering::Relaxed);
    }

    /// Counts a request that had to do without the store.
    pub fn count_store_failure(&self) {
        self.store[1].fetch_add(1, Ordering::Relaxed);
    }

    /// What counts the messages of a source of events. A reload counts on.
    pub fn events(&self, source: &str, channel: &str) -> Arc<EventCounters> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|_, counters| counters.strong_count() > 0);
        let key = (source.to_owned(), channel.to_owned());
        if let Some(counters) = events.get(&key).and_then(Weak::upgrade) {
            return counters;
        }
        let counters = Arc::default();
        events.insert(key, Arc::downgrade(&counters));
        counters
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
        let upstreams: Vec<_> = upstreams.iter().map(|(name, upstream)| UpstreamSample::of(name, upstream)).collect();
        for (metric, kind, help, read) in UPSTREAM {
            let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
            for seen in &upstreams {
                let _ = writeln!(out, "{metric}{{upstream=\"{}\"}} {}", seen.name, read(seen));
            }
        }
        for (metric, kind, help, read) in SERVER {
            let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
            for UpstreamSample { name, servers, .. } in &upstreams {
                for (place, state) in servers {
                    let _ = writeln!(out, "{metric}{{upstream=\"{name}\",server=\"{place}\"}} {}", read(state));
                }
            }
        }
        out
    }
}

impl Metrics {
    fn render_authentications(&self, out: &mut String) {
        const NAME: &str = "crocodile_pear_authentications_total";
        let _ = writeln!(out, "# HELP {NAME} Credentials of clients, by method and result.\n# TYPE {NAME} counter");
        for (method, counters) in self.authentications.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Of no method there is nothing but what is missing.
            for (result, count) in
                counters.results().filter(|(result, _)| (*method == "none") == (*result == "missing"))
            {
                let _ = writeln!(out, "{NAME}{{method=\"{method}\",result=\"{result}\"}} {count}");
            }
        }
    }

    fn render_orders(&self, out: &mut String) {
        const ORDERS: &str = "crocodile_pear_acme_orders_total";
        const RENEWAL: &str = "crocodile_pear_acme_renewal_timestamp_seconds";
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(out, "# HELP {ORDERS} Orders of certificates, by their result.\n# TYPE {ORDERS} counter");
        for (name, counters) in orders.iter() {
            for (result, count) in counters.results() {
                let _ = writeln!(out, "{ORDERS}{{name=\"{}\",result=\"{result}\"}} {count}", label(name));
            }
        }
        let _ = writeln!(out, "# HELP {RENEWAL} {NEXT_RENEWAL}\n# TYPE {RENEWAL} gauge");
        for (name, counters) in orders.iter() {
            let renewal = counters.renewal.load(Ordering::Relaxed);
            let _ = writeln!(out, "{RENEWAL}{{name=\"{}\"}} {renewal}", label(name));
        }
    }

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

    fn render_events(&self, out: &mut String) {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let events = events.iter().filter_map(|(names, counters)| Some((names, counters.upgrade()?)));
        let events: Vec<_> = events.collect();
        if events.is_empty() {
            return;
        }
        for (metric, kind, help, read) in EVENTS {
            let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
            for ((source, channel), counters) in &events {
                let (source, channel, value) = (label(source), label(channel), read(counters));
                let _ = writeln!(out, "{metric}{{source=\"{source}\",channel=\"{channel}\"}} {value}");
            }
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

/// An upstream at the moment of a scrape, its names ready as labels.
struct UpstreamSample {
    name: String,
    counters: CounterSnapshot,
    retries: (u64, u64),
    servers: Vec<(String, ServerState)>,
}

impl UpstreamSample {
    fn of(name: &str, upstream: &Upstream) -> Self {
        UpstreamSample {
            name: label(name),
            counters: upstream.counters(),
            retries: upstream.retries(),
            servers: upstream.servers().map(|state| (label(&state.address), state)).collect(),
        }
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

const HANDSHAKES: &str = "TLS handshakes with clients, full ones and those that resumed a session.";
const FAILED_HANDSHAKES: &str = "TLS handshakes with clients that failed, by the reason.";
const NEXT_RENEWAL: &str = "When an ordered certificate is renewed, in seconds since 1970; 0 while there is none.";
const NEXT_UPDATE: &str = "When the first revocation list of a listener should be replaced, in seconds since 1970.";
const EXPIRY: &str = "When a certificate of a listener expires, in seconds since 1970.";

/// As in the access log.
const REASONS: [&str; 3] = ["failed", "client-gone", "client-slow"];

type ReadEvents = fn(&EventCounters) -> u64;

const EVENTS: [(&str, &str, &str, ReadEvents); 4] = [
    ("crocodile_pear_events_up", "gauge", "1 if the source of events is listened to.", |seen| {
        seen.up.load(Ordering::Relaxed)
    }),
    ("crocodile_pear_events_received_total", "counter", "Events received.", |seen| {
        seen.messages.load(Ordering::Relaxed)
    }),
    (
        "crocodile_pear_events_failed_total",
        "counter",
        "Events that the expression `purge` could not use; everything with tags became stale.",
        |seen| seen.failures.load(Ordering::Relaxed),
    ),
    (
        "crocodile_pear_events_connections_lost_total",
        "counter",
        "Connections to the source of events that were lost.",
        |seen| seen.lost.load(Ordering::Relaxed),
    ),
];

type Read = fn(&UpstreamSample) -> u64;

const UPSTREAM: [(&str, &str, &str, Read); 10] = [
    ("crocodile_pear_upstream_calls_total", "counter", "Calls to the upstream.", |seen| seen.counters.calls),
    ("crocodile_pear_upstream_connections_opened_total", "counter", "Connections opened.", |seen| seen.counters.opened),
    ("crocodile_pear_upstream_connections_reused_total", "counter", "Calls that reused a connection.", |seen| {
        seen.counters.reused
    }),
    (
        "crocodile_pear_upstream_connections_stale_total",
        "counter",
        "Calls sent again because the reused connection had been closed.",
        |seen| seen.counters.retried,
    ),
    ("crocodile_pear_upstream_retries_total", "counter", "Retries.", |seen| seen.retries.0),
    (
        "crocodile_pear_upstream_retries_withheld_total",
        "counter",
        "Retries prevented because the retry budget was exhausted.",
        |seen| seen.retries.1,
    ),
    ("crocodile_pear_upstream_calls_refused_total", "counter", "Calls rejected by an open circuit breaker.", |seen| {
        seen.counters.refused
    }),
    (
        "crocodile_pear_upstream_calls_queued_total",
        "counter",
        "Calls that waited because of `in_flight` or for a connection.",
        |seen| seen.counters.queued,
    ),
    (
        "crocodile_pear_upstream_calls_turned_away_total",
        "counter",
        "Calls rejected because of `in_flight`, a connection limit or too many open files.",
        |seen| seen.counters.turned_away,
    ),
    ("crocodile_pear_upstream_calls_in_flight", "gauge", "Calls in flight.", |seen| seen.counters.in_flight),
];

type ReadState = fn(&ServerState) -> u64;

const SERVER: [(&str, &str, &str, ReadState); 10] = [
    (
        "crocodile_pear_server_up",
        "gauge",
        "1 if the server gets calls, 0 if it is down, ejected or its circuit breaker is open.",
        |state| u64::from(state.up),
    ),
    (
        "crocodile_pear_server_breaker_open",
        "gauge",
        "1 if the circuit breaker of the server is open or half open.",
        |state| u64::from(state.open),
    ),
    ("crocodile_pear_server_breaker_opened_total", "counter", "Times that the circuit breaker opened.", |state| {
        state.opened
    }),
    ("crocodile_pear_server_ejected_total", "counter", "Times that the server was ejected.", |state| state.ejected),
    ("crocodile_pear_server_checks_total", "counter", "Health checks.", |state| state.checks.0),
    ("crocodile_pear_server_checks_bad_total", "counter", "Failed health checks.", |state| state.checks.1),
    (
        "crocodile_pear_server_connections_failed_total",
        "counter",
        "Failed connection attempts, for any reason.",
        |state| state.connect_failures.0,
    ),
    (
        "crocodile_pear_server_tls_failures_total",
        "counter",
        "Connection attempts that failed because of TLS: certificates, versions, names.",
        |state| state.connect_failures.1,
    ),
    ("crocodile_pear_server_resolutions_failed_total", "counter", "Failed DNS lookups.", |state| state.dns.0),
    (
        "crocodile_pear_server_address_changes_total",
        "counter",
        "Times that the addresses of the name changed.",
        |state| state.dns.1,
    ),
];
