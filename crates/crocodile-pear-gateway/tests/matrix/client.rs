//! A client that sends a body of any length.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

/// The bytes of a body repeat after so many.
const PATTERN: usize = 64 << 10;

/// The body, from its begin: digits.
pub fn pattern() -> Vec<u8> {
    let digits = (0..PATTERN).map(|at| b'0' + (at % 7) as u8);
    digits.collect()
}

/// Sends a request with so many bytes, and gives the status of its answer.
pub fn send(address: SocketAddr, method: &str, target: &str, body: u64) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let length =
        if body > 0 { format!("content-type: application/json\r\ncontent-length: {body}\r\n") } else { String::new() };
    write!(stream, "{method} {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{length}\r\n").unwrap();
    let mut out = stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        let (pattern, mut left) = (pattern(), body);
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(PATTERN);
            // A refusal may come before all is sent.
            if out.write_all(&pattern[..piece]).is_err() {
                return;
            }
            left -= piece as u64;
        }
    });
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    // A refusal may be followed by a reset.
    while let Ok(read) = stream.read(&mut buffer) {
        if read == 0 {
            break;
        }
        said.extend_from_slice(&buffer[..read]);
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
    sending.join().unwrap();
    let said = String::from_utf8_lossy(&said);
    said.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {said}"))
}
