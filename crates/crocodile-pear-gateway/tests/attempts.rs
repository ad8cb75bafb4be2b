//! Attempts to exhaust or to mislead the gateway, in one table: compressed bombs, answers with two readings, frames of HTTP/2,
//! gRPC and WebSocket that lie. Each one ends as the table says; meanwhile memory stays bounded and another client is served.
//!
//! Floods of a client over HTTP/2 are in `http2/floods.rs`, its requests with two readings in `server/smuggling.rs` and
//! `http2/injections.rs`, mutated messages in `mutations`.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod answers;
mod bombs;
mod clients;
mod frames;
mod newest;

use crate::stage;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stage::accept::Accepting;
use stage::client::{Client, Piece};
use stage::gateway::Gateway;
use stage::{in_parallel, pause};

/// Copies of an attempt at the same time.
const COPIES: usize = 2;

/// The most memory, in KiB, that all copies together may take beside their bodies: each has the window of a decoder, which is
/// 4 MiB for brotli.
const MOST: u64 = (4 * COPIES as u64 + 8) << 10;

/// The same with their bodies: a step reads up to 16 MiB of a body, in each copy.
const MOST_READ: u64 = MOST + ((COPIES as u64 * 16) << 10);

/// An attempt.
struct Attempt {
    name: String,
    /// How it ends: a status, with `cut` where the answer breaks off; several words for several outcomes that are all right.
    ends: &'static [&'static str],
    by: By,
}

/// The side that attacks.
enum By {
    /// An upstream, at an endpoint: `TO` is its name there. `settings` are those of the upstream.
    Upstream { endpoint: &'static str, settings: &'static str, play: Play },
    /// A client, which says how its attempt ended.
    Client(Box<dyn Fn(SocketAddr) -> String + Send + Sync>),
}

type Play = Box<dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync>;

/// Endpoints of attempts by upstreams.
const PASS: &str = "TO /";
const READ: &str = "{ pipeline: [{ request: TO / }, { transform: length }] }";
const EACH: &str = "{ pipeline: [{ request: TO / }, { each: { in: '.[]' } }, { concatenate: { as: json } }] }";

/// Endpoints of attempts by clients; `UP` accepts upgrades and reads slowly, `RPC` speaks HTTP/2.
const CLIENTS: &str = "
  POST /value: { pipeline: [{ respond: { body: '$body | length' } }] }
  POST /valid: { validate: { body: { type: array } }, pipeline: [{ respond: { body: '1' } }] }
  POST /echo: UP /echo
  GET /socket: { upgrade: websocket, pipeline: [request: UP /socket] }
  POST /s.S/{method}: { grpc_web: on, pipeline: [{ request: { to: RPC, path: '/s.S/{method}', method: client, body: client } }] }
";

/// A gateway before every upstream of the table.
struct Scene {
    gateway: Gateway,
}

impl Scene {
    fn new(attempts: Vec<Attempt>) -> (Self, Vec<(Attempt, Option<String>)>) {
        let (up, rpc) = (clients::upstream(), clients::rpc());
        let mut upstreams = format!("  up: {{ url: 'http://{up}', timeout: 5s, forward: all }}\n");
        writeln!(upstreams, "  rpc: {{ url: 'http://{rpc}', protocol: http2, timeout: 5s, forward: all }}").unwrap();
        let mut endpoints = CLIENTS.replace("UP", "up").replace("RPC", "rpc");
        endpoints.push_str("  GET /bystander: { pipeline: [{ respond: { body: '1' } }] }\n");
        let mut listed = Vec::new();
        for (at, attempt) in attempts.into_iter().enumerate() {
            let mut attempt = attempt;
            let path = match &mut attempt.by {
                By::Client(_) => None,
                By::Upstream { endpoint, settings, play } => {
                    let play = std::mem::replace(play, Box::new(|_| Ok(())));
                    let address = Accepting::begin(move |mut stream| play(&mut stream)).address;
                    writeln!(upstreams, "  a{at}: {{ url: 'http://{address}', timeout: 2s{settings} }}").unwrap();
                    writeln!(endpoints, "  GET /a{at}: {}", endpoint.replace("TO", &format!("a{at}"))).unwrap();
                    Some(format!("/a{at}"))
                }
            };
            listed.push((attempt, path));
        }
        let config = format!("listen: 127.0.0.1:0\nthreads: 1\nupstreams:\n{upstreams}endpoints:\n{endpoints}");
        (Scene { gateway: Gateway::of(config) }, listed)
    }

