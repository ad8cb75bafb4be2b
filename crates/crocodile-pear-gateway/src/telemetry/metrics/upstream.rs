//! Metrics of upstreams and of their servers.

use std::sync::Arc;

use crocodile_pear::unstable::upstream::{CallEnd, CounterSnapshot, ReadyUpstream, ServerState};
use indexmap::IndexMap;

use super::exposition::{Exposition, Family, label};

/// Writes the metrics of upstreams.
pub(super) fn render(upstreams: &IndexMap<String, Arc<ReadyUpstream>>, out: &mut Exposition) {
    let upstreams: Vec<_> = upstreams.iter().map(|(name, upstream)| UpstreamSample::of(name, upstream)).collect();
    for (metric, kind, help, read) in UPSTREAM {
        let mut family = of_kind(out, kind, metric, help);
        for seen in &upstreams {
            family.add(format_args!("upstream=\"{}\"", seen.name), read(seen));
        }
    }
    for (metric, kind, help, read) in SERVER {
        let mut family = of_kind(out, kind, metric, help);
        for UpstreamSample { name, servers, .. } in &upstreams {
            for (place, state) in servers {
                family.add(format_args!("upstream=\"{name}\",server=\"{place}\""), read(state));
            }
        }
    }
    render_phases(&upstreams, out);
    render_times(&upstreams, out);
}

fn render_phases(upstreams: &[UpstreamSample<'_>], out: &mut Exposition) {
    let mut family = out.summary("crocodile_pear_server_connect_duration_seconds", PHASE);
    for UpstreamSample { name, servers, .. } in upstreams {
        for (place, state) in servers {
            for total in &state.phases {
                let labels = format_args!("upstream=\"{name}\",server=\"{place}\",phase=\"{}\"", total.phase);
                family.sum(labels, total.number, total.time.as_secs_f64());
            }
        }
    }
}

fn render_times(upstreams: &[UpstreamSample<'_>], out: &mut Exposition) {
    let mut family = out.histogram("http_client_request_duration_seconds", DURATION);
    for UpstreamSample { name, upstream, .. } in upstreams {
        for (address, end, times) in upstream.times() {
            let end = match end {
                Some(CallEnd::Answered(status)) => format!("http_response_status_code=\"{}\"", status.as_u16()),
                Some(CallEnd::Failed(kind)) => format!("error_type=\"{}\"", kind.name()),
                Some(CallEnd::Dropped) => "error_type=\"cancelled\"".to_owned(),
                None => "error_type=\"_OTHER\"".to_owned(),
            };
            let address = label(&address);
            family.times(&format!("upstream=\"{name}\",server_address=\"{address}\",{end}"), &times);
        }
    }
    let mut family = out.histogram("crocodile_pear_upstream_wait_duration_seconds", WAIT);
    for UpstreamSample { name, upstream, .. } in upstreams {
        let waits = upstream.waits();
        if waits.number() > 0 {
            family.times(&format!("upstream=\"{name}\""), &waits);
        }
    }
}

/// An upstream at the moment of a scrape, its names ready as labels.
struct UpstreamSample<'a> {
    upstream: &'a ReadyUpstream,
    name: String,
    counters: CounterSnapshot,
    retries: (u64, u64),
    servers: Vec<(String, ServerState)>,
}

impl<'a> UpstreamSample<'a> {
    fn of(name: &str, upstream: &'a ReadyUpstream) -> Self {
        UpstreamSample {
            upstream,
            name: label(name),
            counters: upstream.counters(),
            retries: upstream.retries(),
            servers: upstream.servers().map(|state| (label(&state.address), state)).collect(),
        }
    }
}

fn of_kind<'a>(out: &'a mut Exposition, kind: &str, name: &'a str, help: &str) -> Family<'a> {
    if kind == "counter" { out.counter(name, help) } else { out.gauge(name, help) }
}

const DURATION: &str =
    "Time of a call to a server, from its beginning to the end of the answer. Retries are calls of their own.";
const PHASE: &str = "Duration of opening connections, by phase: DNS lookup, connecting, TLS handshake.";
const WAIT: &str = "Time that calls waited in the queue or for a connection, without those that did not wait.";

type UpstreamFigure = fn(&UpstreamSample<'_>) -> u64;

const UPSTREAM: [(&str, &str, &str, UpstreamFigure); 14] = [
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
    (
        "crocodile_pear_upstream_links_mapped_total",
        "counter",
        "Links in bodies that led into the upstream and now lead to an endpoint.",
        |seen| seen.counters.links_mapped,
    ),
    (
        "crocodile_pear_upstream_links_unserved_total",
        "counter",
        "Links in bodies that lead into the upstream where no endpoint does.",
        |seen| seen.counters.links_unserved,
    ),
    ("crocodile_pear_upstream_calls_in_flight", "gauge", "Calls in flight.", |seen| seen.counters.in_flight),
    (
        "crocodile_pear_upstream_resolutions_failed_total",
        "counter",
        "Failed lookups of the SRV records that name its servers.",
        |seen| seen.upstream.service_lookups().0,
    ),
    (
        "crocodile_pear_upstream_server_changes_total",
        "counter",
        "How often the SRV records named other servers.",
        |seen| seen.upstream.service_lookups().1,
    ),
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
    ("crocodile_pear_server_breaker_opened_total", "counter", "How often the circuit breaker opened.", |state| {
        state.opened
    }),
    ("crocodile_pear_server_ejected_total", "counter", "How often the server was ejected.", |state| state.ejected),
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
        "How often the addresses of the name changed.",
        |state| state.dns.1,
    ),
];
