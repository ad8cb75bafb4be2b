//! `/requests`: what is kept of single requests, and one of them with its calls.

use std::time::Duration;

use crocodile_pear::unstable::error::Kind;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::telemetry::request_record::{CacheResult, CallKind, CallRecord};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::response;
use crate::telemetry::recent::{History, RouteNumber, ServedRequest};

/// Requests in a list.
const MOST: usize = 100;

/// A list: `view=recent`, `slowest` or `failed`, of all routes or of `route=NUMBER`.
pub fn list(gateway: &Gateway, query: &str) -> Response<AnswerBody> {
    let history = &gateway.persistent().history;
    let value = |name: &str| {
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let route = match value("route").filter(|number| !number.is_empty()).map(RouteNumber::read) {
        None => None,
        Some(Some(route)) => Some(route),
        Some(None) => return response::refuse(StatusCode::BAD_REQUEST, "`route` is a number of `/status`"),
    };
    let found = match value("view") {
        None | Some("recent") => history.recent(route, MOST),
        Some("slowest") => history.slowest(route, MOST),
        Some("failed") => history.failed(route, MOST),
        Some(_) => return response::refuse(StatusCode::BAD_REQUEST, "`view` is `recent`, `slowest` or `failed`"),
    };
    let requests: Vec<Value> = found.iter().map(|served| outline(served, history)).collect();
    response::json(&json!({ "requests": requests }))
}

/// A request with its calls, by its id.
pub fn show(gateway: &Gateway, id: &str) -> Response<AnswerBody> {
    let history = &gateway.persistent().history;
    let Some(served) = history.find(id) else {
        let detail = "no request with this id is kept: the latest, and the slowest and failed ones of each route are";
        return response::refuse(StatusCode::NOT_FOUND, detail);
    };
    let mut told = outline(&served, history);
    let calls = served.record.as_ref().map(|record| record.calls()).unwrap_or_default();
    told["made"] = calls.iter().map(call).collect();
    told["marks"] = served
        .marks
        .iter()
        .map(|mark| {
            let (first, last) = (milliseconds(mark.first), milliseconds(mark.last));
            json!({ "label": &*mark.label, "first": first, "last": last, "messages": mark.messages })
        })
        .collect();
    told["reasons"] = history
        .failures()
        .iter()
        .filter(|failure| *failure.id == *id)
        .map(|failure| {
            let error = &failure.error;
            json!({
                "cause": error.kind().name(), "step": error.step(), "upstream": error.upstream(),
                "detail": error.detail(),
            })
        })
        .collect();
    response::json(&told)
}

fn outline(served: &ServedRequest, history: &History) -> Value {
    let summary = served.record.as_ref().map(|record| record.summary()).unwrap_or_default();
    let slowest = summary.slowest.map(|slowest| {
        json!({
            "upstream": &*slowest.upstream, "server": slowest.server.as_deref(), "time": milliseconds(slowest.time),
        })
    });
    json!({
        "id": &*served.id,
        "at": (history.began() + served.at).duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        "route": &*history.name(served.route),
        "number": served.route.number(),
        "method": served.method.as_str(),
        "path": &*served.path,
        "status": served.status,
        "ended": served.ended,
        "failed": served.failed,
        "bytes": served.bytes,
        "head": served.head.map(milliseconds),
        "total": milliseconds(served.total),
        "calls": summary.calls,
        "slowest": slowest,
    })
}

/// A call without its query, which may hold secrets of the configuration.
fn call(call: &CallRecord) -> Value {
    let cut = call.target.split_once('?').filter(|_| call.kind == CallKind::Http);
    let (path, query) = cut.map_or((&*call.target, false), |(path, _)| (path, true));
    json!({
        "upstream": &*call.upstream,
        "server": call.server.as_deref(),
        "method": call.method.as_str(),
        "path": path,
        "query": query,
        "step": &*call.step.name,
        "index": call.step.index,
        "attempt": call.attempt,
        "began": milliseconds(call.began),
        "connected": call.connected.map(milliseconds),
        "opening": call.opening.as_ref().map(|opening| {
            [opening.dns, opening.connect, opening.tls].map(milliseconds)
        }),
        "head": call.head.map(milliseconds),
        "ended": call.ended.map(milliseconds),
        "reused": call.reused,
        "dropped": call.dropped,
        "status": call.status.map(|status| status.as_u16()),
        "error": call.error.map(Kind::name),
        "bytes": call.bytes,
        "cache": call.cache.map(CacheResult::name),
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
