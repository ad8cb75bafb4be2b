//! `probe`, run as an operator runs it, on servers that keep connections and on one that does not.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

/// A server that closes after so many answers.
fn server(answers: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/item", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(stream, answers));
        }
    });
    url
}

fn serve(stream: TcpStream, answers: usize) -> Option<()> {
    let mut stream = BufReader::new(stream);
    for _ in 0..answers {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
    }
    None
}

fn probe(url: &str, more: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).args(["probe", url, "--calls", "30"]).args(more).output();
    let output = output.unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn how_long_connections_are_kept_is_told() {
    for (answers, told) in
        [(1, "closed after every answer"), (7, "closed after 7 answers"), (1_000, "kept over 30 calls")]
    {
        let (code, text) = probe(&server(answers), &[]);
        assert!(code == Some(0) && text.contains(told) && text.contains("200, 2 bytes"), "{text}");
    }
}

#[test]
fn scripts_read_json() {
    let (code, text) = probe(&server(7), &["--json"]);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &found["connections"]["closed_after"]), (Some(0), &7.into()));
    assert!(found["times"]["total_cold"]["p99_ms"].as_f64().is_some_and(|time| time > 0.0), "{text}");
}

#[test]
fn a_server_that_is_not_there_is_a_problem() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(probe(&format!("http://{address}/"), &[]), (Some(1), "error: server: connection refused\n".to_owned()));
    let (code, text) = probe("ftp://127.0.0.1/", &[]);
    assert!(code == Some(1) && text.contains("only http URLs"), "{text}");
}
