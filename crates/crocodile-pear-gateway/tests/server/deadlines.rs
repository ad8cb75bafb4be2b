//! Nobody holds a connection, and nobody's slowness is another's.

use std::io::Write;
use std::time::Duration;

use crocodile_pear_gateway::server::Settings;

use crate::scene::{Close, PATIENCE, Scene};

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
