//! Two gateways and one Redis: they count together, and do without it while it is away.

// What a test measures it prints.
#![allow(clippy::print_stdout)]

use std::thread;
use std::time::{Duration, Instant};

use crate::stage::gateway::Gateway;
use crate::stage::ports::free_port;
use crate::stage::redis::Redis;
use crate::stage::scene::Client;
use crate::stage::until;

fn gateway(redis: u16, settings: &str) -> Gateway {
    Gateway::of(format!(
        "listen: 127.0.0.1:0\nthreads: 2\nstore: {{ redis: 'redis://127.0.0.1:{redis}'{settings} }}\nendpoints:\n  GET /a:\n    \
         rate_limit: {{ rate: 20/1s, burst: 20, by: $query.key }}\n    pipeline: [respond: {{ body: 'true' }}]\n"
    ))
}

/// The status of the answer to one request.
fn ask(client: &mut Client, key: impl std::fmt::Display) -> u16 {
    client.get(&format!("/a?key={key}")).status
}

#[test]
fn two_gateways_count_together() {
    let Some(redis) = Redis::start() else { return };
    let gateways = [(); 2].map(|()| gateway(redis.port, ", timeout: 5s"));
    const KEYS: usize = 5;
    const TIME: Duration = Duration::from_secs(3);
    let begun = Instant::now();
    let admitted: usize = thread::scope(|scope| {
        let load = |gateway: &Gateway| {
            let mut client = Client::connect(gateway.address);
            scope.spawn(move || {
                let mut admitted = 0;
                while begun.elapsed() < TIME {
                    admitted += (0..KEYS).filter(|key| ask(&mut client, key) == 200).count();
                }
                admitted
            })
        };
        let loads: Vec<_> = gateways.iter().map(load).collect();
        loads.into_iter().map(|load| load.join().unwrap()).sum()
    });
    let took = begun.elapsed().as_secs_f64();
    let may = |time: f64| KEYS as f64 * (20.0 + 20.0 * time);
    println!("{admitted} admitted, {:.1} may be", may(took));
    assert!((admitted as f64) <= 1.02 * may(took), "{admitted} in {took} s");
    // A client that gets no CPU for a while asks less often than it may.
    assert!((admitted as f64) >= 0.95 * may(TIME.as_secs_f64()) - KEYS as f64, "{admitted} in {took} s");
}

/// The slowest of some requests, none of which fails.
fn slowest(client: &mut Client, requests: usize) -> Duration {
    let ask = |_| {
        let begun = Instant::now();
        let status = ask(client, "a");
        assert!(matches!(status, 200 | 429), "{status}");
        begun.elapsed()
    };
    (0..requests).map(ask).max().unwrap()
}

#[test]
fn a_store_that_hangs_or_stops_holds_nobody_up() {
    let Some(mut redis) = Redis::start() else { return };
    let gateway = gateway(redis.port, "");
    let told = |line: &str, times: usize| until(line, || gateway.said().matches(line).count() >= times);
    let mut client = Client::connect(gateway.address);
    let usual = slowest(&mut client, 500);
    redis.signal("STOP");
    let hung = slowest(&mut client, 500);
    told("the store is unavailable", 1);
    // One request may have waited for it, for 20 ms; the rest is for a busy machine.
    assert!(hung < usual + Duration::from_millis(300), "{hung:?} after {usual:?}");
    redis.signal("CONT");
    told("the store answers again", 1);
    slowest(&mut client, 100);
    redis.kill();
    let stopped = slowest(&mut client, 500);
    println!("usual {usual:?}, hung {hung:?}, stopped {stopped:?}");
    told("the store is unavailable", 2);
    assert!(stopped < usual + Duration::from_millis(300), "{stopped:?} after {usual:?}");
    redis.restart();
    told("the store answers again", 2);
    slowest(&mut client, 100);
}

#[test]
fn while_the_store_is_away_a_gateway_has_its_part_or_what_is_written() {
    // Nobody listens there.
    let port = free_port();
    let admitted = |settings: &str| {
        let gateway = gateway(port, settings);
        let mut client = Client::connect(gateway.address);
        let mut counts = [0, 0, 0];
        for _ in 0..40 {
            counts[match ask(&mut client, "a") {
                200 => 0,
                429 => 1,
                503 => 2,
                other => panic!("{other}"),
            }] += 1;
        }
        counts
    };
    let local = admitted(", replicas: 4");
    assert!(local[0] >= 5 && local[0] < 20 && local[2] == 0, "{local:?}");
    assert_eq!(admitted(", while_away: open"), [40, 0, 0]);
    assert_eq!(admitted(", while_away: closed"), [0, 0, 40]);
}
