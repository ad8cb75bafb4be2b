//! A gateway with a configuration, and what it answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

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
    Gateway::start(["run".as_ref(), file.as_os_str()], []).unwrap()
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
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    write!(stream, "{call} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// The answer to a request with this token.
pub fn bearer(gateway: &Gateway, call: &str, token: &str) -> Answer {
    send(gateway, call, &[format!("authorization: Bearer {token}")])
}

/// Waits until it is so.
pub fn until(so: impl Fn() -> bool) {
    crate::stage::until("it never is so", so);
}
