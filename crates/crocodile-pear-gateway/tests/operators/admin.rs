//! The admin listener: what a page in an operator's browser, a name that points to this machine, and somebody without the token can do.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use crate::stage::client::{self, exchange};
use crate::stage::found;
use crate::stage::gateway::Gateway;
use crate::stage::names::{Manner, Names};

fn start(admin: &str) -> (Gateway, SocketAddr) {
    let gateway = Gateway::of(format!(
        "listen: 127.0.0.1:0\nadmin: {admin}\nendpoints: {{ GET /a: {{ pipeline: [ respond: {{ body: 'true' }} ] }} }}\n"
    ));
    let address = gateway.admin().unwrap();
    (gateway, address)
}

fn status(address: SocketAddr, request: &str) -> u16 {
    client::status(&exchange(address, request))
}

/// A name that somebody else's DNS has pointed here (DNS rebinding) serves nothing.
#[test]
fn the_admin_answers_under_no_name_that_others_give() {
    let (_gateway, admin) = start("{ address: 127.0.0.1:0, hosts: [ops.test] }");
    let get = |target: &str, fields: &str| {
        status(admin, &format!("GET {target} HTTP/1.1\r\n{fields}connection: close\r\n\r\n"))
    };
    for host in ["127.0.0.1", "localhost", "LocalHost:1", "[::1]:9090", "10.0.0.7", "ops.test", "OPS.TEST:80"] {
        assert_eq!(get("/status", &format!("host: {host}\r\n")), 200, "{host}");
    }
    let foreign = [
        "evil.test",
        "127.0.0.1.evil.test",
        "localhost.evil.test",
        "evil.test:9090",
        "ops.test.evil.test",
        "xops.test",
        "127.0.0.1@evil.test",
        "evil.test#127.0.0.1",
        "[::1].evil.test",
        "0x7f.1.evil.test",
        "127.0.0.1 evil.test",
        "localhost%00.evil.test",
        "\u{ff4c}ocalhost",
        "",
    ];
    for host in foreign {
        let status = get("/status", &format!("host: {host}\r\n"));
        assert!(matches!(status, 400 | 421), "{host}: {status}");
    }
    for (target, fields) in [
        ("http://evil.test/status", "host: 127.0.0.1\r\n"),
        ("/status", "host: 127.0.0.1\r\nhost: evil.test\r\n"),
        ("/status", "host: evil.test\r\nx-forwarded-host: 127.0.0.1\r\n"),
        ("/status", "host: evil.test\r\nforwarded: host=127.0.0.1\r\n"),
        ("/status", ""),
    ] {
        let status = get(target, fields);
        assert!(matches!(status, 400 | 421), "{target} {fields}: {status}");
    }
}

