//! Servers that cannot be measured, or not to the end.

use std::time::{Duration, Instant};

use crate::probe::run::{http, https, json, probe};
use crate::probe::server::{Habits, Then, closes, http1, listen, replies, says, speak1};
use crate::stage::absent::nobody;

#[test]
fn a_server_that_is_not_there_is_a_problem() {
    let (_held, address) = nobody().unwrap();
    let told = probe(&format!("http://{address}/"), &[]);
    assert_eq!((told.code, told.out.as_str()), (Some(1), ""));
    assert_eq!(told.err, "error: connection refused: nothing listens there\n");
}

#[test]
fn a_server_that_says_nothing_costs_no_more_than_it_may() {
    let port = says(b"");
    let begun = Instant::now();
    let told = probe(&http(port), &["--timeout", "300ms"]);
    let wanted = "error: no answer to the request within 300 ms\n  `--timeout` waits longer\n";
    assert_eq!((told.code, told.err.as_str()), (Some(1), wanted));
    let told = probe(&https(port), &["--timeout", "300ms"]);
    assert_eq!(told.err, wanted.replace("answer to the request", "end of the TLS handshake"));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_a_broken_server_does_is_told() {
    const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
    for (port, wanted) in [
        (closes(), "error: the upstream closed the connection before it answered\n"),
        (says(b"220 mail.test ESMTP\r\n"), "error: the upstream's answer is not HTTP/1.1\n"),
        (replies(b"hello\r\n", Then::Close), "error: the upstream's answer is not HTTP/1.1\n"),
        (replies(HALF, Then::Close), "error: the upstream's answer ended before it was whole\n"),
    ] {
        let told = probe(&http(port), &[]);
        assert_eq!((told.code, told.out.as_str(), told.err.as_str()), (Some(1), "", wanted));
    }
    let told = probe(&http(replies(HALF, Then::Hang)), &["--timeout", "300ms"]);
    assert_eq!(told.err, "error: the answer does not end within 300 ms\n  `--timeout` waits longer\n");
    let told = probe(&https(closes()), &[]);
    assert_eq!((told.code, told.err.as_str()), (Some(1), "error: the upstream ended the TLS handshake\n"));
}

#[test]
fn the_limit_ends_the_measurement_and_what_was_measured_is_told() {
    let port = http1(Habits { pause: Duration::from_millis(100), ..Habits::default() });
    let found = json(&http(port), &["--limit", "2s", "--calls", "5000", "--requests", "5000", "--idle", "10m"]);
    assert_eq!(found["limit_ms"], 2_000.0);
    assert!(found["took_ms"].as_f64().unwrap() < 4_000.0, "{found:#}");
    let calls = found["times"][0]["calls"].as_u64().unwrap();
    assert!((1..100).contains(&calls) && found["advice"]["yaml"].is_string(), "{found:#}");
    assert!(found["connections"][0]["requests_ended_by"].is_null() && found["problems"] == serde_json::json!([]));
}

#[test]
fn a_server_that_goes_away_is_told_with_what_was_measured() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let taken = Arc::new(AtomicUsize::new(0));
    // Two to try versions and one that tries whether there is anybody; one that counts requests, two that are timed.
    let port = listen(move |stream| {
        let good = taken.fetch_add(1, Ordering::Relaxed) < 6;
        async move { if good { speak1(stream, Habits::default()).await } else { None } }
    });
    let told = probe(&http(port), &["--calls", "20"]);
    let wanted = "error: HTTP/1.1 cold: 3 of 4 calls failed: the upstream closed the connection before it answered\n";
    assert!(told.code == Some(1) && told.err.replace("\n  ", " ").contains(wanted), "{}", told.err);
    assert!(told.out.contains("1 of 20 calls a row"), "{}", told.out);
}

#[test]
fn answers_that_change_are_a_problem() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = Arc::new(AtomicUsize::new(0));
    let port = listen(move |mut stream| {
        let asked = asked.clone();
        async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let _ = stream.read(&mut [0; 4096]).await.ok()?;
            let status = if asked.fetch_add(1, Ordering::Relaxed) < 5 { "200 OK" } else { "429 Too Many Requests" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.ok()
        }
    });
    let told = probe(&http(port), &["--calls", "20"]);
    assert!(told.code == Some(1) && told.out.contains("times in ms"), "{}", told.out);
    assert!(told.err.contains("the upstream answered 200 (") && told.err.contains("429 ("), "{}", told.err);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let missing = ["--ca", "no-such-file.pem"];
    for (url, more, told) in [
        ("ftp://127.0.0.1/", &[][..], "only http and https URLs"),
        ("127.0.0.1:80/x", &[], "http://HOST:PORT/PATH"),
        ("http://127.0.0.1/", &["--insecure"], "--ca, --certificate and --insecure are for https URLs"),
        ("https://127.0.0.1/", &missing, "--ca no-such-file.pem: the file cannot be read"),
        ("https://127.0.0.1/", &["--insecure", "--ca", "x"], "cannot be used with"),
        ("https://127.0.0.1/", &["--key", "x"], "--certificate <FILE>"),
        ("http://127.0.0.1/", &["--calls", "1"], "2..=5000"),
        ("http://127.0.0.1/", &["--limit", "2h"], "it is from 1s to 1h"),
        ("http://127.0.0.1/", &["--timeout", "5"], "add the unit: `5s` or `5ms`"),
        ("http://127.0.0.1/", &["-H", "connection: close"], "belongs to the connection"),
    ] {
        let output = probe(url, more);
        assert!(output.code == Some(2) && output.err.contains(told), "{url} {more:?}: {}", output.err);
        assert!(output.out.is_empty() && output.err.contains("--help"), "{}", output.err);
    }
}
