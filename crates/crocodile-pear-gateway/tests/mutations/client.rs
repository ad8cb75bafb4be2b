//! Clients: what they send, and what must come back.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::mutations::mutate::{REQUESTS, dice, mutate};
use crate::mutations::upstream::belongs;
use crate::stage::PATIENCE;
use crate::stage::client::rest;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a message with faults, and a good one behind it.
pub fn ask_oddly(address: SocketAddr, seed: u64, id: u64) {
    let mut dice = dice(seed, id);
    let message = mutate(dice.of(&REQUESTS), &mut dice);
    let told = format!("SEED={seed}, {id}: {}", message.escape_ascii());
    let mut stream = connect(address);
    // Who has been refused already may have been closed.
    let _ = stream.write_all(&message).and_then(|()| stream.write_all(b"GET /last HTTP/1.1\r\nhost: h\r\n\r\n"));
    let _ = stream.shutdown(Shutdown::Write);
    let read = rest(stream, &told);
    let text = String::from_utf8_lossy(&read);
    let Some(refused) = text.find("\r\nconnection: close\r\n") else { return };
    let after = text[refused..].matches("HTTP/1.1 ").count();
    assert_eq!(after, 0, "{told}: an answer follows the last one: {text}");
}

/// Asks for an answer with faults.
pub fn ask_for_oddity(address: SocketAddr, seed: u64, id: u64) {
    let mut stream = connect(address);
    write!(stream, "GET /odd/{id} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
    let read = rest(stream, &format!("SEED={seed}, /odd/{id}"));
    let text = String::from_utf8_lossy(&read);
    assert!(text.starts_with("HTTP/1.1 "), "SEED={seed}, /odd/{id}: {text}");
    let other = text.lines().find_map(|line| line.strip_prefix("x-id: ")).filter(|named| !belongs(named, id));
    assert_eq!(other, None, "SEED={seed}, /odd/{id} got the answer to another request");
}

pub fn ask_plainly(address: SocketAddr) {
    let mut stream = connect(address);
    stream.write_all(b"GET /plain HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
    let read = rest(stream, "a plain request");
    assert!(read.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", read.escape_ascii());
}
