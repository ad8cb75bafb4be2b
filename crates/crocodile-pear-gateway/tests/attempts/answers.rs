//! Answers of an upstream in HTTP/1.1 that two readers could read in two ways, or that do not end.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::attempts::{Attempt, By, PASS, Play};

/// So many bytes are written to what does not end, if they are taken.
const ENDLESS: usize = 64 << 20;

/// The number of chunks in a body of one-byte chunks. A chunk that is held takes 32 bytes: all copies together would take five times the
/// memory that they may take.
const CHUNKS: usize = 1 << 20;

/// Reads a request, which comes in one read: its head is small.
fn hear(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read(&mut [0; 4096]).map(drop)
}

fn whole(bytes: &'static [u8]) -> Play {
    Box::new(move |stream| {
        hear(stream)?;
        stream.write_all(bytes)
    })
}

/// `start`, then `piece` over and over.
fn endless(start: &'static [u8], piece: &'static [u8]) -> Play {
    repeated(start, piece, ENDLESS / piece.len())
}

fn repeated(start: &'static [u8], piece: &'static [u8], times: usize) -> Play {
    Box::new(move |stream| {
        hear(stream)?;
        stream.write_all(start)?;
        let at_once = 1 + (1 << 16) / piece.len();
        let many = piece.repeat(at_once);
        (0..times / at_once).try_for_each(|_| stream.write_all(&many))
    })
}

