//! Floods: the memory and work that a client can cause in the gateway with few bytes are bounded, and no bystander notices.
//!
//! `HTTP2_GATEWAY=target/release/crocodile-pear cargo test --test gateway http2::floods -- --nocapture` prints the figures of an
//! optimised binary.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::http2::scene::Scene;
use crate::stage::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE,
    block, field, frame, get, request,
};
use crate::stage::pause;

/// Attackers at once. Each may have 100 answers that wait with what came with their heads, up to 16 KiB: 13 MiB.
const CONNECTIONS: usize = 8;
/// How long those hold on that are not sent away.
const HOLD: Duration = Duration::from_millis(600);
/// The most memory that all of them together may make the gateway hold.
const MOST: u64 = 20 << 10;

type Attack = (&'static str, fn(&mut Raw));

const ATTACKS: [Attack; 22] = [
    ("rapid reset", |raw| {
        repeat(raw, 20_000, |at| [request(odd(at), "/hang"), frame(RST_STREAM, 0, odd(at), &[0, 0, 0, 8])].concat());
    }),
    ("rapid reset, one by one", |raw| {
        for at in 0..2_000 {
            if !raw.flood(&request(odd(at), "/hang")) || !raw.flood(&frame(RST_STREAM, 0, odd(at), &[0, 0, 0, 8])) {
                return;
            }
        }
    }),
    ("made you reset", |raw| {
        repeat(raw, 20_000, |at| [request(odd(at), "/hang"), frame(WINDOW_UPDATE, 0, odd(at), &[0; 4])].concat());
    }),
    ("made you reset by data after the end", |raw| {
        repeat(raw, 20_000, |at| [request(odd(at), "/hang"), frame(DATA, 0, odd(at), b"x")].concat());
    }),
    ("requests beyond the limit", |raw| {
        repeat(raw, 20_000, |at| request(odd(at), "/hang"));
    }),
    ("CONTINUATION without an end", |raw| {
        raw.flood(&frame(HEADERS, END_STREAM, 1, &get("/hang")));
        let more = frame(CONTINUATION, 0, 1, &block(&[("x", &"y".repeat(16_000))]));
        repeat(raw, 2_000, |_| more.clone());
    }),
    ("empty CONTINUATION", |raw| {
        raw.flood(&frame(HEADERS, END_STREAM, 1, &get("/hang")));
        repeat(raw, 100_000, |_| frame(CONTINUATION, 0, 1, b""));
    }),
    ("HPACK bomb", |raw| bomb(raw, &field(b"x", &[b'y'; 4_000]))),
    ("cookie bomb", |raw| bomb(raw, &field(b"cookie", b"a=b"))),
    ("SETTINGS", |raw| {
        repeat(raw, 100_000, |_| frame(SETTINGS, 0, 0, &[]));
    }),
    ("SETTINGS that move every window", |raw| {
        repeat(raw, 100, |at| request(odd(at), "/hang"));
        repeat(raw, 100_000, |at| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, at.to_be_bytes()[3]]));
    }),
    ("PING", |raw| {
        repeat(raw, 200_000, |_| frame(PING, 0, 0, &[7; 8]));
    }),
    ("PRIORITY", |raw| {
        repeat(raw, 200_000, |at| frame(PRIORITY, 0, odd(at % 1000), &[0, 0, 0, 0, 1]));
    }),
    ("WINDOW_UPDATE", |raw| {
        repeat(raw, 200_000, |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]));
    }),
    ("RST_STREAM of what is over", |raw| {
        raw.flood(&request(1, "/a"));
        repeat(raw, 200_000, |_| frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    }),
    ("unknown frames", |raw| {
        repeat(raw, 200_000, |_| frame(0x77, 0, 0, &[]));
    }),
    ("empty DATA", |raw| {
        raw.flood(&post(1, "/hang"));
        repeat(raw, 200_000, |_| frame(DATA, 0, 1, b""));
    }),
    ("DATA of one byte", |raw| {
        raw.flood(&post(1, "/hang"));
        repeat(raw, 100_000, |_| frame(DATA, 0, 1, b"x"));
    }),
    ("DATA that is nothing but padding", |raw| {
        raw.flood(&post(1, "/hang"));
        repeat(raw, 2_000, |_| frame(DATA, 8, 1, &[&[255][..], &[0; 255]].concat()));
    }),
    ("bodies that nobody reads", |raw| {
        for at in 0..100 {
            raw.flood(&post(odd(at), "/hang"));
            repeat(raw, 4, |_| frame(DATA, 0, odd(at), &[b'x'; 16_000]));
        }
    }),
    ("window 0", |raw| {
        raw.flood(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
        repeat(raw, 100, |at| request(odd(at), "/endless"));
    }),
    ("slow reads", |raw| {
        raw.flood(&frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
        raw.flood(&frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
        repeat(raw, 100, |at| request(odd(at), "/endless"));
    }),
];

fn odd(at: u32) -> u32 {
    2 * at + 1
}

fn post(stream: u32, path: &str) -> Vec<u8> {
    let fields = block(&[(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", path)]);
    frame(HEADERS, END_HEADERS, stream, &fields)
}

/// Sends so many, in large writes, until the gateway has had enough.
fn repeat(raw: &mut Raw, count: u32, make: impl Fn(u32) -> Vec<u8>) {
    let mut bytes = Vec::new();
    for at in 0..count {
        bytes.extend(make(at));
        if bytes.len() > 1 << 16 && !raw.flood(&std::mem::take(&mut bytes)) {
            return;
        }
    }
    raw.flood(&bytes);
}

/// A large field in HPACK's dynamic table, then references of one byte to it.
fn bomb(raw: &mut Raw, field: &[u8]) {
    let remembered = [&[0x40], &field[1..]].concat();
    raw.flood(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &[get("/hang"), remembered].concat()));
    let block = [get("/hang"), vec![0xbe; 16_000]].concat();
    repeat(raw, 500, |at| frame(HEADERS, END_HEADERS | END_STREAM, odd(at + 1), &block));
}

#[test]
fn a_flood_holds_little_and_hurts_nobody_else() {
    let scene = Arc::new(Scene::new(
        "floods",
        "  GET /bystander: { pipeline: [{ respond: { body: '1' } }] }\n  '/{*path}': shop /{*path}\n",
    ));
    // What every connection and thread needs once is there.
    calm(&scene);
    let loose = cfg!(debug_assertions);
    for (name, attack) in ATTACKS {
        let (grown, worst) = run(&scene, attack);
        eprintln!(
            "{name:<40} {:>6.1} MiB, a bystander waits {:>7.2} ms at most",
            grown as f64 / 1024.0,
            milliseconds(worst)
        );
        assert!(grown < MOST, "{name}: {grown} KiB");
        // The machine has other work than this test.
        assert!(worst < Duration::from_secs(if loose { 5 } else { 1 }), "{name}: {worst:?}");
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn calm(scene: &Scene) {
    for _ in 0..3 {
        let mut raw = Raw::new(scene.address);
        (0..100).for_each(|at| raw.send(request(odd(at), "/a")));
        (0..100).for_each(|_| drop(raw.until(DATA)));
    }
}

/// How much the process has grown at most, and how long a bystander had to wait.
fn run(scene: &Arc<Scene>, attack: fn(&mut Raw)) -> (u64, Duration) {
    let before = scene.gateway.resident() >> 10;
    let over = Arc::new(AtomicBool::new(false));
    let (bystander, look) = (scene.clone(), over.clone());
    let bystander = thread::spawn(move || stand_by(&bystander, &look));
    let attackers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let address = scene.address;
            thread::spawn(move || {
                let mut raw = Raw::new(address);
                raw.0.set_write_timeout(Some(HOLD)).unwrap();
                attack(&mut raw);
                pause(HOLD);
            })
        })
        .collect();
    let mut most = before;
    while attackers.iter().any(|attacker| !attacker.is_finished()) {
        most = most.max(scene.gateway.resident() >> 10);
        pause(Duration::from_millis(5));
    }
    over.store(true, Ordering::Relaxed);
    (most - before, bystander.join().unwrap())
}

/// Asks again and again; the longest wait.
fn stand_by(scene: &Scene, over: &AtomicBool) -> Duration {
    let mut stream = TcpStream::connect(scene.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut worst, mut bytes) = (Duration::ZERO, [0; 1024]);
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        stream.write_all(b"GET /bystander HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        assert!(stream.read(&mut bytes).unwrap() > 0);
        worst = worst.max(asked.elapsed());
        pause(Duration::from_millis(1));
    }
    worst
}
