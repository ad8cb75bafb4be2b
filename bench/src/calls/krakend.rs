//! KrakenD: its rows, and what it is told.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::other::{Other, Question};
use super::rows;
use crate::expected::Expected;
use crate::{load, upstream};

pub const KRAKEND: Other = Other {
    name: "KrakenD",
    program: "krakend",
    version: "version",
    install: "KrakenD CE 2, https://www.krakend.io/docs/overview/installing/",
    setup: "max_idle_connections_per_host 256, no-op for what is proxied, access log off",
    arguments: &["run", "-c"],
    environment: &[("USAGE_DISABLE", "1")],
    file: "krakend.json",
    configure,
    question,
};

/// The configuration of a fast setup. The picked city stays within its address: `allow` is cheaper than moving it.
fn configure(listen: SocketAddr, upstream: SocketAddr) -> String {
    let host = format!("http://{upstream}");
    let call = |path: &str, told: Value| merged(json!({"host": [host], "url_pattern": path}), told);
    let ten: Vec<Value> =
        (1..=10).map(|number| call(&format!("/d/{number}"), json!({"group": format!("d{number}")}))).collect();
    let raw = json!({"output_encoding": "no-op"});
    json!({
        "version": 3,
        "listen_ip": listen.ip().to_string(),
        "port": listen.port(),
        "timeout": "30s",
        "max_idle_connections": 0,
        "max_idle_connections_per_host": 256,
        "extra_config": {
            "router": {"disable_access_log": true},
            "telemetry/logging": {"level": "ERROR", "stdout": true},
        },
        "endpoints": [
            merged(json!({"endpoint": "/proxy", "backend": [call("/item", json!({"encoding": "no-op"}))]}), raw),
            {"endpoint": "/pick", "backend": [call("/user", json!({"allow": ["id", "name", "address.city"]}))]},
            {"endpoint": "/merge", "backend": [
                call("/d/1", json!({"allow": ["id"], "mapping": {"id": "a"}})),
                call("/d/2", json!({"allow": ["text"], "mapping": {"text": "b"}})),
                call("/d/3", json!({"group": "c"})),
            ]},
            {"endpoint": "/ten", "backend": ten},
        ],
    })
    .to_string()
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// Ten answers are members of an object: it cannot make a list of them.
fn question(target: &str, host: &str) -> Option<Question> {
    let expected = match target {
        "/proxy" => Expected::Exactly(upstream::item(0)),
        "/pick" => Expected::Same(json!({"id": 17, "name": "Marta Silva", "address": {"city": "Porto"}})),
        "/merge" => Expected::Same(json!({"a": 1, "b": rows::text(2), "c": rows::parsed(3)})),
        "/ten" => Expected::Same((1..=10).map(|number| (format!("d{number}"), rows::parsed(number))).collect()),
        _ => return None,
    };
    Some(Question { request: load::get(target, host), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_configured() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let told: Value = serde_json::from_str(&configure(address, address)).expect("JSON");
        let known: Vec<&Value> =
            told["endpoints"].as_array().expect("a list").iter().map(|known| &known["endpoint"]).collect();
        let asked = rows::ROWS.iter().map(|row| row.target).filter(|target| question(target, "host").is_some());
        assert_eq!(known, asked.collect::<Vec<_>>());
    }
}