/// Cross-site request forgery.
#[test]
fn a_page_of_another_site_changes_nothing_and_reads_nothing() {
    let (_gateway, admin) = start("127.0.0.1:0");
    let send = |method: &str, target: &str, fields: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: {admin}\r\n{fields}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        exchange(admin, &request)
    };
    let status = client::status;
    let purge = |fields: &str| {
        let media = if fields.contains("content-type") { "" } else { "content-type: application/json\r\n" };
        status(&send("POST", "/cache/purge", &format!("{fields}{media}"), r#"{"all": true}"#))
    };
    assert_eq!(purge("content-type: text/plain\r\n"), 415, "a form cannot send it");
    assert_eq!(purge(""), 200, "a tool may");
    assert_eq!(purge(&format!("origin: http://{admin}\r\nsec-fetch-site: same-origin\r\n")), 200, "the page may");
    for fields in [
        "origin: http://evil.test\r\n",
        "origin: null\r\n",
        "origin: http://127.0.0.1\r\n",
        "origin: http://127.0.0.1.evil.test:9090\r\n",
        "origin: file://\r\n",
        "origin: \r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
        "origin: http://evil.test\r\ncontent-type: text/plain\r\n",
        "origin: http://evil.test\r\ncontent-type: application/x-www-form-urlencoded\r\n",
    ] {
        assert_eq!(purge(fields), 403, "{fields}");
    }
    // Reading by a script of another site, also as an image, a frame or a script of its own page.
    for target in ["/status", "/requests", "/metrics", "/watch", "/analytics", "/"] {
        for fields in ["origin: http://evil.test\r\n", "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n"] {
            assert_eq!(status(&send("GET", target, fields, "")), 403, "{target} {fields}");
        }
    }
    // No preflight is answered with leave, no GET purges, no field changes the method.
    let preflight =
        send("OPTIONS", "/cache/purge", "origin: http://evil.test\r\naccess-control-request-method: POST\r\n", "");
    assert!(!preflight.to_ascii_lowercase().contains("access-control-allow"), "{preflight}");
    assert_eq!(status(&send("GET", "/cache/purge", "", "")), 405);
    assert_eq!(status(&send("GET", "/cache/purge", "x-http-method-override: POST\r\n", "")), 405);
    assert_eq!(status(&send("GET", "/cache/purge?_method=POST", "", "")), 405);
    // A frame around the page could have its button clicked.
    let page = send("GET", "/", "", "").to_ascii_lowercase();
    assert!(page.contains("frame-ancestors 'none'") && page.contains("default-src 'none'"), "{page}");
    assert!(page.contains("x-content-type-options: nosniff"), "{page}");
}

#[test]
fn nobody_comes_past_the_token() {
    let (_gateway, admin) = start("{ address: 127.0.0.1:0, token: s3cret-token }");
    let get = |target: &str, fields: &str| {
        status(admin, &format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}connection: close\r\n\r\n"))
    };
    assert_eq!(get("/status", "authorization: Bearer s3cret-token\r\n"), 200);
    assert_eq!((get("/health", ""), get("/ready", "")), (200, 200));
    for fields in [
        "",
        "authorization: Bearer \r\n",
        "authorization: Bearer s3cret-toke\r\n",
        "authorization: Bearer s3cret-tokenx\r\n",
        "authorization: Bearer S3CRET-TOKEN\r\n",
        "authorization: Bearer ***\r\n",
        "authorization: Basic Og==\r\n",
        "authorization: Basic s3cret-token\r\n",
        "authorization: Digest s3cret-token\r\n",
        "x-authorization: Bearer s3cret-token\r\n",
        "cookie: token=s3cret-token\r\n",
        "proxy-authorization: Bearer s3cret-token\r\n",
    ] {
        assert_eq!(get("/status", fields), 401, "{fields}");
    }
    // Paths that look like those which are open.
    for target in [
        "/status?token=s3cret-token",
        "/health/../status",
        "/health/..%2fstatus",
        "/%2e/status",
        "//status",
        "/status/",
        "/STATUS",
        "/health;/status",
        "/health%00/status",
        "/health?/status",
        "http://127.0.0.1/status",
        "/metrics",
        "/requests",
        "/watch",
        "/analytics",
        "/",
    ] {
        let answer = exchange(admin, format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"));
        let open = answer.starts_with("HTTP/1.1 200") && target.starts_with("/health?");
        assert!(open || matches!(&answer[9..12], "400" | "401" | "404"), "{target}: {answer}");
        assert!(!answer.contains("uptime") && !answer.contains("# TYPE"), "{target}: {answer}");
    }
    assert_eq!(
        status(
            admin,
            "POST /cache/purge HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
        ),
        401
    );
    // The token is in no answer, and not in the log.
    for target in ["/status", "/metrics", "/requests", "/"] {
        let fields = "authorization: Bearer s3cret-token\r\n";
        let answer =
            exchange(admin, format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}connection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("s3cret-token"), "{target}");
    }
    assert!(!_gateway.said().contains("s3cret-token"));
}

/// A health check is answered while other clients are idle, slow, or do not read.
#[test]
fn health_is_answered_whoever_else_is_connected() {
    let (_gateway, admin) = start("127.0.0.1:0");
    let page = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = &page[..page.len() - 4];
    let open = |bytes: &str| {
        let mut stream = TcpStream::connect(admin).unwrap();
        // It may be closed by now.
        let _ = stream.write_all(bytes.as_bytes());
        stream
    };
    let well = || {
        for path in ["/health", "/ready"] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            assert_eq!(status(admin, &request), 200);
        }
    };
    for bytes in ["", head, &page.repeat(200)] {
        let crowd: Vec<TcpStream> = (0..300).map(|_| open(bytes)).collect();
        well();
        drop(crowd);
    }
    let metrics = exchange(admin, page.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
    let series = "crocodile_pear_admin_connections_closed_total{reason=\"room\"} ";
    let closed = metrics.lines().find_map(|line| line.strip_prefix(series)).unwrap();
    assert!(closed.parse::<u64>().unwrap() >= 172, "{closed}");
}

#[test]
fn readiness_names_what_cannot_be_resolved_where_that_is_wanted() {
    let names = Names::new(&[]);
    names.behave(Manner::Code(2));
    let ready = |admin: &str| {
        let gateway = Gateway::of(format!(
            "listen: 127.0.0.1:0\nadmin: {admin}\nresolver: {}\nupstreams: {{ shop: 'http://shop.test', here: 'http://127.0.0.1:1' }}\n\
             endpoints: {{ GET /a: shop /a, GET /b: here /b }}\n",
            names.address
        ));
        let address = gateway.admin().unwrap();
        (gateway, address)
    };
    let get = |admin: SocketAddr, fields: &str| {
        exchange(admin, format!("GET /ready HTTP/1.1\r\nhost: localhost\r\n{fields}connection: close\r\n\r\n"))
    };
    let (_gateway, admin) = ready("127.0.0.1:0");
    assert!(get(admin, "").starts_with("HTTP/1.1 200"), "names do not count where that is not written");
    let (_gateway, admin) = ready("{ address: 127.0.0.1:0, ready: names, token: sesame }");
    let known = "authorization: Bearer sesame\r\n";
    found(
        || get(admin, known).contains("no address is known for shop.test of the upstream shop: ").then_some(()),
        || get(admin, known),
    );
    let told = get(admin, "");
    assert!(told.starts_with("HTTP/1.1 503") && !told.contains("shop"), "{told}");
    names.set(&["127.0.0.1"]);
    found(|| get(admin, "").starts_with("HTTP/1.1 200").then_some(()), || get(admin, known));
}
