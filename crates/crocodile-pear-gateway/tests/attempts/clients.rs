//! Bodies and frames of a client: coded bombs, messages of gRPC-Web and frames of WebSocket that lie about their lengths.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::attempts::bombs::gzip;
use crate::attempts::{Attempt, By, ask};
use crate::stage::accept::Accepting;
use crate::stage::asked::Asked;
use crate::stage::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, block, frame};
use crate::stage::pause;
use crate::stage::shop::answer;

const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

/// How long an upstream reads nothing behind an upgrade, before it leaves.
const DEAF: Duration = Duration::from_millis(500);

/// Answers with the length of what it reads; behind an upgrade it reads nothing.
pub fn upstream() -> SocketAddr {
    let accepting = Accepting::begin(|mut stream| {
        let mut reader = std::io::BufReader::new(stream.try_clone()?);
        while let Some(asked) = Asked::read(&mut reader)? {
            if asked.target == "/socket" {
                stream.write_all(SWITCH)?;
                pause(DEAF);
                return Ok(());
            }
            stream.write_all(&answer(200, "", asked.body.len().to_string()))?;
        }
        Ok(())
    });
    accepting.address
}

/// Answers each call of HTTP/2 with one message that says it is 4 GiB long.
pub fn rpc() -> SocketAddr {
    let accepting = Accepting::begin(|mut stream| {
        stream.read_exact(&mut [0; PREFACE.len()])?;
        stream.write_all(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].concat())?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head)?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload)?;
            if head[3] == PING && head[4] == 0 {
                stream.write_all(&frame(PING, 1, 0, &payload))?;
            }
            if head[3] == HEADERS {
                let on = u32::from_be_bytes(head[5..].try_into().expect("four bytes"));
                let fields = block(&[(":status", "200"), ("content-type", "application/grpc")]);
                let ended = block(&[("grpc-status", "0")]);
                let message = [&[0, 0xff, 0xff, 0xff, 0xff][..], b"short"].concat();
                stream.write_all(&frame(HEADERS, END_HEADERS, on, &fields))?;
                stream.write_all(&frame(DATA, 0, on, &message))?;
                stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, on, &ended))?;
            }
        }
    });
    accepting.address
}

fn post(path: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\n{fields}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Upgrades, and writes this over and over until nothing is taken any more.
fn socket(address: SocketAddr, start: &[u8], piece: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("the gateway listens");
    stream.set_read_timeout(Some(crate::stage::PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(DEAF / 2)).expect("a socket");
    let ask = "GET /socket HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n";
    stream.write_all(ask.as_bytes()).expect("the head is taken");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    let status = String::from_utf8_lossy(&status[9..]).into_owned();
    let many = piece.repeat(1 + (1 << 16) / piece.len());
    let mut taken = stream.write_all(start);
    for _ in 0..1_000 {
        taken = taken.and_then(|()| stream.write_all(&many));
    }
    match taken {
        Err(error) if error.kind() == ErrorKind::WouldBlock => format!("{status} held"),
        Err(_) => format!("{status} closed"),
        Ok(()) => format!("{status} swallowed"),
    }
}

fn web(kind: &str, body: &[u8]) -> Vec<u8> {
    post("/s.S/call", &format!("content-type: {kind}\r\nx-grpc-web: 1\r\n"), body)
}

pub fn attempts() -> Vec<Attempt> {
    let bomb = gzip(&[b"[", vec![b' '; 64 << 20].as_slice(), b"]"].concat());
    let json = "content-type: application/json\r\n";
    let coded = |coding: &str| format!("{json}content-encoding: {coding}\r\n");
    let deep = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
    let (binary, text) = ("application/grpc-web", "application/grpc-web-text");
    let requests: Vec<(&str, &'static [&'static str], Vec<u8>)> = vec![
        ("a coded bomb for an expression", &["400", "413", "415"], post("/value", &coded("gzip"), &bomb)),
        ("a coded bomb for a schema", &["415"], post("/valid", &coded("gzip"), &bomb)),
        ("a coded bomb for the upstream", &["200"], post("/echo", &coded("gzip"), &bomb)),
        ("a list of a million levels for an expression", &["400", "413"], post("/value", json, &deep)),
        ("a list of a million levels for a schema", &["400", "413", "422"], post("/valid", json, &deep)),
        ("a body of more than it may be", &["413"], post("/value", json, &vec![b' '; 20 << 20])),
        ("gRPC-Web: a message of 4 GiB", &["200", "200 cut"], web(binary, &[0, 255, 255, 255, 255, 1])),
        ("gRPC-Web: a head without its end", &["200", "200 cut"], web(binary, &[0, 0, 0])),
        ("gRPC-Web: an unknown flag", &["200", "200 cut"], web(binary, &[0x7f, 0, 0, 0, 1, 1])),
        (
            "gRPC-Web: trailers of a client",
            &["200", "200 cut", "400"],
            web(binary, &[0x80, 0, 0, 0, 5, b'a', b':', b'b', 13, 10]),
        ),
        ("gRPC-Web: no base64", &["200", "400", "closed"], web(text, b"@@@@")),
        ("gRPC-Web: base64 with its end in the middle", &["200", "200 cut", "400"], web(text, b"AAAAAAE=AAAAAAE=")),
        ("gRPC-Web: base64 that is cut", &["200", "400"], web(text, b"AAAAA")),
        ("gRPC-Web: nothing", &["200", "200 cut"], web(binary, b"")),
        ("gRPC-Web: 16 MiB of empty messages", &["200", "200 cut", "413"], web(binary, &[0; 5].repeat(3 << 20))),
    ];
    let asked = requests.into_iter().map(|(name, ends, request)| Attempt {
        name: format!("client: {name}"),
        ends,
        by: By::Client(Box::new(move |address| ask(address, "POST", &request))),
    });
    let sockets: [(&str, &[u8], &[u8]); 7] = [
        ("a frame of 2^63 bytes", &[0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4], &[0; 1024]),
        ("fragments without an end", &[0x02, 0x80, 0, 0, 0, 0], &[0x00, 0x80, 0, 0, 0, 0]),
        ("compressed frames", &[], &[0xc2, 0x82, 0, 0, 0, 0, 0x63, 0]),
        ("pings", &[], &[0x89, 0x80, 0, 0, 0, 0]),
        ("a ping of 65,535 bytes", &[0x89, 0xfe, 255, 255], &[0; 1024]),
        ("frames without a mask", &[], &[0x82, 0x01, 7]),
        ("what is no frame", &[], b"GET /poison HTTP/1.1\r\nhost: h\r\n\r\n"),
    ];
    let held = sockets.into_iter().map(|(name, start, piece)| Attempt {
        name: format!("WebSocket: {name}"),
        ends: &["101 held", "101 closed"],
        by: By::Client(Box::new(move |address| socket(address, start, piece))),
    });
    asked.chain(held).collect()
}