    /// Runs copies of an attempt: how each ended, how much the process grew at most, and how long another client waited.
    fn run(&self, copies: usize, attempt: &(dyn Fn() -> String + Sync)) -> (Vec<String>, u64, Duration) {
        let (before, over) = (self.gateway.resident(), AtomicBool::new(false));
        thread::scope(|threads| {
            let bystander = threads.spawn(|| stand_by(self.gateway.address, &over));
            let copies: Vec<_> = (0..copies).map(|_| threads.spawn(attempt)).collect();
            let mut most = before;
            while copies.iter().any(|copy| !copy.is_finished()) {
                most = most.max(self.gateway.resident());
                pause(Duration::from_millis(2));
            }
            over.store(true, Ordering::Relaxed);
            let ends = copies.into_iter().map(|copy| copy.join().unwrap()).collect();
            (ends, (most - before) >> 10, bystander.join().unwrap())
        })
    }
}

/// Asks again and again; the longest wait.
fn stand_by(address: SocketAddr, over: &AtomicBool) -> Duration {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(stage::PATIENCE)).unwrap();
    let (mut worst, mut bytes) = (Duration::ZERO, [0; 1024]);
    loop {
        let asked = Instant::now();
        stream.write_all(b"GET /bystander HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        let length = stream.read(&mut bytes).unwrap();
        assert!(bytes[..length].starts_with(b"HTTP/1.1 200"), "{}", bytes[..length].escape_ascii());
        worst = worst.max(asked.elapsed());
        if over.load(Ordering::Relaxed) {
            return worst;
        }
        pause(Duration::from_millis(1));
    }
}

/// How an answer to this request ends: its status, and `cut` where it breaks off.
fn ask(address: SocketAddr, method: &str, request: &[u8]) -> String {
    let mut client = Client::connect(address).unwrap();
    if client.ask(method, request).is_err() {
        return "closed".to_owned();
    }
    let status = loop {
        match client.head() {
            Ok(head) if head.status < 200 => {}
            Ok(head) => break head.status,
            Err(_) => return "closed".to_owned(),
        }
    };
    loop {
        match client.piece() {
            Ok(Piece::Data(_)) => {}
            Ok(Piece::End(_)) => return status.to_string(),
            Ok(Piece::Broken(_)) | Err(_) => return format!("{status} cut"),
        }
    }
}

/// The outcome of a table.
#[derive(Default)]
struct Outcome {
    failed: Vec<String>,
    count: usize,
    peak: u64,
    longest: Duration,
}

/// Runs the attempts of a table one after the other. Each may make the gateway hold `most` more KiB.
fn run(attempts: Vec<Attempt>, most: u64) -> Outcome {
    let only = std::env::var("ATTEMPT").unwrap_or_default();
    let (scene, attempts) = Scene::new(attempts.into_iter().filter(|attempt| attempt.name.contains(&only)).collect());
    let address = scene.gateway.address;
    let mut outcome = Outcome::default();
    for (attempt, path) in &attempts {
        let request = format!("GET {} HTTP/1.1\r\nhost: h\r\n\r\n", path.as_deref().unwrap_or("/"));
        let (ends, grown, worst) = match &attempt.by {
            // Copies would share one connection, of which the upstream answers the first call.
            By::Upstream { settings, .. } if settings.contains("http2") => {
                scene.run(1, &|| ask(address, "GET", request.as_bytes()))
            }
            By::Upstream { .. } => scene.run(COPIES, &|| ask(address, "GET", request.as_bytes())),
            By::Client(attack) => scene.run(COPIES, &|| attack(address)),
        };
        let line = format!("{:<60} {ends:?} {:.1} MiB, {worst:.1?}", attempt.name, grown as f64 / 1024.0);
        println!("{line}");
        // The machine has other work than this test.
        let bounded = grown < most && worst < Duration::from_secs(5);
        if !bounded || ends.iter().any(|end| !attempt.ends.contains(&end.as_str())) {
            outcome.failed.push(line);
        }
        outcome.count += 1;
        outcome.peak = outcome.peak.max(grown);
        outcome.longest = outcome.longest.max(worst);
    }
    outcome
}

#[test]
fn every_attempt_ends_as_it_should_and_holds_little_and_stops_nobody() {
    type Table = (fn() -> Vec<Attempt>, u64);
    let tables: [Table; 5] = [
        (bombs::whole, MOST_READ),
        (bombs::items, MOST),
        (answers::attempts, MOST),
        (frames::attempts, MOST),
        (clients::attempts, MOST_READ),
    ];
    // Each has its own gateway: one computes while another waits, and the memory of each is measured alone.
    let outcomes = in_parallel(tables.len(), tables.to_vec(), |(attempts, most)| run(attempts(), most));
    let count: usize = outcomes.iter().map(|outcome| outcome.count).sum();
    let peak = outcomes.iter().map(|outcome| outcome.peak).max().unwrap();
    let longest = outcomes.iter().map(|outcome| outcome.longest).max().unwrap();
    println!("{count} attempts: {:.1} MiB at most, another client waited {longest:.1?} at most", peak as f64 / 1024.0);
    let failed: Vec<String> = outcomes.into_iter().flat_map(|outcome| outcome.failed).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
