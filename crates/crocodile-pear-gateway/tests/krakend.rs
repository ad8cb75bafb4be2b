//! The import of KrakenD's configurations, beside Lura 2.7, KrakenD's own engine: each shape of an endpoint is imported, and
//! both answer the same requests over upstreams of the same kind. Status, body, and what the upstreams get are compared.
//! `KRAKEND_SHAPES=all cargo test --test gateway krakend::` compares all pairs of features.

mod command;
mod intended;
mod lura;
mod shapes;
mod upstream;

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use crate::stage;
use stage::client::Client;
use stage::gateway::Gateway;

use lura::Lura;
use shapes::Shape;
use upstream::{Call, Upstream};

/// How many shapes there must be at least.
const SHAPES: usize = 200;

/// The default share of the pairs of features: one in so many is compared.
const ONE_IN: usize = 5;

/// The outcome of a request at one of the two gateways.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    status: u16,
    body: Value,
    calls: Vec<Call>,
}

#[test]
fn imported_endpoints_answer_as_those_of_lura_do() {
    let one_in = if std::env::var("KRAKEND_SHAPES").is_ok_and(|all| all == "all") { 1 } else { ONE_IN };
    let shapes = shapes::all(one_in);
    assert!(shapes.len() >= SHAPES, "only {} shapes", shapes.len());
    let (theirs, ours) = (Upstream::start(), Upstream::start());
    let Some(lura) = Lura::start(|listen| file(&shapes, theirs.address, listen)) else { return };
    let input = stage::scratch("krakend-ours.json");
    let output = stage::scratch("krakend-ours.yaml");
    let listen = stage::ports::free_address();
    std::fs::write(&input, file(&shapes, ours.address, listen).to_string()).unwrap();
    let mut import = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    let import = import.args(["import", "krakend", "--force", "--json"]).arg(&input).arg("-o").arg(&output);
    let report: Value = serde_json::from_slice(&import.output().unwrap().stdout).unwrap();
    assert_eq!(report["check"], json!([]));
    let missing = reported(&report);
    // Fields of an earlier answer that have moved, and the client's whole query behind one of the path.
    let known = |at: &usize| ["sequential", "whole query"].iter().any(|name| shapes[*at].name.contains(name));
    assert!(missing.iter().all(known), "{report}");
    let gateway = Gateway::run(&output);
    let mut different = Vec::new();
    for (_, shape) in shapes.iter().enumerate().filter(|(at, _)| !missing.contains(at)) {
        for request in shape.requests() {
            let theirs = serve(lura.address, &theirs, &request);
            let ours = serve(gateway.address, &ours, &request);
            let reason = intended::reason(shape, &theirs, &ours);
            if theirs != ours && reason.is_none() {
                let line = request.split("\r\n").next().unwrap_or_default();
                different.push(format!("{}: {line}\n  Lura {theirs:?}\n  ours {ours:?}", shape.name));
            }
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

/// The endpoints that the report says are not imported.
fn reported(report: &Value) -> Vec<usize> {
    let settings = report["settings"].as_array().unwrap().iter();
    let keys = settings.filter(|setting| setting["state"] == "reported").filter_map(|setting| setting["key"].as_str());
    keys.filter_map(|key| key.strip_prefix("endpoints[")?.split(']').next()?.parse().ok()).collect()
}

/// Sends a request, and notes what the upstream got of it.
fn serve(address: SocketAddr, upstream: &Upstream, request: &str) -> Served {
    let mut client = Client::connect(address).unwrap();
    client.ask(request.split(' ').next().unwrap_or_default(), request.as_bytes()).unwrap();
    let head = client.head().unwrap();
    let body = client.rest().unwrap();
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
    Served { status: head.status, body, calls: upstream.take() }
}

/// A configuration of KrakenD.
fn file(shapes: &[Shape], upstream: SocketAddr, listen: SocketAddr) -> Value {
    let endpoints: Vec<&Value> = shapes.iter().map(|shape| &shape.endpoint).collect();
    json!({
        "version": 3,
        "listen_ip": listen.ip().to_string(),
        "port": listen.port(),
        "host": [format!("http://{upstream}")],
        "extra_config": {"router": {"disable_access_log": true, "disable_health": true}},
        "endpoints": endpoints,
    })
}
