//! The upstream of both: it answers by the first segment of the path, and notes what it was asked.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::stage::shop::{Asked, Shop};

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
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = calls.clone();
        let shop = Shop::open(move |asked, stream| {
            let call = call(asked);
            let name = call.target.split('/').nth(1).unwrap_or_default();
            let (status, body) = answer(name);
            let kind = if name == "text" { "text/plain" } else { "application/json" };
            let length = if name == "empty" { String::new() } else { format!("content-length: {}\r\n", body.len()) };
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            // In one write: several would wait for each other.
            let answer = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}\r\n{body}");
            stream.write_all(answer.as_bytes())
        });
        Upstream { address: shop.address, calls }
    }

    /// The calls since the last time, sorted: calls side by side come in any order.
    pub fn take(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        calls.sort();
        calls
    }
}

fn call(asked: &Asked) -> Call {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let mut query: Vec<String> = query.split('&').filter(|part| !part.is_empty()).map(decoded).collect();
    query.sort();
    let fields = asked.fields.iter().filter(|(name, _)| FIELDS.contains(&name.as_str()));
    let mut fields: Vec<String> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
    fields.sort();
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    Call { target: format!("{} {path}", asked.method), query, fields, body }
}

/// Go writes a space as `+`.
fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned()
}
