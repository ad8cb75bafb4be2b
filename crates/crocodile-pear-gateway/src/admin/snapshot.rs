//! `/status`: how the gateway is now, as one JSON document, for the page and for `top`.

mod calls;
mod number;
mod servers;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::database::{self, Database};
use crocodile_pear::unstable::upstream::{ReadyUpstream, ServerState};
use serde_json::{Value, json};

use self::calls::LatestFailures;
use self::number::rounded;
use self::servers::Figures;
pub use self::servers::ServerTimes;
use crate::gateway::Gateway;
use crate::gateway::current_gateway::Live;
use crate::telemetry::recent::{FailedRequest, History, RouteFigures, RouteNumber, Second};

/// The seconds that count as "now": long enough to be calm.
const NOW: u64 = 5;

/// The charts: seconds, and how many of them make a point.
const MINUTE: (u64, u64) = (60, 1);
const HOUR: (u64, u64) = (3_600, 30);

/// Routes that are told: so many with the most requests, with the most failures, and the slowest.
const ROUTES: usize = 60;

/// Servers that are told; those that are away come first.
const SERVERS: usize = 200;

/// Failures that are told.
const FAILURES: usize = 30;

/// How the gateway is now.
pub fn take(live: &Live, times: &mut ServerTimes) -> Value {
    let gateway = live.current();
    let lately = times.lately(&gateway);
    let history = &gateway.persistent().history;
    let now: Second = sum(&history.seconds(NOW, 1));
    let routes = history.routes();
    json!({
        "gateway": about(&gateway),
        "now": {
            "requests": now.requests as f64 / NOW as f64, "failed": now.failed as f64 / NOW as f64,
            "p50": ms(&now, 0.5), "p95": ms(&now, 0.95), "p99": ms(&now, 0.99),
        },
        "total": {
            "requests": routes.iter().map(|(_, figures)| figures.all).sum::<u64>(),
            "failed": routes.iter().map(|(_, figures)| figures.all_failed).sum::<u64>(),
        },
        "minute": chart(history, MINUTE),
        "hour": chart(history, HOUR),
        "routes": tell_routes(history, &routes),
        "routes_in_all": routes.len(),
        "upstreams": tell_upstreams(&gateway, &lately),
        "databases": tell_databases(&gateway, &lately),
        "cache": tell_cache(&gateway),
        "analytics": gateway.persistent().analytics.is_kept(),
        "refused": gateway.metrics().refusals().map(|(by, count)| json!([by, count])).collect::<Value>(),
        "certificates": gateway.metrics().certificates().into_iter().map(|(listener, name, expiry)| {
            json!({ "listener": listener, "name": name, "expires": seconds(expiry) })
        }).collect::<Value>(),
        "configuration": tell_configuration(live),
        "failures": history.failures().iter().take(FAILURES).map(|failure| tell_failure(history, failure)).collect::<Value>(),
    })
}

fn about(gateway: &Gateway) -> Value {
    let history = &gateway.persistent().history;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "began": seconds(history.began()),
        "now": seconds(SystemTime::now()),
        "uptime": history.now().as_secs(),
        "endpoints": gateway.endpoints().len(),
        "listening": gateway.metrics().addresses(),
    })
}

fn sum(seconds: &[Second]) -> Second {
    let mut all = Second::default();
    seconds.iter().for_each(|second| all.add(second));
    all
}

/// Points of a chart, oldest first: requests a second, failures a second, p50, p95, p99.
fn chart(history: &History, (span, step): (u64, u64)) -> Value {
    let point = |second: Second| {
        let rate = |count: u64| rounded(count as f64 / step as f64);
        json!([rate(second.requests), rate(second.failed), ms(&second, 0.5), ms(&second, 0.95), ms(&second, 0.99)])
    };
    history.seconds(span, step).into_iter().map(point).collect()
}

/// A quantile in milliseconds.
fn ms(figures: &Second, share: f64) -> Option<f64> {
    figures.latency.quantile(share).map(|seconds| rounded(seconds * 1e3))
}

