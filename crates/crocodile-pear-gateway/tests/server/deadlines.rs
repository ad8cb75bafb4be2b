//! Nobody holds a connection, and nobody's slowness is another's.

use std::io::Read;
use std::io::Write;
use std::num::NonZeroU64;
use std::time::Duration;

use crocodile_pear_gateway::server::{MinRate, Settings};

use crate::server::scene::{Client, Close, PATIENCE, Scene};

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_slow_head_is_told_and_closed() {
    let scene = Scene::new(Settings { header: SHORT, ..Settings::default() });
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nhost: ");
    let (answer, close) = client.rest();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(close, Close::Clean);
}

#[test]
fn a_slow_second_head_is_told_and_closed() {
    let scene = Scene::new(Settings { header: SHORT, ..Settings::default() });
    let mut client = scene.connect();
    client.send("GET /a HTTP/1.1\r\nhost: h\r\n\r\nGET /b HTTP");
    client.until("GET /a []");
    let (answer, close) = client.rest();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.ends_with(r#""detail":"the request's header took too long to arrive"}"#), "{answer}");
    assert_eq!(close, Close::Clean);
}

#[test]
fn a_silent_connection_is_closed_without_a_word() {
    let scene = Scene::new(Settings { header: SHORT, keep_alive: SHORT, ..Settings::default() });
    assert_eq!(scene.connect().rest(), (String::new(), Close::Clean));
    let mut idle = scene.connect();
    idle.send("GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
    idle.until("[]");
    assert_eq!(idle.rest(), (String::new(), Close::Clean));
}

#[test]
fn a_stalled_request_body_is_told_and_closed() {
    let scene = Scene::new(Settings { body: SHORT, ..Settings::default() });
    let mut client = scene.connect();
    client.send("POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhe");
    let (answer, close) = client.rest();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(close, Close::Clean);
}

#[test]
fn a_client_that_stops_reading_is_dropped() {
    let scene = Scene::new(Settings { write: SHORT, ..Settings::default() });
    let mut client = scene.connect();
    client.send("GET /endless HTTP/1.1\r\nhost: h\r\n\r\n");
    assert_eq!(scene.left.recv_timeout(PATIENCE), Ok("body"));
    assert_eq!(client.rest().1, Close::Reset);
}

#[test]
fn a_waiting_handler_is_not_late() {
    let scene = Scene::new(Settings { header: SHORT, keep_alive: SHORT, ..Settings::default() });
    let mut waiting = scene.connect();
    waiting.send("GET /hang HTTP/1.1\r\nhost: h\r\n\r\n");
    assert_eq!(scene.came.recv_timeout(PATIENCE), Ok("handler"));
    // A connection that begins later runs into the deadline first.
    assert_eq!(scene.connect().rest(), (String::new(), Close::Clean));
    assert!(scene.left.try_recv().is_err());
}

#[test]
fn a_connection_that_rested_serves_on() {
    let scene = Scene::new(Settings { header: SHORT, ..Settings::default() });
    let mut client = scene.connect();
    client.send("GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
    client.until("GET /a []");
    // Longer than a connection keeps its buffers: the client's own timeout is the clock.
    client.0.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
    assert!(std::io::Read::read(&mut client.0, &mut [0]).is_err());
    client.0.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send("GET /b HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    assert!(client.rest().0.ends_with("GET /b []"));
}

#[test]
fn an_address_with_too_many_connections_is_refused_one_more() {
    let two = std::num::NonZeroU32::new(2);
    let scene = Scene::new(Settings { per_address: two, ..Settings::default() });
    let (mut first, mut second) = (scene.connect(), scene.connect());
    for client in [&mut first, &mut second] {
        client.send("GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
        client.until("GET /a []");
    }
    assert_eq!(scene.connect().rest(), (String::new(), Close::Reset));
    second.send("GET /b HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    assert_eq!(second.rest().1, Close::Clean);
    // The place is free when the server's task has ended, which is a moment later.
    let served = |_| {
        let mut client = scene.connect();
        let sent = client.0.write_all(b"GET /c HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        sent.is_ok() && client.rest().1 == Close::Clean
    };
    assert!((0..1000).any(served));
    first.send("GET /d HTTP/1.1\r\nhost: h\r\n\r\n");
    first.until("GET /d []");
}

/// A rate that no test reaches.
fn hurried() -> Settings {
    let bytes = NonZeroU64::MAX;
    Settings { min_rate: Some(MinRate { bytes, after: SHORT }), ..Settings::default() }
}

/// Sends a byte now and then until something comes back.
fn trickle(client: &mut Client) -> String {
    client.0.set_read_timeout(Some(SHORT / 10)).unwrap();
    let mut read = [0; 4096];
    loop {
        match client.0.read(&mut read) {
            Ok(length) => return String::from_utf8_lossy(&read[..length]).into_owned(),
            Err(_) => client.send("x"),
        }
    }
}

#[test]
fn a_request_body_that_trickles_is_told_and_closed() {
    let scene = Scene::new(hurried());
    let mut client = scene.connect();
    client.send("POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\r\n");
    let answer = trickle(&mut client);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[test]
fn a_request_body_that_is_a_stream_may_trickle() {
    let scene = Scene::new(hurried());
    let mut client = scene.connect();
    client.send("POST /unhurried HTTP/1.1\r\nhost: h\r\ncontent-length: 40\r\n\r\n");
    let answer = trickle(&mut client);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn a_client_that_reads_slowly_is_dropped_unless_it_reads_a_stream() {
    let scene = Scene::new(hurried());
    let (mut events, mut client) = (scene.connect(), scene.connect());
    events.send("GET /events HTTP/1.1\r\nhost: h\r\n\r\n");
    events.until("\r\n\r\n");
    client.send("GET /endless HTTP/1.1\r\nhost: h\r\n\r\n");
    while scene.left.recv_timeout(SHORT / 10).is_err() {
        let _ = client.0.read(&mut [0]);
    }
    assert_eq!(client.rest().1, Close::Reset);
    events.0.read_exact(&mut vec![0; 8 << 20]).unwrap();
    assert!(scene.left.try_recv().is_err());
}
