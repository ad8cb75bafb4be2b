//! How many requests and how long a connection is kept for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::probe::run::{http, json, probe};
use crate::probe::server::{Habits, Then, both, http1, http2, listen, replies};

fn answers(answers: usize) -> Habits {
    Habits { answers, ..Habits::default() }
}

#[test]
fn how_many_requests_a_connection_takes_is_told() {
    for (number, told) in [
        (1, "HTTP/1.1  closed after every answer"),
        (7, "HTTP/1.1  closed after 7 requests"),
        (1_000, "HTTP/1.1  still open after 20 requests"),
    ] {
        let text = probe(&http(http1(answers(number))), &[]).good();
        assert!(text.contains(told) && text.contains("200, 2 bytes"), "{text}");
    }
}

#[test]
fn http2_says_goodbye_and_how_many_calls_it_takes_at_once() {
    let text = probe(&http(http2(answers(7))), &[]).good();
    assert!(text.contains("HTTP/2    closed after 7 requests (GOAWAY); 77 calls at once"), "{text}");
}

#[test]
fn how_long_a_connection_may_be_idle_is_measured() {
    let idle = Duration::from_secs(1);
    let habits = Habits { idle, fields: "Keep-Alive: timeout=9, max=50\r\n", ..Habits::default() };
    let found = json(&http(both(habits.clone(), habits)), &["--idle", "20s"]);
    for connection in found["connections"].as_array().unwrap() {
        let time = connection["idle_ms"].as_f64().unwrap();
        assert!((300.0..10_000.0).contains(&time) && connection["idle_ended_by"] == "close", "{found:#}");
    }
    let one = &found["connections"][0];
    assert_eq!((&one["announced_timeout_s"], &one["announced_max_requests"]), (&9.into(), &50.into()));
    let found = json(&http(http1(Habits::default())), &["--idle", "50ms"]);
    assert_eq!(found["connections"][0]["idle_ended_by"], Value::Null);
}

#[test]
fn every_way_of_a_plain_server_is_measured() {
    let found = json(&http(both(Habits::default(), Habits::default())), &[]);
    assert_eq!(found["http_versions"], json!(["1.1", "2"]));
    assert_eq!((&found["tls_versions"], &found["certificate"]), (&json!([]), &Value::Null));
    let times = found["times"].as_array().unwrap();
    let rows: Vec<_> =
        times.iter().map(|row| (row["http"].as_str().unwrap(), row["connection"].as_str().unwrap())).collect();
    assert_eq!(rows, [("1.1", "cold"), ("1.1", "kept"), ("2", "cold"), ("2", "kept")]);
    for row in times {
        let cold = row["connection"] == "cold";
        assert_eq!((row["connect"]["p50_ms"].is_f64(), &row["handshake"]["p99_ms"]), (cold, &Value::Null), "{found:#}");
        assert!(
            row["total"]["p99_ms"].as_f64() >= row["first_byte"]["p50_ms"].as_f64() && row["calls"] == 5,
            "{found:#}"
        );
    }
}

#[test]
fn a_kept_row_is_whole_though_connections_end_now_and_then() {
    let found = json(&http(http1(answers(3))), &["--calls", "50"]);
    assert_eq!((&found["times"][1]["connection"], &found["times"][1]["calls"]), (&json!("kept"), &json!(50)));
    let found = json(&http(http1(answers(1))), &[]);
    assert_eq!((found["times"].as_array().map(Vec::len), &found["connections"][0]["kept"]), (Some(1), &json!(false)));
}

#[test]
fn an_answer_in_http_1_0_is_told() {
    let port = replies(b"HTTP/1.0 200 OK\r\n\r\nok", Then::Close);
    let found = json(&http(port), &[]);
    assert_eq!((&found["http_versions"], &found["connections"][0]["kept"]), (&json!(["1.0"]), &json!(false)));
    assert_eq!((&found["status"], &found["body_bytes"]), (&json!(200), &json!(2)));
}

#[test]
fn what_is_given_goes_with_each_request() {
    let port = listen(|stream| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = stream;
        let mut head = [0; 4096];
        let read = stream.read(&mut head).await.ok()?;
        let known = String::from_utf8_lossy(&head[..read]).contains("authorization: Bearer x");
        let status = if known { "200 OK" } else { "401 Unauthorized" };
        stream
            .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .ok()
    });
    let status = |more: &[&str]| json(&http(port), more)["status"].clone();
    assert_eq!((status(&[]), status(&["-H", "Authorization: Bearer x"])), (json!(401), json!(200)));
    let text = probe(&http(port), &[]).good();
    assert!(text.contains("note: the answer is a 401"), "{text}");
}
