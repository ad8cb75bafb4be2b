//! The files in `contrib`, tried with the programs that they are for.

// What is skipped is said.
#![allow(clippy::print_stdout)]

use crate::stage;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use stage::client::Client;
use stage::gateway::Gateway;
use stage::ports::free_address;
use stage::{Program, pause, until};

fn contrib(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(file)
}

/// Whether a program is missing, which is said.
fn missing(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        stage::skip("prometheus");
    }
    !there
}

#[test]
fn the_alert_rules_are_sound() {
    if missing("promtool") {
        return;
    }
    let told =
        Command::new("promtool").args(["check", "rules"]).arg(contrib("prometheus/alerts.yml")).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}

fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let mut client = Client::connect(address)?;
    client.ask("GET", format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())?;
    client.head()?;
    String::from_utf8(client.rest()?).map_err(|error| error.to_string())
}

/// How many series an expression has.
fn query(prometheus: SocketAddr, expression: &str) -> Option<usize> {
    let path = format!("/api/v1/query?query={}", utf8_percent_encode(expression, NON_ALPHANUMERIC));
    let told: Value = serde_json::from_str(&get(prometheus, &path).ok()?).ok()?;
    assert_eq!(told["status"], "success", "{expression}: {told}");
    Some(told["data"]["result"].as_array()?.len())
}

#[test]
fn every_query_of_the_dashboard_finds_what_a_gateway_tells() {
    if missing("prometheus") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contrib");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (admin, prometheus, gone) = (free_address(), free_address(), free_address());
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: {admin}\nupstreams: {{ gone: http://{gone} }}\nendpoints: {{ GET /gone: gone /x }}\n"
    );
    std::fs::write(folder.join("gateway.yaml"), config).unwrap();
    let gateway = Gateway::run(folder.join("gateway.yaml"));
    let rules = std::fs::canonicalize(contrib("prometheus/alerts.yml")).unwrap();
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\nscrape_configs:\n  - job_name: crocodile-pear\n    \
         static_configs: [{{ targets: ['{admin}'] }}]\n",
        rules.display()
    );
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let server = Command::new("prometheus")
        .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={prometheus}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Program(server.unwrap());
    let count = "http_server_request_duration_seconds_count";
    until("requests in Prometheus", || {
        get(gateway.address, "/gone").unwrap();
        // Prometheus asks the gateway once a second, so more requests would show nothing sooner.
        pause(Duration::from_millis(200));
        query(prometheus, &format!("increase({count}[1m]) > 0")).is_some_and(|series| series > 0)
    });
    let dashboard: Value = serde_json::from_slice(&std::fs::read(contrib("grafana/dashboard.json")).unwrap()).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let written = target["expr"].as_str().unwrap();
            let expression = written.replace("$job", ".+").replace("$instance", ".+").replace("$__rate_interval", "1m");
            let found = query(prometheus, &expression).unwrap();
            // This gateway has no TLS.
            assert!(found > 0 || written.contains("certificate"), "{}: {expression}", panel["title"]);
        }
    }
    let rules: Value = serde_json::from_str(&get(prometheus, "/api/v1/rules").unwrap()).unwrap();
    for rule in rules["data"]["groups"][0]["rules"].as_array().unwrap() {
        assert_ne!(rule["health"], "err", "{rule}");
    }
}
