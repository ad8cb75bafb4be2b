//! HTTP/2 to upstreams: many answers on few connections, byte for byte, and nobody waits for one who does not read.

use std::future::poll_fn;
use std::io::Write;
use std::net::TcpStream;

use bytes::Bytes;
use h2::server::Builder;
use http::Response;
use rustls::ServerConfig;
use rustls::version::TLS13;

use crate::outages::load::Load;
use crate::outages::scene::Scene;
use crate::stage::authority::{Authority, offering};
use crate::stage::http2::{Asked, converse};
use crate::stage::served::Served;

/// An HTTP/2 server; the path is the number of a body, or `endless`.
fn serve(tls: Option<ServerConfig>) -> Served {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(1_000);
    match tls {
        None => Served::begin(move |stream| converse(stream, builder.clone(), answer)),
        Some(config) => Served::secured(config, move |stream| converse(stream, builder.clone(), answer)),
    }
}

async fn answer((request, mut respond): Asked) -> Option<()> {
    let number = request.uri().path().trim_start_matches('/').parse().ok();
    let length = number.map_or(1 << 40, |number| body(number).len());
    let head = Response::builder().header("content-length", length).body(()).ok()?;
    let mut out = respond.send_response(head, false).ok()?;
    let mut left = number.map_or_else(|| Bytes::from(vec![b'x'; 64 << 10]), |number| body(number).into());
    loop {
        out.reserve_capacity(left.len());
        let room = poll_fn(|cx| out.poll_capacity(cx)).await?.ok()?;
        let part = left.split_to(room.min(left.len()));
        let last = left.is_empty() && number.is_some();
        out.send_data(part, last).ok()?;
        if last {
            return Some(());
        }
        if left.is_empty() {
            left = Bytes::from(vec![b'x'; 64 << 10]);
        }
    }
}

/// The body of a request, each of another length and of other bytes.
fn body(number: u64) -> Vec<u8> {
    let length = 1 + number.wrapping_mul(2_654_435_761) % 5_000;
    (0..length).map(|at| (number.wrapping_mul(31) + at * 7) as u8).collect()
}

#[test]
fn answers_side_by_side_are_byte_exact() {
    let authority = Authority::new();
    let config = offering(authority.sign(&["127.0.0.1"]).server(&[&TLS13]), &["h2"]);
    let ca = format!("{}/outages_shared_ca.pem", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&ca, authority.pem()).unwrap();
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    for (name, tls) in [("h2c", None), ("h2", Some(config))] {
        let secure = tls.is_some();
        let server = serve(tls);
        let upstream = match secure {
            false => format!("{{ url: 'http://{}', protocol: http2 }}", server.address),
            true => format!("{{ url: 'https://{}', tls: {{ ca: {ca} }} }}", server.address),
        };
        let scene = Scene::new(name, &upstream);
        let seen = Load::get(scene.address(), 1_000).at_once(250).wanting(body).run();
        let connections = server.connections();
        eprintln!("{name}: {} answers on {connections} connections, {} failed", seen.sent, seen.failures.len());
        assert!(seen.failures.is_empty(), "{name}: {:?}", &seen.failures[..seen.failures.len().min(5)]);
        assert!(connections <= cores, "{name}: {connections}");
    }
}

#[test]
fn clients_that_do_not_read_hold_little_and_nobody_up() {
    let server = serve(None);
    let scene = Scene::new("stalled", &format!("{{ url: 'http://{}', protocol: http2 }}", server.address));
    assert!(Load::get(scene.address(), 100).wanting(body).run().failures.is_empty());
    let before = scene.gateway.resident();
    let stalled: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(scene.address()).unwrap();
            stream.write_all(b"GET /endless HTTP/1.1\r\nhost: gateway\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let seen = Load::get(scene.address(), 1_000).wanting(body).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    let grown = scene.gateway.resident().saturating_sub(before);
    eprintln!("{} clients that do not read hold {} KiB", stalled.len(), grown >> 10);
    // 512 KiB of the stream's window, and what hyper and the clients of the load have.
    assert!(grown < 16 << 20, "{grown} bytes");
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(server.connections() <= cores);
}
