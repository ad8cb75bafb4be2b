//! The findings of a probe for scripts: the names stay, and say their units.

use std::time::Duration;

use crocodile_pear::unstable::net::tls::TlsVersion;
use serde_json::{Value, json};

use crate::found::ProbeResult;
use crate::keep::{ConnectionLimits, Resumed};
use crate::link::ServerClose;
use crate::measure::{Cell, part};
use crate::trust::Verify;
use crate::way::Http;

/// Every name is always there; what was not found out is null, or an empty list.
pub fn write(found: &ProbeResult) -> Value {
    let (cold, warm) = found.resolve.unzip();
    json!({
        "url": found.target.url(),
        "address": found.address.map(|address| address.to_string()),
        "addresses": found.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "resolve": { "cold_ms": cold.map(ms), "warm_ms": warm.map(ms) },
        "status": found.status(),
        "body_bytes": found.bytes(),
        "http_versions": http(found),
        "tls_versions": tls(found),
        "certificate": certificate(found),
        "sessions": found.resumed.iter().map(|resumed| session(found, resumed)).collect::<Vec<_>>(),
        "connections": found.kept.iter().map(connection).collect::<Vec<_>>(),
        "times": found.cells.iter().map(cell).collect::<Vec<_>>(),
        "advice": found.advice.as_ref().map(|advice| json!({ "why": advice.why, "yaml": advice.yaml })),
        "problems": found.problems.iter().map(|problem| json!({ "what": problem.what, "remedy": problem.remedy })).collect::<Vec<_>>(),
        "notes": found.notes,
        "took_ms": ms(found.took),
        "limit_ms": ms(found.limit),
    })
}

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

fn http(found: &ProbeResult) -> Vec<&'static str> {
    let offered = [Http::One, Http::Two].into_iter().filter(|http| found.offers_http(*http));
    offered.map(|http| if http == Http::One && found.answers_10() { "1.0" } else { http.number() }).collect()
}

fn tls(found: &ProbeResult) -> Vec<&'static str> {
    let offered = |tls: &TlsVersion| found.ways().any(|way| way.tls == Some(*tls));
    [TlsVersion::Tls12, TlsVersion::Tls13].into_iter().filter(offered).map(TlsVersion::word).collect()
}

fn certificate(found: &ProbeResult) -> Option<Value> {
    let certificate = found.certificate.as_ref()?;
    Some(json!({
        "verified": found.verify == Some(Verify::Strictly) && found.fault.is_none(),
        "fault": found.fault,
        "names": certificate.names,
        "issuer": certificate.issuer,
        "valid_from": certificate.from.to_string(),
        "valid_to": certificate.until.to_string(),
        "days_left": certificate.days_left(),
    }))
}

fn session(found: &ProbeResult, resumed: &Resumed) -> Value {
    let cells = found.cells.iter().filter(|cell| cell.way.tls == Some(resumed.tls));
    let full = cells.filter_map(|cell| cell.tls()[0]).min();
    json!({
        "tls": resumed.tls.word(),
        "resumed": !resumed.handshakes.is_empty(),
        "resumed_p50_ms": part(resumed.handshakes.iter().copied(), 0.5).map(ms),
        "full_p50_ms": full.map(ms),
    })
}

fn connection(kept: &ConnectionLimits) -> Value {
    let word = |ending: ServerClose| match ending {
        ServerClose::Close => "close",
        ServerClose::GoAway => "goaway",
    };
    let (requests, idle) = (kept.requests, kept.idle);
    json!({
        "http": kept.http.number(),
        "kept": kept.reusable(),
        "requests": requests.answered,
        "requests_ended_by": requests.ended.map(word),
        "idle_ms": idle.map(|idle| ms(idle.time)),
        "idle_ended_by": idle.and_then(|idle| idle.ended).map(word),
        "announced_timeout_s": kept.announced.timeout,
        "announced_max_requests": kept.announced.max,
        "max_concurrent_streams": kept.streams,
    })
}

fn cell(cell: &Cell) -> Value {
    let pair = |[p50, p99]: [Option<Duration>; 2]| json!({ "p50_ms": p50.map(ms), "p99_ms": p99.map(ms) });
    json!({
        "http": cell.way.http.number(),
        "tls": cell.way.tls.map(TlsVersion::word),
        "connection": cell.connection.word(),
        "calls": cell.times.len(),
        "failed": cell.failed,
        "connect": pair(cell.connect()),
        "handshake": pair(cell.tls()),
        "first_byte": pair(cell.first()),
        "total": pair(cell.total()),
    })
}