/// An answer to each request, with another one behind it that nobody asked for.
fn poison(stream: &mut TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 4096])? > 0 {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOKHTTP/1.1 418 Poison\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

const REFUSED: &[&str] = &["502"];
const CUT: &[&str] = &["200 cut", "502"];

/// Heads that are refused.
const HEADS: [(&str, &[u8]); 34] = [
    ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc"),
    ("two lengths in one field", b"HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nabc"),
    ("a length with a sign", b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nab"),
    ("a negative length", b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nab"),
    ("a length of 2^64", b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\nab"),
    ("a length in hexadecimal", b"HTTP/1.1 200 OK\r\ncontent-length: 0x2\r\n\r\nab"),
    ("a length in letters", b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nab"),
    ("an empty length", b"HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nab"),
    (
        "a length and chunks",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ),
    ("chunks twice", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"),
    (
        "chunks before another coding",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, identity\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ),
    ("an unknown transfer coding", b"HTTP/1.1 200 OK\r\ntransfer-encoding: cow\r\n\r\nab"),
    ("chunks with a control", b"HTTP/1.1 200 OK\r\ntransfer-encoding: \x0bchunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"),
    ("chunks in HTTP/1.0", b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"),
    ("a space before the colon", b"HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\nab"),
    ("a line that is folded", b"HTTP/1.1 200 OK\r\nx: a\r\n content-length: 9\r\ncontent-length: 2\r\n\r\nab"),
    ("a first line of space", b"HTTP/1.1 200 OK\r\n x: a\r\ncontent-length: 2\r\n\r\nab"),
    ("a bare CR in a value", b"HTTP/1.1 200 OK\r\nx: a\rb: c\r\ncontent-length: 2\r\n\r\nab"),
    ("a NUL in a value", b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 2\r\n\r\nab"),
    ("a field without a colon", b"HTTP/1.1 200 OK\r\nxyz\r\ncontent-length: 2\r\n\r\nab"),
    ("a field without a name", b"HTTP/1.1 200 OK\r\n: a\r\ncontent-length: 2\r\n\r\nab"),
    ("a name with a space", b"HTTP/1.1 200 OK\r\na b: c\r\ncontent-length: 2\r\n\r\nab"),
    ("a name with a control", b"HTTP/1.1 200 OK\r\na\x01: c\r\ncontent-length: 2\r\n\r\nab"),
    ("a status of two digits", b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nab"),
    ("a status of four digits", b"HTTP/1.1 2000 OK\r\ncontent-length: 2\r\n\r\nab"),
    ("a status of letters", b"HTTP/1.1 abc OK\r\ncontent-length: 2\r\n\r\nab"),
    ("a status of 000", b"HTTP/1.1 000 OK\r\ncontent-length: 2\r\n\r\nab"),
    ("another version", b"HTTP/3.0 200 OK\r\ncontent-length: 2\r\n\r\nab"),
    ("another protocol", b"ICY 200 OK\r\ncontent-length: 2\r\n\r\nab"),
    ("no HTTP at all", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("nothing", b""),
    ("a head without its end", b"HTTP/1.1 200 OK\r\nx: a\r\n"),
    (
        "an upgrade that nobody wanted",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    ),
    ("HTTP/2 to HTTP/1.1", b"\0\0\0\x04\0\0\0\0\0"),
];

/// Bodies that break off, behind a head that is sound.
const BODIES: [(&str, &[u8]); 12] = [
    ("a chunk of 2^64", b"10000000000000000\r\nab"),
    ("a chunk with a sign", b"+2\r\nab\r\n0\r\n\r\n"),
    ("a chunk in 0x", b"0x2\r\nab\r\n0\r\n\r\n"),
    ("a chunk without a size", b"\r\nab\r\n0\r\n\r\n"),
    ("a chunk that is longer than it says", b"2\r\nabc\r\n0\r\n\r\n"),
    ("a chunk that is shorter than it says", b"3\r\nab\r\n0\r\n\r\n"),
    ("a chunk with a space before its size", b" 2\r\nab\r\n0\r\n\r\n"),
    ("a chunk line that ends in CR", b"2\rab\r\n0\r\n\r\n"),
    ("a chunk with a NUL in its extension", b"2;a=\0\r\nab\r\n0\r\n\r\n"),
    ("no last chunk", b"2\r\nab\r\n"),
    ("trailers without a colon", b"2\r\nab\r\n0\r\nxyz\r\n\r\n"),
    ("trailers without an end", b"2\r\nab\r\n0\r\nx: y\r\n"),
];

pub fn attempts() -> Vec<Attempt> {
    let attempt =
        |name: String, ends, play| Attempt { name, ends, by: By::Upstream { endpoint: PASS, settings: "", play } };
    let mut attempts: Vec<Attempt> =
        HEADS.into_iter().map(|(name, bytes)| attempt(format!("answer: {name}"), REFUSED, whole(bytes))).collect();
    for (name, body) in BODIES {
        let play: Play = Box::new(move |stream| {
            hear(stream)?;
            stream.write_all(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", body].concat())
        });
        attempts.push(attempt(format!("answer: {name}"), CUT, play));
    }
    let start = b"HTTP/1.1 200 OK\r\n";
    attempts.extend([
        attempt(
            "answer: interim answers without an end".to_owned(),
            REFUSED,
            endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        ),
        attempt("answer: empty lines without an end".to_owned(), REFUSED, endless(b"", b"\r\n")),
        attempt("answer: a reason without an end".to_owned(), REFUSED, endless(b"HTTP/1.1 200 ", b"OK ")),
        attempt("answer: a field without an end".to_owned(), REFUSED, endless(b"HTTP/1.1 200 OK\r\nx: ", b"yyyy")),
        attempt("answer: fields without an end".to_owned(), REFUSED, endless(start, b"x: y\r\n")),
        attempt("answer: a field name without an end".to_owned(), REFUSED, endless(start, b"x")),
        attempt(
            "answer: a chunk extension without an end".to_owned(),
            CUT,
            endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;", b"a=b;"),
        ),
        attempt(
            "answer: trailers without an end".to_owned(),
            CUT,
            endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", b"x: y\r\n"),
        ),
        attempt(
            "answer: chunks of one byte".to_owned(),
            CUT,
            repeated(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n", CHUNKS),
        ),
        attempt("answer: one behind it that nobody asked for".to_owned(), &["200"], Box::new(poison)),
    ]);
    attempts
}
