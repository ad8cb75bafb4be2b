//! What is counted: by each core for itself, summed when it is asked for.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crocodile_pear::upstream::{CounterSnapshot, ServerState, Upstream};
use http::StatusCode;

use crate::gateway::Gateway;

/// Cores beyond this share a counter with another one.
const CORES: usize = 64;

/// Responses by the class of their status, a line of the cache a core.
#[repr(align(64))]
#[derive(Default)]
struct Classes([AtomicU64; 6]);

/// The counters.
pub struct Metrics {
    responses: Vec<Classes>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { responses: (0..CORES).map(|_| Classes::default()).collect() }
    }
}

impl Metrics {
    /// Counts a response whose head is ready.
    pub fn count(&self, core: usize, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[core % CORES].0[class].fetch_add(1, Ordering::Relaxed);
    }

    /// The Prometheus text format, version 0.0.4.
    pub fn render(&self, gateway: &Gateway) -> String {
        let mut out = String::new();
        out.push_str("# HELP crocodile_pear_responses_total Responses to clients, by the class of their status.\n");
        out.push_str("# TYPE crocodile_pear_responses_total counter\n");
        for class in 1..6 {
            let sum: u64 = self.responses.iter().map(|core| core.0[class].load(Ordering::Relaxed)).sum();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "crocodile_pear_responses_total{{status=\"{class}xx\"}} {sum}");
        }
        let upstreams: Vec<_> = gateway.upstreams().iter().map(|(name, upstream)| Seen::of(name, upstream)).collect();
        for (metric, kind, help, read) in UPSTREAM {
            let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
            for seen in &upstreams {
                let _ = writeln!(out, "{metric}{{upstream=\"{}\"}} {}", seen.name, read(seen));
            }
        }
        for (metric, kind, help, read) in SERVER {
            let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
            for Seen { name, servers, .. } in &upstreams {
                for (place, state) in servers {
                    let _ = writeln!(out, "{metric}{{upstream=\"{name}\",server=\"{place}\"}} {}", read(state));
                }
            }
        }
        out
    }
}

/// An upstream at the moment of a scrape, its names as labels.
struct Seen {
    name: String,
    counters: CounterSnapshot,
    retries: (u64, u64),
    servers: Vec<(String, ServerState)>,
}

impl Seen {
    fn of(name: &str, upstream: &Upstream) -> Self {
        Seen {
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

type Read = fn(&Seen) -> u64;

const UPSTREAM: [(&str, &str, &str, Read); 10] = [
    ("crocodile_pear_upstream_calls_total", "counter", "Calls to an upstream.", |seen| seen.counters.calls),
    ("crocodile_pear_upstream_connections_opened_total", "counter", "Connections opened to an upstream.", |seen| {
        seen.counters.opened
    }),
    ("crocodile_pear_upstream_connections_reused_total", "counter", "Calls on a kept connection.", |seen| {
        seen.counters.reused
    }),
    (
        "crocodile_pear_upstream_connections_stale_total",
        "counter",
        "Calls repeated because a kept connection had been closed.",
        |seen| seen.counters.retried,
    ),
    ("crocodile_pear_upstream_retries_total", "counter", "Calls repeated by the rules of `retry`.", |seen| {
        seen.retries.0
    }),
    (
        "crocodile_pear_upstream_retries_withheld_total",
        "counter",
        "Calls not repeated because the budget of `retry` was spent.",
        |seen| seen.retries.1,
    ),
    ("crocodile_pear_upstream_calls_refused_total", "counter", "Calls that no breaker let through.", |seen| {
        seen.counters.refused
    }),
    (
        "crocodile_pear_upstream_calls_queued_total",
        "counter",
        "Calls that waited for a place among those in flight, or for a connection.",
        |seen| seen.counters.queued,
    ),
    (
        "crocodile_pear_upstream_calls_turned_away_total",
        "counter",
        "Calls that failed for want of a place, a connection or a file to open.",
        |seen| seen.counters.turned_away,
    ),
    ("crocodile_pear_upstream_calls_in_flight", "gauge", "Calls under way.", |seen| seen.counters.in_flight),
];

type ReadState = fn(&ServerState) -> u64;

const SERVER: [(&str, &str, &str, ReadState); 10] = [
    (
        "crocodile_pear_server_up",
        "gauge",
        "1 if calls go to this server of an upstream, 0 if it is down, ejected or its breaker is open.",
        |state| u64::from(state.up),
    ),
    ("crocodile_pear_server_breaker_open", "gauge", "1 while the breaker of a server is open or trying.", |state| {
        u64::from(state.open)
    }),
    ("crocodile_pear_server_breaker_opened_total", "counter", "How often the breaker has opened.", |state| {
        state.opened
    }),
    ("crocodile_pear_server_ejected_total", "counter", "How often the server was ejected.", |state| state.ejected),
    ("crocodile_pear_server_checks_total", "counter", "Health checks of a server.", |state| state.checks.0),
    ("crocodile_pear_server_checks_bad_total", "counter", "Health checks that were bad.", |state| state.checks.1),
    (
        "crocodile_pear_server_connections_failed_total",
        "counter",
        "Connections that could not be had, for whatever reason.",
        |state| state.unconnected.0,
    ),
    (
        "crocodile_pear_server_tls_failures_total",
        "counter",
        "Connections that could not be had because of TLS: certificates, versions, names.",
        |state| state.unconnected.1,
    ),
    (
        "crocodile_pear_server_resolutions_failed_total",
        "counter",
        "Times that the name was asked for in vain.",
        |state| state.name.0,
    ),
    (
        "crocodile_pear_server_address_changes_total",
        "counter",
        "How often the addresses of the name have changed.",
        |state| state.name.1,
    ),
];
