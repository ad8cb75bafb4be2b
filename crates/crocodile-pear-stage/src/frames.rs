//! Frames of HTTP/2, written and read byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field, as it stands.
pub fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0], length(name.len()).as_slice(), name, &length(value.len()), value].concat()
}

/// RFC 7541, 5.1, with a prefix of seven bits.
fn length(length: usize) -> Vec<u8> {
    if length < 127 {
        return vec![u8::try_from(length).unwrap()];
    }
    let (mut bytes, mut left) = (vec![127], length - 127);
    while left >= 128 {
        bytes.push(u8::try_from(left % 128).unwrap() | 128);
        left /= 128;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes
}

/// The fields of a request.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect()
}

/// The fields of a request without others.
pub fn get(path: &str) -> Vec<u8> {
    block(&[(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", path)])
}

/// A whole request without a body.
pub fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get(path))
}

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A connection.
pub struct Raw(pub TcpStream);

impl Raw {
    /// Connects and greets.
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Raw(stream);
        raw.send([PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
        raw
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends until the other side has had enough. Whether all was taken.
    pub fn flood(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// The next frame of this kind.
    pub fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("the connection ended before a frame of kind {kind}"));
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Every frame to the end of the connection.
    pub fn rest(&mut self) -> Vec<Frame> {
        self.collect()
    }
}

impl Iterator for Raw {
    type Item = Frame;

    /// The next frame; nothing at the end of the connection.
    fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }
}
