//! The work that schemas and bodies make: no schema and no body of a client takes the gateway's memory, or its time from others.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::schemas::Maker;
use super::stage::client::Client;
use super::stage::gateway::Gateway;
use super::stage::test_rng::TestRng;
use super::stage::{PATIENCE, pause, scratch};

/// `SCHEMAS=10000 cargo test --release --test exhaustion schema` tries as many, with bodies of 1 MiB.
fn schemas() -> Option<u64> {
    std::env::var("SCHEMAS").ok().and_then(|count| count.parse().ok())
}

/// How many schemas one gateway has.
const TOGETHER: u64 = 100;

/// How many are tried where nobody asks for more: without optimisation the work of one may take half a minute.
const FEW: u64 = 50;

/// How long one may take on a machine with other work.
const LONGEST: Duration = PATIENCE.saturating_mul(10);

/// The most memory that the process of a gateway may hold.
const MOST: u64 = 256 << 20;

/// A wait of another client that is worth to be told.
const LONG: Duration = Duration::from_millis(20);

/// The waits that another client saw.
#[derive(Default)]
struct Waits {
    count: u64,
    long: u64,
    worst: Duration,
}

/// Asks again and again. `longest` has the longest wait since it was last set to zero, in microseconds.
fn stand_by(address: SocketAddr, over: &AtomicBool, longest: &AtomicU64) -> Waits {
    let (mut client, mut waits) = (Client::connect(address).unwrap(), Waits::default());
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        client.ask("GET", b"GET /bystander HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        assert_eq!(client.head().unwrap().status, 200);
        client.rest().unwrap();
        let wait = asked.elapsed();
        longest.fetch_max(wait.as_micros() as u64, Ordering::Relaxed);
        waits.count += 1;
        waits.long += u64::from(wait > LONG);
        waits.worst = waits.worst.max(wait);
        pause(Duration::from_millis(1));
    }
    waits
}

/// Sends a body, and gives the status.
fn post(address: SocketAddr, path: u64, body: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap()
}

/// A gateway with the schemas of these seeds.
fn gateway(seeds: std::ops::Range<u64>) -> Gateway {
    let mut endpoints = String::new();
    for seed in seeds {
        let name = format!("schema_{seed}.json");
        std::fs::write(scratch(&name), Maker(TestRng(seed)).schema().to_string()).unwrap();
        writeln!(
            endpoints,
            "  POST /{seed}: {{ validate: {{ body: {name} }}, pipeline: [{{ respond: {{ status: 204 }} }}] }}"
        )
        .unwrap();
    }
    let config = format!(
        "listen: 127.0.0.1:0\nthreads: 1\nmax_body: 2MiB\nendpoints:\n  GET /bystander: {{ pipeline: [{{ respond: {{ status: 200 }} }}] }}\n{endpoints}"
    );
    Gateway::of(config)
}

#[test]
fn no_schema_and_no_body_cost_more_than_a_validation_may() {
    let long = schemas();
    let (bytes, count) = (if long.is_some() { 1 << 20 } else { 8 << 10 }, long.unwrap_or(FEW));
    // What waits without any work are, on this machine.
    let idle = gateway(0..0);
    let (mut most, mut slowest, mut tooks, mut statuses) = (0, Duration::ZERO, Duration::ZERO, [0_u64; 4]);
    let (mut worst, mut usual) = (Waits::default(), Waits::default());
    let first = std::env::var("FIRST").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for begin in (first..first + count).step_by(TOGETHER as usize) {
        let seeds = begin..(begin + TOGETHER).min(first + count);
        let gateway = gateway(seeds.clone());
        let (over, longest) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|threads| {
            let bystander = threads.spawn(|| stand_by(gateway.address, &over, &longest));
            let control = threads.spawn(|| stand_by(idle.address, &over, &AtomicU64::new(0)));
            for seed in seeds {
                let body = Maker(TestRng(seed ^ (1 << 40))).body(bytes);
                let (before, began) = (gateway.peak(), Instant::now());
                let status = post(gateway.address, seed, &body);
                let (took, held) = (began.elapsed(), gateway.peak());
                let told = [204, 422, 400, 413].iter().position(|known| *known == status);
                statuses[told.unwrap_or_else(|| panic!("seed {seed}: {status}"))] += 1;
                tooks += took;
                let wait = Duration::from_micros(longest.swap(0, Ordering::Relaxed));
                if took > slowest || held > most.max(before + (4 << 20)) || wait > LONG {
                    println!(
                        "seed {seed}: {status} in {took:.1?}, {} bytes, {} MiB; another client waited {wait:.1?}",
                        body.len(),
                        held >> 20
                    );
                }
                (most, slowest) = (most.max(held), slowest.max(took));
                assert!(held <= MOST, "seed {seed}: {held} bytes");
            }
            over.store(true, Ordering::Relaxed);
            for (sum, own) in [(&mut worst, bystander.join().unwrap()), (&mut usual, control.join().unwrap())] {
                sum.count += own.count;
                sum.long += own.long;
                sum.worst = sum.worst.max(own.worst);
            }
        });
    }
    println!(
        "{count} schemas, bodies of {bytes} bytes: {statuses:?} got 204, 422, 400, 413; slowest {slowest:.1?}, together {tooks:.1?}; at most {} MiB",
        most >> 20
    );
    for (name, waits) in [("another client", worst), ("a client of an idle gateway", usual)] {
        println!(
            "{name}: {} requests, waited {:.1?} at most, {} longer than {LONG:?}",
            waits.count, waits.worst, waits.long
        );
    }
}
