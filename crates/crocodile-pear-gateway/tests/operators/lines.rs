//! Lines that clients and upstreams have a part in: of the access log, of the log, of metrics.

use std::io::Write as _;

use crate::stage::client::exchange;
use crate::stage::found;
use crate::stage::gateway::Gateway;
use crate::stage::logs::Folder;
use crate::stage::scene::Client;
use crate::stage::scratch;
use crate::stage::shop::{self, Shop};

/// The characters that turn lines around, end them, clear a screen, or look like the end of a field.
const EVIL: [&str; 8] = [
    "\u{9b}2J",
    "\u{202e}",
    "\u{2066}x\u{2069}",
    "\u{85}",
    "\u{2028}",
    "\\\" status=200 \\\"",
    "\" user=\"root",
    "\u{e0041}\u{200b}",
];

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

#[test]
fn what_a_client_sends_stays_inside_its_field_of_its_line() {
    for format in ["text", "json", "common", "combined", "'{$method} {$target} {$headers[\"user-agent\"]}'"] {
        let folder = Folder::new(&format!("evil-{}", format.len()));
        let gateway = folder.start(&format!("{{ format: {format}, query: true, to: FOLDER/access.log }}"));
        let mut count = 0;
        for evil in EVIL {
            for request in [
                format!("GET /hello/{evil} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"),
                format!("GET /hello/a?q={evil} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"),
                format!(
                    "GET /hello/a HTTP/1.1\r\nhost: h\r\nuser-agent: {evil}\r\nreferer: {evil}\r\nconnection: close\r\n\r\n"
                ),
                format!("GET /hello/a HTTP/1.1\r\nhost: h\r\nx-request-id: {evil}\r\nconnection: close\r\n\r\n"),
                format!("GET /hello/a HTTP/1.1\r\nhost: h\r\nauthorization: Basic {evil}\r\nconnection: close\r\n\r\n"),
                format!("GET /hello/a HTTP/1.1\r\nhost: {evil}\r\nconnection: close\r\n\r\n"),
                format!("G{evil}T /hello/a HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"),
            ] {
                exchange(gateway.address, request);
                count += 1;
                folder.lines("access.log", count);
            }
        }
        let lines = folder.lines("access.log", count);
        assert_eq!(lines.len(), count);
        for line in lines {
            assert!(!line.contains(is_hidden), "{format}: {line:?}");
            if format == "json" {
                serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|fault| panic!("{fault}: {line}"));
            }
            // Nobody becomes a user of a line by a quote in a path.
            assert!(format != "text" || !line.contains(" user=\"root\""), "{line}");
        }
    }
}

/// A failure whose words come from an upstream, an expression with a client's text, and a value of the environment.
#[test]
fn a_line_of_a_failure_is_one_line_without_controls_and_secrets() {
    for format in ["text", "json"] {
        let shop = Shop::open(|_, stream| {
            let body = "{\"a\": \"\u{9b}2J\u{202e}\\n\\u001b[2J ERROR forged\"}";
            stream.write_all(&shop::answer(200, "content-type: application/json\r\n", body))
        });
        let config = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 1\nlog: {{ format: {format}, level: debug }}\nupstreams: {{ shop: 'http://{}' }}\n\
             endpoints:\n  GET /type: {{ pipeline: [ request: shop /a, transform: '.a + 1' ] }}\n  \
             GET /error: {{ pipeline: [ request: shop /a, transform: 'error(.a)' ] }}\n  \
             GET /key: {{ pipeline: [ request: shop /a, transform: '{{(.a): 1}} + [.a]' ] }}\n  \
             GET /client/{{id}}: {{ pipeline: [ respond: {{ body: '$path.id + 1' }} ] }}\n  \
             GET /secret: {{ pipeline: [ respond: {{ body: '\"${{SECRET}}\" + 1' }} ] }}\n  \
             GET /secrets: {{ pipeline: [ request: {{ to: shop, path: /a, headers: {{ authorization: 'Bearer ${{SECRET}}' }} }}, transform: '.b + 1 | error' ] }}\n",
            shop.address
        );
        let file = scratch(format!("failures-{format}.yaml"));
        std::fs::write(&file, config).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
        command.arg("run").arg(&file).env("SECRET", "zq7-hunter2-zq7");
        let gateway = Gateway::begin(command).unwrap();
        let mut client = Client::connect(gateway.address);
        for path in ["/type", "/error", "/key", "/client/%C2%9B2J%E2%80%AE%0AERROR%20forged", "/secret", "/secrets"] {
            let answer = client.get(path);
            assert!(answer.status >= 400, "{path}: {}", answer.status);
            assert!(!answer.body.contains("hunter2"), "{path}: {}", answer.body);
            for (_, value) in &answer.fields {
                assert!(!value.contains("hunter2"), "{path}: {value}");
            }
            let failures = || gateway.said().matches("request failed").count();
            found(|| (failures() > 0).then_some(()), || format!("{path} is not in the log: {}", gateway.said()));
        }
        let said = gateway.said();
        for line in said.lines() {
            assert!(!line.contains(is_hidden), "{line:?}");
            assert!(!line.trim_start().starts_with("ERROR forged"), "{said}");
            assert!(format != "json" || serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
        assert!(!said.contains("hunter2"), "{said}");
    }
}

/// A consumer names itself: its name is one value of one label.
#[test]
fn a_name_of_a_consumer_makes_no_other_metric() {
    let names = ["a\"} 1\nforged_total{x=\"", "a\\", "a\\\"", "a\nforged_total 7", "\u{9b}2J", "=1+1", "{", "# TYPE x"];
    let folder = scratch("consumers");
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 1\nanalytics: {{ by: '$query.name', folder: '{}' }}\n\
         endpoints: {{ GET /a: {{ pipeline: [ respond: {{ body: 'true' }} ] }} }}\n",
        folder.display()
    );
    let _ = std::fs::remove_dir_all(&folder);
    let gateway = Gateway::of(config);
    let mut client = Client::connect(gateway.address);
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(client.get(&format!("/a?name={encoded}")).status, 200);
    }
    let admin = gateway.admin().unwrap();
    let metrics = found(
        || Some(Client::connect(admin).get("/metrics").body).filter(|text| text.contains("# TYPE x")),
        || "no consumer is counted".to_owned(),
    );
    for line in metrics.lines() {
        assert!(!line.starts_with("forged"), "{line}");
        assert!(
            line.starts_with('#')
                || line.starts_with("crocodile_pear")
                || line.starts_with(|c: char| c.is_ascii_lowercase()),
            "{line}"
        );
        let value = line.rsplit(' ').next().unwrap();
        assert!(line.starts_with('#') || value.parse::<f64>().is_ok(), "{line}");
    }
}
