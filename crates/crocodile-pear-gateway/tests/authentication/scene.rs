//! A gateway with a configuration, and what it answers.

use std::path::PathBuf;

use crate::stage::client::{exchange, status};
use crate::stage::gateway::Gateway;

/// Where a test has its files.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("authentication").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Starts a gateway with this configuration.
pub fn gateway(folder: &str, config: &str) -> Gateway {
    let file = self::folder(folder).join("gateway.yaml");
    std::fs::write(&file, format!("listen: 127.0.0.1:0\n{config}")).unwrap();
    Gateway::run(&file)
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends a request on a connection of its own. `fields` are whole lines.
pub fn send(gateway: &Gateway, call: &str, fields: &[String]) -> Answer {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    ask(gateway, &format!("{call} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n"))
}

/// The answer to a form.
pub fn post(gateway: &Gateway, path: &str, form: &str) -> Answer {
    let fields = format!("content-type: application/x-www-form-urlencoded\r\ncontent-length: {}", form.len());
    ask(gateway, &format!("POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n\r\n{form}"))
}

fn ask(gateway: &Gateway, request: &str) -> Answer {
    let answer = exchange(gateway.address, request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Answer { status: status(&answer), head: head.to_owned(), body: body.to_owned() }
}

/// The answer to a request with this token.
pub fn bearer(gateway: &Gateway, call: &str, token: &str) -> Answer {
    send(gateway, call, &[format!("authorization: Bearer {token}")])
}

/// Waits until it is so.
pub fn until(so: impl Fn() -> bool) {
    crate::stage::until("it never is so", so);
}
