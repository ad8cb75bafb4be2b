//! The limits on clients, in raw frames.

use std::time::Duration;

use crocodile_pear_gateway::server::Settings;

use crate::server::scene::{Close, Scene};
use crocodile_pear_stage::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, Raw, block, field, frame, get,
    request,
};

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_preface_may_come_byte_by_byte() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    for byte in PREFACE {
        client.send([*byte]);
    }
    let mut raw = Raw(client.0);
    raw.send([frame(4, 0, 0, &[]), request(1, "/a")].concat());
    assert_eq!(raw.until(DATA).payload, b"GET /a []");
}

#[test]
fn what_only_begins_like_a_preface_is_refused() {
    let scene = Scene::new(Settings::default());
    for other in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", "PRI / HTTP/2.0\r\n\r\n", "PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n"] {
        let mut client = scene.connect();
        client.send(other);
        let (answer, _) = client.rest();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{other:?}: {answer}");
    }
    let mut later = scene.connect();
    later.send([b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n", PREFACE].concat());
    assert!(later.rest().0.contains("HTTP/1.1 400 "));
}

#[test]
fn what_is_not_of_http_at_all_is_not_answered() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("HELO mail example\r\n\r\n");
    assert_eq!(client.rest(), (String::new(), Close::Clean));
}

#[test]
fn a_header_block_that_does_not_end_is_given_up() {
    let scene = Scene::new(Settings { header: SHORT, ..Settings::default() });
    let mut raw = Raw::new(scene.address);
    raw.send(frame(HEADERS, END_STREAM, 1, &get("/a")));
    raw.send(frame(CONTINUATION, 0, 1, &field(b"a", b"b")));
    assert!(raw.rest().iter().all(|frame| frame.kind != HEADERS));
}

#[test]
fn a_connection_at_rest_is_told_that_it_ends() {
    let scene = Scene::new(Settings { keep_alive: SHORT, ..Settings::default() });
    let mut raw = Raw::new(scene.address);
    raw.send(request(1, "/a"));
    raw.until(DATA);
    assert_eq!(raw.until(GOAWAY).code(), 0);
    raw.rest();
}

#[test]
fn heads_that_are_too_large_are_answered() {
    let scene = Scene::new(Settings::default());
    let mut raw = Raw::new(scene.address);
    let status = |raw: &mut Raw, stream, block: &[u8]| {
        let (first, rest) = block.split_at(block.len().min(16_384));
        let last = if rest.is_empty() { END_HEADERS } else { 0 };
        raw.send(frame(HEADERS, END_STREAM | last, stream, first));
        if !rest.is_empty() {
            raw.send(frame(CONTINUATION, END_HEADERS, stream, rest));
        }
        let head = raw.until(HEADERS);
        assert_eq!(head.stream, stream);
        head.payload
    };
    let long = "x".repeat(17_000);
    let head = status(&mut raw, 1, &[get("/a"), block(&[("long", &long)])].concat());
    assert_ne!(head[..1], [0x88]);
    let head = status(&mut raw, 3, &get(&format!("/{}", &long[..9_000])));
    assert_ne!(head[..1], [0x88]);
    let names: Vec<String> = (0..101).map(|at| format!("x{at}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let head = status(&mut raw, 5, &[get("/a"), block(&many)].concat());
    assert_ne!(head[..1], [0x88]);
    let head = status(&mut raw, 7, &[get("/a"), block(&many[..96])].concat());
    assert_eq!(head[..1], [0x88]);
    let crumbs: Vec<(&str, &str)> = (0..257).map(|_| ("cookie", "a=b")).collect();
    let head = status(&mut raw, 9, &[get("/a"), block(&crumbs[..200])].concat());
    assert_eq!(head[..1], [0x88]);
    let head = status(&mut raw, 11, &[get("/a"), block(&crumbs)].concat());
    assert_ne!(head[..1], [0x88]);
    assert!(scene.seen.lock().unwrap().iter().all(|(_, seen)| seen == "GET /a []"));
}

#[test]
fn a_body_is_as_long_as_its_length_says() {
    let scene = Scene::new(Settings::default());
    let mut raw = Raw::new(scene.address);
    for (stream, body) in [(1, "hell"), (3, "hello!")] {
        let fields = [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/a")];
        let head = [block(&fields), block(&[("content-length", "5")])].concat();
        raw.send(frame(HEADERS, END_HEADERS, stream, &head));
        raw.send(frame(DATA, END_STREAM, stream, body.as_bytes()));
        let reset = raw.until(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (stream, 1));
    }
}
