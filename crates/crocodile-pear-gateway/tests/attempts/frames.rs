//! Frames of an upstream that speaks HTTP/2: floods, lies about lengths and windows, answers to nobody.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::attempts::{Attempt, By, PASS, Play};
use crate::stage::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, field, frame,
};

const PUSH_PROMISE: u8 = 5;
const FLOOD: usize = 100_000;

/// The head of an answer.
fn head(flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, 1, &block(&[(":status", "200")]))
}

/// A whole answer.
fn good() -> Vec<u8> {
    [head(0), frame(DATA, END_STREAM, 1, b"yes")].concat()
}

/// Greets, waits for the first request, and writes.
fn greeted(stream: &mut TcpStream, settings: &[u8]) -> std::io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface)?;
    stream.write_all(&frame(SETTINGS, 0, 0, settings))?;
    stream.write_all(&frame(SETTINGS, 1, 0, &[]))?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload)?;
        match head[3] {
            HEADERS => return Ok(()),
            PING if head[4] == 0 => stream.write_all(&frame(PING, 1, 0, &payload))?,
            _ => {}
        }
    }
}

/// Reads until the gateway has had enough.
fn linger(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 1 << 14];
    while stream.read(&mut bytes)? > 0 {}
    Ok(())
}

fn written(bytes: Vec<u8>) -> Play {
    Box::new(move |stream| {
        greeted(stream, &[])?;
        stream.write_all(&bytes)?;
        linger(stream)
    })
}

/// Over and over, then a good answer if the connection still stands.
fn flood(piece: Vec<u8>) -> Play {
    written([piece.repeat(FLOOD), good()].concat())
}

/// A field in HPACK's dynamic table, then references of one byte to it.
fn hpack(count: usize) -> Vec<u8> {
    let remembered = [&[0x40], &field(b"x", &[b'y'; 4_000])[1..]].concat();
    [block(&[(":status", "200")]), remembered, vec![0xbe; count]].concat()
}

fn continued(count: usize) -> Vec<u8> {
    let more = frame(CONTINUATION, 0, 1, &block(&[("x", &"y".repeat(16_000))]));
    [frame(HEADERS, 0, 1, &block(&[(":status", "200")])), more.repeat(count)].concat()
}

const SERVED: &[&str] = &["200"];
const REFUSED: &[&str] = &["502", "503"];
const EITHER: &[&str] = &["200", "502", "503", "504"];
const CUT: &[&str] = &["200 cut", "502"];

