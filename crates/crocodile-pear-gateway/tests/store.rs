//! Two gateways and one Redis: they count together, and do without it while it is away.

// What a test measures it prints.
#![allow(clippy::print_stdout)]

use crocodile_pear_stage::ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use ports::free_port;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

/// A Redis server at this port; nothing where none is installed.
fn redis(port: u16) -> Option<Program> {
    let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let server = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
    let Ok(server) = server else {
        crocodile_pear_stage::skip("redis-server");
        return None;
    };
    let server = Program(server);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "redis-server does not listen");
        thread::yield_now();
    }
    Some(server)
}

struct Gateway {
    address: String,
    log: Receiver<String>,
    _program: Program,
}

impl Gateway {
    fn new(name: &str, redis: u16, settings: &str) -> Self {
        let file = crate::stage::scratch(format!("{name}.yaml"));
        let config = format!(
            "listen: 127.0.0.1:0\nthreads: 2\nstore: {{ redis: 'redis://127.0.0.1:{redis}'{settings} }}\nendpoints:\n  GET /a:\n    \
             rate_limit: {{ rate: 20/1s, burst: 20, by: $query.key }}\n    pipeline: [respond: {{ body: 'true' }}]\n"
        );
        std::fs::write(&file, config).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"))
            .arg("run")
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .map(Program)
            .unwrap();
        let (lines, log) = mpsc::channel();
        let told = BufReader::new(program.0.stderr.take().unwrap());
        thread::spawn(move || told.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line))));
        let mut gateway = Gateway { address: String::new(), log, _program: program };
        let line = gateway.wait("listening on http://");
        let (_, address) = line.split_once("listening on http://").unwrap();
        gateway.address = address.split(',').next().unwrap().to_owned();
        gateway
    }

    /// Waits for a line of the log.
    fn wait(&self, part: &str) -> String {
        loop {
            let line = self.log.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no `{part}` in the log"));
            if line.contains(part) {
                return line;
            }
        }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    /// The status of the answer to one request.
    fn ask(&mut self, key: &str) -> u16 {
        write!(self.0.get_mut(), "GET /a?key={key} HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().unwrap();
            }
            if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.trim().parse().unwrap();
            }
            if line == "\r\n" {
                self.0.read_exact(&mut vec![0; length]).unwrap();
                return status;
            }
        }
    }
}

#[test]
fn two_gateways_count_together() {
    let port = free_port();
    let Some(_redis) = redis(port) else { return };
    let gateways = ["store_one", "store_two"].map(|name| Gateway::new(name, port, ", timeout: 5s"));
    const KEYS: usize = 5;
    const TIME: Duration = Duration::from_secs(3);
    let begun = Instant::now();
    let admitted: usize = thread::scope(|scope| {
        let load = |gateway: &Gateway| {
            let mut client = gateway.connect();
            scope.spawn(move || {
                let mut admitted = 0;
                while begun.elapsed() < TIME {
                    admitted += (0..KEYS).filter(|key| client.ask(&key.to_string()) == 200).count();
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
        let status = client.ask("a");
        assert!(matches!(status, 200 | 429), "{status}");
        begun.elapsed()
    };
    (0..requests).map(ask).max().unwrap()
}

#[test]
fn a_store_that_hangs_or_stops_holds_nobody_up() {
    let port = free_port();
    let Some(server) = redis(port) else { return };
    let gateway = Gateway::new("store_away", port, "");
    let mut client = gateway.connect();
    let usual = slowest(&mut client, 500);
    server.signal(Signal::STOP);
    let hung = slowest(&mut client, 500);
    gateway.wait("the store is unavailable");
    // One request may have waited for it, for 20 ms; the rest is for a busy machine.
    assert!(hung < usual + Duration::from_millis(300), "{hung:?} after {usual:?}");
    server.signal(Signal::CONT);
    gateway.wait("the store answers again");
    slowest(&mut client, 100);
    drop(server);
    let stopped = slowest(&mut client, 500);
    println!("usual {usual:?}, hung {hung:?}, stopped {stopped:?}");
    gateway.wait("the store is unavailable");
    assert!(stopped < usual + Duration::from_millis(300), "{stopped:?} after {usual:?}");
    let _server = redis(port);
    gateway.wait("the store answers again");
    slowest(&mut client, 100);
}

#[test]
fn while_the_store_is_away_a_gateway_has_its_part_or_what_is_written() {
    // Nobody listens there.
    let port = free_port();
    let admitted = |settings: &str, name: &str| {
        let gateway = Gateway::new(name, port, settings);
        let mut client = gateway.connect();
        let mut counts = [0, 0, 0];
        for _ in 0..40 {
            counts[match client.ask("a") {
                200 => 0,
                429 => 1,
                503 => 2,
                other => panic!("{other}"),
            }] += 1;
        }
        counts
    };
    let local = admitted(", replicas: 4", "store_local");
    assert!(local[0] >= 5 && local[0] < 20 && local[2] == 0, "{local:?}");
    assert_eq!(admitted(", while_away: open", "store_open"), [40, 0, 0]);
    assert_eq!(admitted(", while_away: closed", "store_closed"), [0, 0, 40]);
}
