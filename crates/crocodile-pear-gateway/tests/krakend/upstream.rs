//! The upstream of both: it answers by the first segment of the path, and notes what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A call, as far as it has to be the same. The query is sorted: Go writes it so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub target: String,
    pub query: Vec<String>,
    pub fields: Vec<String>,
    pub body: String,
}

pub struct Upstream {
    pub address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// The fields that are compared.
const FIELDS: [&str; 6] = ["x-a", "x-b", "authorization", "accept-language", "cookie", "content-type"];

const PERSON: &str = r#"{"id":7,"name":"Ada","tags":["a","b"],"address":{"city":"Lund","zip":{"code":1}},"data":{"x":1,"y":{"z":2}},"empty":{},"nil":null}"#;

fn answer(name: &str) -> (&'static str, &'static str) {
    match name {
        "json" => ("200 OK", PERSON),
        "list" => ("200 OK", r#"[{"id":1,"n":"a"},{"id":2}]"#),
        "other" => ("200 OK", r#"{"id":9,"more":true}"#),
        "text" => ("200 OK", "hello"),
        "created" => ("201 Created", r#"{"id":8}"#),
        "fail" => ("503 Service Unavailable", r#"{"error":"x"}"#),
        "broken" => ("200 OK", r#"{"a":"#),
        "empty" => ("204 No Content", ""),
        _ => ("404 Not Found", r#"{"error":"m"}"#),
    }
}

impl Upstream {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = calls.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                thread::spawn(move || play(stream, &noted));
            }
        });
        Upstream { address, calls }
    }

    /// The calls since the last time, sorted: calls side by side come in any order.
    pub fn take(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        calls.sort();
        calls
    }
}

/// Answers the calls of a connection.
fn play(stream: TcpStream, calls: &Mutex<Vec<Call>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let call = read(&mut reader)?;
        let path = call.target.split(' ').nth(1)?.to_owned();
        calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        let name = path.split('/').nth(1).unwrap_or_default();
        let (status, body) = answer(name);
        let kind = if name == "text" { "text/plain" } else { "application/json" };
        let length = if name == "empty" { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        // In one write: several would wait for each other.
        let answer = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}\r\n{body}");
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

fn read(reader: &mut impl BufRead) -> Option<Call> {
    let first = line(reader)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut query: Vec<String> = query.split('&').filter(|part| !part.is_empty()).map(decoded).collect();
    query.sort();
    let (mut fields, mut length, mut chunked) = (Vec::new(), 0, false);
    loop {
        let line = line(reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "transfer-encoding" => chunked = true,
            name if FIELDS.contains(&name) => fields.push(format!("{name}: {}", value.trim())),
            _ => {}
        }
    }
    fields.sort();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    while chunked {
        let size = usize::from_str_radix(&line(reader)?, 16).ok()?;
        let mut chunk = vec![0; size];
        reader.read_exact(&mut chunk).ok()?;
        body.extend(chunk);
        line(reader)?;
        chunked = size > 0;
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Call { target: format!("{method} {path}"), query, fields, body })
}

/// Go writes a space as `+`.
fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// A line without its end; none where the connection ends.
fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (reader.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
}
