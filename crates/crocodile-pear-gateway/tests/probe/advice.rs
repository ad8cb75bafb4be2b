//! The YAML that is advised: good to `check`, and right for the server.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustls::version::{TLS12, TLS13};

use crate::probe::run::{ca, http, https, json};
use crate::probe::server::{Habits, both, http1, http2, tls};
use crate::stage::authority::Authority;

/// The advised configuration, once `check` has called it good.
fn advised(name: &str, url: &str, more: &[&str]) -> String {
    let found = json(url, more);
    let yaml = found["advice"]["yaml"].as_str().unwrap_or_else(|| panic!("{found:#}")).to_owned();
    let (folder, file) = (Path::new(env!("CARGO_TARGET_TMPDIR")), format!("advice_{name}.yaml"));
    std::fs::write(folder.join(&file), format!("{yaml}endpoints:\n  GET /item: server /item\n")).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).args(["check", &file]).current_dir(folder).output();
    let told = String::from_utf8(check.unwrap().stdout).unwrap();
    assert_eq!(told, format!("{file}: good (1 endpoint, 1 upstream)\n"), "{yaml}");
    yaml
}

fn answers(answers: usize) -> Habits {
    Habits { answers, ..Habits::default() }
}

#[test]
fn a_plain_server_needs_little() {
    let yaml = advised("plain", &http(http1(answers(1_000))), &[]);
    assert!(yaml.contains("timeout: { connect: "), "{yaml}");
    assert!(!yaml.contains("keep:") && !yaml.contains("protocol:") && !yaml.contains("tls:"), "{yaml}");
}

#[test]
fn connections_are_kept_for_as_long_as_the_server_keeps_them() {
    let yaml = advised("closing", &http(http1(answers(1))), &[]);
    assert!(yaml.contains("keep: 0s"), "{yaml}");
    let idle = Habits { idle: Duration::from_millis(600), ..Habits::default() };
    let yaml = advised("idle", &http(http1(idle)), &["--idle", "20s"]);
    assert!(yaml.contains("keep: ") && yaml.contains("ms\n"), "{yaml}");
    let says = Habits { fields: "keep-alive: timeout=5\r\n", ..Habits::default() };
    let yaml = advised("announced", &http(http1(says)), &[]);
    assert!(yaml.contains("keep: 4s"), "{yaml}");
}

#[test]
fn the_protocol_is_named_where_the_usual_one_does_not_do() {
    let yaml = advised("h2c", &http(http2(answers(1_000))), &[]);
    assert!(yaml.contains("protocol: http2"), "{yaml}");
    let yaml = advised("shared", &http(both(answers(1), answers(1_000))), &[]);
    assert!(yaml.contains("protocol: http2") && !yaml.contains("keep:"), "{yaml}");
    let yaml = advised("either", &http(both(answers(1_000), answers(1_000))), &[]);
    assert!(!yaml.contains("protocol:"), "{yaml}");
}

#[test]
fn the_authority_is_named() {
    let authority = Authority::new();
    let port = tls(&authority.sign(&["localhost"]), &[&TLS12, &TLS13], &["h2", "http/1.1"], answers(1_000));
    let file = ca("it's ${advised}", &authority);
    let yaml = advised("tls", &https(port), &["--ca", &file]);
    assert!(yaml.contains("tls:\n      ca: '") && !yaml.contains("protocol:"), "{yaml}");
    let yaml = advised("insecure", &https(port), &["--insecure"]);
    assert!(yaml.contains("# tls: { ca: FILE }"), "{yaml}");
}

#[test]
fn what_the_gateway_would_refuse_is_found_by_trying() {
    // More than the gateway takes, and less than the client that measures.
    let long = format!("x-long: {}\r\n", "x".repeat(100_000));
    let port = http1(Habits { fields: long.leak(), ..Habits::default() });
    let found = json(&http(port), &[]);
    let what = found["problems"][0]["what"].as_str().unwrap_or_default();
    assert!(what.starts_with("a call as advised fails in the gateway: "), "{found:#}");
}