pub fn attempts() -> Vec<Attempt> {
    let length = |length: u32| [&length.to_be_bytes()[1..], &[DATA, 0], &1_u32.to_be_bytes()].concat();
    let table: Vec<(&str, &'static [&'static str], Play)> = vec![
        ("SETTINGS without an end", EITHER, flood(frame(SETTINGS, 0, 0, &[]))),
        ("SETTINGS that move windows", EITHER, flood(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 7]))),
        ("acknowledgements of nothing", EITHER, flood(frame(SETTINGS, 1, 0, &[]))),
        ("PING without an end", EITHER, flood(frame(PING, 0, 0, &[7; 8]))),
        ("PRIORITY without an end", EITHER, flood(frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]))),
        ("WINDOW_UPDATE without an end", EITHER, flood(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]))),
        ("unknown frames without an end", EITHER, flood(frame(0x77, 0, 0, &[]))),
        ("GOAWAY without an end", EITHER, flood(frame(GOAWAY, 0, 0, &[0x7f, 255, 255, 255, 0, 0, 0, 0]))),
        ("interim heads without an end", EITHER, flood(frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "103")])))),
        (
            "empty DATA without an end",
            &["200", "200 cut", "502", "504"],
            written([head(0), frame(DATA, 0, 1, b"").repeat(FLOOD), frame(DATA, END_STREAM, 1, b"")].concat()),
        ),
        (
            "DATA that is padding",
            &["200", "200 cut", "502"],
            written(
                [
                    head(0),
                    frame(DATA, 8, 1, &[&[255][..], &[0; 255]].concat()).repeat(2_000),
                    frame(DATA, END_STREAM, 1, b""),
                ]
                .concat(),
            ),
        ),
        ("CONTINUATION without an end", REFUSED, written(continued(2_000))),
        (
            "empty CONTINUATION",
            REFUSED,
            written(
                [frame(HEADERS, 0, 1, &block(&[(":status", "200")])), frame(CONTINUATION, 0, 1, b"").repeat(FLOOD)]
                    .concat(),
            ),
        ),
        (
            "a head in fragments of one byte",
            EITHER,
            written({
                let fields = block(&[(":status", "200")]);
                let mut bytes = frame(HEADERS, 0, 1, &fields[..1]);
                fields[1..].iter().for_each(|byte| bytes.extend(frame(CONTINUATION, 0, 1, &[*byte])));
                bytes.extend(frame(CONTINUATION, END_HEADERS, 1, b""));
                [bytes, frame(DATA, END_STREAM, 1, b"yes")].concat()
            }),
        ),
        (
            "another frame between fragments",
            REFUSED,
            written([frame(HEADERS, 0, 1, &block(&[(":status", "200")])), frame(PING, 0, 0, &[0; 8])].concat()),
        ),
        ("HPACK bomb", REFUSED, written(frame(HEADERS, END_HEADERS, 1, &hpack(12_000)))),
        (
            "HPACK bomb in trailers",
            CUT,
            written(
                [head(0), frame(DATA, 0, 1, b"x"), frame(HEADERS, END_HEADERS | END_STREAM, 1, &hpack(12_000))]
                    .concat(),
            ),
        ),
        ("an index that is not there", REFUSED, written(frame(HEADERS, END_HEADERS, 1, &[0xff, 0xff, 0xff, 0x7f]))),
        ("an integer without an end", REFUSED, written(frame(HEADERS, END_HEADERS, 1, &[0xff; 4_000]))),
        ("a table of 4 GiB", REFUSED, written(frame(HEADERS, END_HEADERS, 1, &[0x3f, 0xe1, 0xff, 0xff, 0xff, 0x0f]))),
        ("no status", REFUSED, written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x", "y")])))),
        (
            "two statuses",
            REFUSED,
            written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "200"), (":status", "204")]))),
        ),
        (
            "a status that is none",
            REFUSED,
            written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "2x0")]))),
        ),
        (
            "a pseudo-field of a request",
            &["200", "502"],
            written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "200"), (":path", "/")]))),
        ),
        (
            "a pseudo-field behind others",
            REFUSED,
            written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x", "y"), (":status", "200")]))),
        ),
        (
            "a field with a line end",
            REFUSED,
            written(frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &block(&[(":status", "200"), ("x", "y\r\nset-cookie: a=b")]),
            )),
        ),
        (
            "a name with a line end",
            REFUSED,
            written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "200"), ("x\r\ny", "z")]))),
        ),
        (
            "a name in capitals",
            REFUSED,
            written(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "200"), ("Set-Cookie", "a=b")]))),
        ),
        (
            "a field of a connection",
            &["200", "502"],
            written(frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &block(&[(":status", "200"), ("transfer-encoding", "chunked")]),
            )),
        ),
        (
            "a length that is too long",
            CUT,
            written(
                [
                    frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "200"), ("content-length", "9")])),
                    frame(DATA, END_STREAM, 1, b"abc"),
                ]
                .concat(),
            ),
        ),
        (
            "a length that is too short",
            CUT,
            written(
                [
                    frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "200"), ("content-length", "1")])),
                    frame(DATA, END_STREAM, 1, b"abc"),
                ]
                .concat(),
            ),
        ),
        (
            "two lengths",
            REFUSED,
            written(
                [
                    frame(
                        HEADERS,
                        END_HEADERS,
                        1,
                        &block(&[(":status", "200"), ("content-length", "1"), ("content-length", "3")]),
                    ),
                    frame(DATA, END_STREAM, 1, b"abc"),
                ]
                .concat(),
            ),
        ),
        ("DATA before its head", REFUSED, written(frame(DATA, 0, 1, b"x"))),
        ("DATA behind the end", &["200", "200 cut"], written([good(), frame(DATA, 0, 1, b"x")].concat())),
        ("DATA on stream 0", REFUSED, written(frame(DATA, 0, 0, b"x"))),
        ("DATA on a stream of nobody", REFUSED, written(frame(DATA, 0, 99, b"x"))),
        (
            "HEADERS on a stream of nobody",
            REFUSED,
            written(frame(HEADERS, END_HEADERS, 99, &block(&[(":status", "200")]))),
        ),
        (
            "a push that nobody wanted",
            REFUSED,
            written(frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0, 0, 0, 2][..], &block(&[(":method", "GET")])].concat())),
        ),
        (
            "DATA beyond every window",
            CUT,
            written([head(0), frame(DATA, 0, 1, &[b'x'; 16_384]).repeat(4_000)].concat()),
        ),
        ("a frame of 16 MiB", REFUSED, written([length(0xff_ffff), vec![0; 1 << 16]].concat())),
        ("padding longer than its frame", CUT, written([head(0), frame(DATA, 8, 1, &[200, 1, 2])].concat())),
        (
            "a window of 2^31",
            &["200 cut", "502"],
            written([head(0), frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]).repeat(2)].concat()),
        ),
        (
            "a window that grows by 0",
            &["200 cut", "502"],
            written([head(0), frame(WINDOW_UPDATE, 0, 0, &[0; 4])].concat()),
        ),
        ("SETTINGS of 5 bytes", REFUSED, written(frame(SETTINGS, 0, 0, &[0; 5]))),
        ("a frame size of 1", REFUSED, written(frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]))),
        ("a reset at once", REFUSED, written(frame(RST_STREAM, 0, 1, &[0, 0, 0, 2]))),
        ("a reset behind the head", CUT, written([head(0), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])].concat())),
        ("a reset of 3 bytes", REFUSED, written(frame(RST_STREAM, 0, 1, &[0; 3]))),
        ("HTTP/1.1", REFUSED, written(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec())),
        (
            "no stream at all",
            &["502", "503", "504"],
            Box::new(|stream| {
                greeted(stream, &[0, 3, 0, 0, 0, 0])?;
                linger(stream)
            }),
        ),
        ("silence", &["504"], written(Vec::new())),
        ("a good answer", SERVED, written(good())),
    ];
    let attempt = |(name, ends, play): (&str, _, _)| Attempt {
        name: format!("HTTP/2 upstream: {name}"),
        ends,
        by: By::Upstream { endpoint: PASS, settings: ", protocol: http2", play },
    };
    table.into_iter().map(attempt).collect()
}
