//! A million rows: they stream, a client that leaves stops the query, and one that does not read costs no memory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crocodile_pear_demo::postgres::Postgres;

use crate::stage::database::launch;
use crate::stage::scene::Scene;
use crate::stage::until;

const ROWS: u64 = 1_000_000;

/// The memory that the gateway may take beyond that at rest, in this build.
const MORE: u64 = 24 << 20;

/// Until the first row is there; the goal of 20 ms is for a release on a quiet machine.
const FIRST: Duration = Duration::from_secs(3);

fn begin(name: &str) -> Option<(Postgres, Scene)> {
    let postgres = launch(&[])?;
    postgres
        .run(&format!("create table big as select n as id, md5(n::text) as name from generate_series(1, {ROWS}) n"))
        .unwrap();
    let config = format!(
        "databases:\n  it: {{ url: '{}', connections: 4 }}\nendpoints:\n  GET /rows:\n    pipeline:\n      - sql: {{ to: it, query: 'select id, name from big' }}\n",
        postgres.url()
    );
    let scene = Scene::new(name, &config);
    Some((postgres, scene))
}

fn ask(scene: &Scene) -> TcpStream {
    let mut stream = TcpStream::connect(scene.gateway.address).unwrap();
    stream.write_all(b"GET /rows HTTP/1.1\r\nhost: it\r\nconnection: close\r\n\r\n").unwrap();
    stream
}

/// How many connections of the gateway do something.
fn active(postgres: &Postgres) -> u32 {
    let sql = "select count(*) from pg_stat_activity where state = 'active' and query like 'select id, name from big%'";
    postgres.run(sql).unwrap().parse().unwrap()
}

#[test]
fn a_million_rows_stream_through_little_memory() {
    let Some((_postgres, scene)) = begin("stream") else { return };
    let mut first = [0; 16 << 10];
    // Once: a connection is opened and the statement prepared.
    assert!(ask(&scene).read(&mut first).unwrap() > 0);
    let before = scene.gateway.resident();
    let begun = Instant::now();
    let mut stream = ask(&scene);
    let read = stream.read(&mut first).unwrap();
    let waited = begun.elapsed();
    let mut rows = first[..read].iter().filter(|byte| **byte == b'{').count() as u64;
    let mut buffer = vec![0; 256 << 10];
    let mut last = Vec::new();
    loop {
        let read = stream.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        rows += buffer[..read].iter().filter(|byte| **byte == b'{').count() as u64;
        // The end may come in pieces.
        last.extend_from_slice(&buffer[read.saturating_sub(64)..read]);
        last.drain(..last.len().saturating_sub(64));
    }
    let (took, peak) = (begun.elapsed(), scene.gateway.peak());
    println!(
        "{ROWS} rows in {took:?}, the first after {waited:?}, memory {} KiB, before {} KiB",
        peak >> 10,
        before >> 10
    );
    assert_eq!(rows, ROWS);
    assert!(String::from_utf8_lossy(&last).ends_with("\r\n0\r\n\r\n"), "the end is missing");
    assert!(peak < before + MORE, "{peak} bytes, {before} before");
    assert!(waited < FIRST, "{waited:?}");
}

#[test]
fn a_client_that_leaves_stops_the_query() {
    let Some((postgres, scene)) = begin("leaves") else { return };
    let mut stream = ask(&scene);
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    until("the query runs", || active(&postgres) == 1);
    let left = Instant::now();
    drop(stream);
    until("the query is stopped", || active(&postgres) == 0);
    println!("stopped after {:?}", left.elapsed());
    assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
    // The connections serve others.
    let mut next = ask(&scene);
    assert!(next.read(&mut [0; 1024]).unwrap() > 0);
}

#[test]
fn slow_clients_hold_a_connection_each_and_no_memory() {
    let Some((postgres, scene)) = begin("slow") else { return };
    let mut warm = ask(&scene);
    assert!(warm.read(&mut [0; 1024]).unwrap() > 0);
    drop(warm);
    until("it is stopped", || active(&postgres) == 0);
    let before = scene.gateway.resident();
    let mut slow: Vec<TcpStream> = (0..3).map(|_| ask(&scene)).collect();
    for stream in &mut slow {
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    }
    until("all run", || active(&postgres) == 3);
    // Whatever the sockets take has been taken when the server waits for somebody to read.
    let waits = "select count(*) from pg_stat_activity where wait_event = 'ClientWrite'";
    until("the server waits", || postgres.run(waits).unwrap() == "3");
    let after = scene.gateway.resident();
    println!("3 slow clients: {} KiB more", after.saturating_sub(before) >> 10);
    assert!(after < before + (8 << 20), "{after} bytes, {before} before");
    // The fourth connection serves who reads.
    let mut quick = ask(&scene);
    assert!(quick.read(&mut [0; 1024]).unwrap() > 0);
}
