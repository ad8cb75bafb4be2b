//! Asks a gateway for its status.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::net::address::Address;

/// A gateway answers at once, or is not there.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than a status ever is.
const MOST: u64 = 16 << 20;

/// The status, or why there is none.
pub fn status(address: &Address, token: Option<&str>) -> Result<Value, String> {
    let answer = exchange(address, token).map_err(|error| format!("{address} does not answer: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{address} does not speak HTTP"))?;
    match head.split(' ').nth(1) {
        Some("200") => serde_json::from_str(body).map_err(|_| format!("{address} is no `admin` of this version")),
        Some("401") => Err("the gateway asks for its token: set CROCODILE_PEAR_ADMIN_TOKEN".to_owned()),
        _ => Err(format!("{address} is not the `admin` address of a gateway")),
    }
}

fn exchange(address: &Address, token: Option<&str>) -> std::io::Result<String> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream, "localhost", token)
        }
        _ => {
            let place = address.to_string();
            let stream = TcpStream::connect(&place)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream, &place, token)
        }
    }
}

fn ask(mut stream: impl Read + Write, host: &str, token: Option<&str>) -> std::io::Result<String> {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    // In HTTP/1.0 an answer ends with its connection.
    write!(stream, "GET /status HTTP/1.0\r\nhost: {host}\r\n{token}\r\n")?;
    let mut answer = String::new();
    stream.take(MOST).read_to_string(&mut answer)?;
    Ok(answer)
}