fn seconds(time: SystemTime) -> f64 {
    rounded(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

fn tell_routes(history: &History, routes: &[(RouteNumber, RouteFigures)]) -> Value {
    let told = foremost(routes);
    let tell = |(number, figures): &(RouteNumber, RouteFigures)| {
        let minute = &figures.minute;
        json!({
            "number": number.number(), "name": &*history.name(*number),
            "requests": minute.requests, "failed": minute.failed,
            "p50": ms(minute, 0.5), "p95": ms(minute, 0.95), "p99": ms(minute, 0.99),
            "all": figures.all, "all_failed": figures.all_failed,
        })
    };
    routes.iter().filter(|(number, _)| told.contains(number)).map(tell).collect()
}

type SortKey = dyn Fn(&RouteFigures) -> (u64, u64);

/// The routes that somebody would look for: the busiest, those that fail, and the slowest.
fn foremost(routes: &[(RouteNumber, RouteFigures)]) -> HashSet<RouteNumber> {
    let mut told = HashSet::new();
    let mut order: Vec<&(RouteNumber, RouteFigures)> = routes.iter().collect();
    let keys: [&SortKey; 3] = [
        &|figures| (figures.minute.requests, figures.all),
        &|figures| (figures.minute.failed, figures.all_failed),
        &|figures| (slowness(figures), 0),
    ];
    for key in keys {
        order.sort_by_cached_key(|(_, figures)| std::cmp::Reverse(key(figures)));
        told.extend(order.iter().take(ROUTES).map(|(number, _)| *number));
    }
    told
}

/// Microseconds.
fn slowness(figures: &RouteFigures) -> u64 {
    figures.minute.latency.quantile(0.95).map_or(0, |seconds| (seconds * 1e6) as u64)
}

fn tell_upstreams(gateway: &Gateway, lately: &Figures) -> Value {
    let seen = LatestFailures::from_history(&gateway.persistent().history);
    let mut left = SERVERS;
    gateway
        .upstreams()
        .iter()
        .map(|(name, upstream)| tell_upstream(name, upstream, (&seen, lately), &mut left))
        .collect()
}

fn tell_upstream(
    name: &str,
    upstream: &Arc<ReadyUpstream>,
    seen: (&LatestFailures, &Figures),
    left: &mut usize,
) -> Value {
    let counters = upstream.counters();
    let (retries, withheld) = upstream.retries();
    let mut servers: Vec<ServerState> = upstream.servers().collect();
    let in_all = servers.len();
    servers.sort_by_key(|state| state.up);
    servers.truncate(*left);
    *left -= servers.len();
    let lately = servers.iter().filter_map(|state| seen.1.of(upstream.name(), &state.address));
    let lately: u64 = lately.map(|figures| figures.calls).sum();
    json!({
        "name": name,
        "calls": counters.calls, "lately": lately, "in_flight": counters.in_flight, "retries": retries, "withheld": withheld,
        "refused": counters.refused, "queued": counters.queued, "turned_away": counters.turned_away,
        "opened": counters.opened, "reused": counters.reused,
        "servers": servers.iter().map(|state| tell_server(upstream, state, seen)).collect::<Value>(),
        "servers_in_all": in_all,
    })
}

fn tell_server(upstream: &ReadyUpstream, state: &ServerState, (seen, lately): (&LatestFailures, &Figures)) -> Value {
    let word = match state {
        ServerState { up: true, .. } => "up",
        ServerState { open: true, .. } => "breaker open",
        ServerState { ejected_for: Some(_), .. } => "ejected",
        _ => "down",
    };
    let mut told = json!({
        "address": &*state.address, "state": word, "up": state.up,
        "ejected_for": state.ejected_for.map(|left| rounded(left.as_secs_f64())),
        "opened": state.opened, "ejected": state.ejected,
        "checks": state.checks.0, "checks_failed": state.checks.1,
        "connect_failures": state.connect_failures.0, "tls_failures": state.connect_failures.1,
        "dns_failures": state.dns.0,
    });
    let figures = lately.of(upstream.name(), &state.address);
    told["calls"] = figures.map(|figures| figures.calls).into();
    told["failed"] = figures.map(|figures| figures.failed).into();
    told["p50"] = figures.and_then(|figures| figures.quantile(0.5)).into();
    told["p95"] = figures.and_then(|figures| figures.quantile(0.95)).into();
    told["last_failure"] = seen.last_failure(upstream.name(), &state.address).into();
    told
}

/// With the fields that upstreams have, as far as they mean something here.
fn tell_databases(gateway: &Gateway, lately: &Figures) -> Value {
    let seen = LatestFailures::from_history(&gateway.persistent().history);
    let tell = |(name, database): (&String, &Arc<Database>)| {
        let servers: Vec<_> = database.servers().collect();
        let (used, _, waiting) = database.connections();
        let figures = lately.of(database.name(), database.name());
        json!({
            "name": name,
            "lately": figures.map_or(0, |figures| figures.calls), "in_flight": used, "waiting": waiting,
            "refused": servers.iter().map(|state| state.refused).sum::<u64>(),
            "servers": servers.iter().map(|state| tell_database_server(database, state, &seen)).collect::<Value>(),
            "servers_in_all": servers.len(),
        })
    };
    gateway.databases().iter().map(tell).collect()
}

fn tell_database_server(database: &Database, state: &database::DatabaseServerState, seen: &LatestFailures) -> Value {
    let word = match state {
        _ if state.is_up() => "up",
        database::DatabaseServerState { open: true, .. } => "breaker open",
        _ => "down",
    };
    json!({
        "address": &*state.address, "state": word, "up": state.is_up(), "opened": state.opened,
        "last_failure": seen.last_failure(database.name(), &state.address),
    })
}

fn tell_cache(gateway: &Gateway) -> Value {
    let seen = gateway.cache().counters();
    json!({
        "hits": seen.hits, "misses": seen.misses, "entries": seen.entries, "bytes": seen.bytes, "bound": seen.bound,
        "stored": seen.insertions, "evicted": seen.evictions, "purges": seen.purges,
    })
}

fn tell_configuration(live: &Live) -> Value {
    let status = live.configured().status();
    let refused = status.refused.map(|(at, problems)| json!({ "at": seconds(at), "problems": problems }));
    json!({ "read": seconds(status.read), "warnings": status.warnings, "refused": refused })
}

fn tell_failure(history: &History, failure: &FailedRequest) -> Value {
    let error = &failure.error;
    json!({
        "at": seconds(history.began() + failure.at),
        "id": &*failure.id,
        "route": failure.route.as_deref(),
        "cause": error.kind().name(),
        "step": error.step(), "upstream": error.upstream(), "detail": error.detail(),
    })
}
