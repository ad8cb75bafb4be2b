//! Answers that are kept: one call for many, and nothing for anybody else.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "stage/stage.rs"]
mod stage;

use stage::gateway::Gateway;

/// `ROUNDS=100000 cargo test --test cache` tries longer.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500)
}

const CONFIG: &str = r#"
listen: 127.0.0.1:0
threads: 2
upstreams:
  shop: { url: 'http://${SHOP}', forward: [authorization] }
  kept: { url: 'http://${SHOP}', forward: all, host: keep, cache: on }
endpoints:
  GET /slow: { cache: on, pipeline: [request: shop /slow] }
  GET /slow/{id}: kept /slow/{id}
  GET /mine/{id}: { cache: { for: 1h, private: { by: $headers.authorization } }, pipeline: [request: 'shop /mine/{id}'] }
  GET /guarded/{id}: { cache: { for: 1h }, pipeline: [request: 'shop /guarded/{id}'] }
  GET /host/{id}: kept /host/{id}
"#;

/// What is open, once it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }
}

/// An upstream that counts, and ends a slow answer when its gate is open.
struct Shop {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    called: Gate,
    gate: Gate,
}

const HALF: usize = 10_000;

impl Shop {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, calls) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (called, gate) = (Gate::default(), Gate::default());
        let shop = Shop { address, calls: calls.clone(), called: called.clone(), gate: gate.clone() };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (calls, called, gate) = (calls.clone(), called.clone(), gate.clone());
                thread::spawn(move || answer(stream, &calls, &called, &gate));
            }
        });
        shop
    }
}

fn answer(mut stream: TcpStream, calls: &AtomicUsize, called: &Gate, gate: &Gate) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut line, mut who, mut host) = (String::new(), String::new(), String::new());
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let target = line.split(' ').nth(1)?.to_owned();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.strip_prefix("authorization: ") {
                who = value.trim().to_owned();
            }
            if let Some(value) = line.strip_prefix("host: ") {
                host = value.trim().to_owned();
            }
        }
        calls.fetch_add(1, Ordering::SeqCst);
        called.open();
        if target.starts_with("/slow") {
            let length = 2 * HALF;
            let head = format!("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all([head, "a".repeat(HALF)].concat().as_bytes()).ok()?;
            gate.wait();
            stream.write_all("b".repeat(HALF).as_bytes()).ok()?;
            continue;
        }
        let body = format!("{target} {}", if target.starts_with("/host") { host } else { who });
        let kept = if target.starts_with("/host") { "cache-control: max-age=60\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\n{kept}content-length: {}\r\n\r\n", body.len());
        stream.write_all([head, body].concat().as_bytes()).ok()?;
    }
}

fn gateway(name: &str, shop: &Shop) -> Gateway {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, CONFIG).unwrap();
    let shop = ("SHOP".to_owned(), shop.address.to_string());
    Gateway::start(["run".as_ref(), path.as_os_str()], [shop]).unwrap()
}

/// One client's connection.
struct Asking(BufReader<TcpStream>);

impl Asking {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        Asking(BufReader::new(stream))
    }

    fn send(&mut self, target: &str, fields: &str) {
        let request = format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    /// The length that the head tells.
    fn head(&mut self) -> usize {
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        length
    }

    fn read(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn ask(&mut self, target: &str, fields: &str) -> String {
        self.send(target, fields);
        let length = self.head();
        self.read(length)
    }
}

/// All get the first half before the upstream has sent the second.
fn all_at_once(name: &str, target: &str) {
    let shop = Shop::start();
    let gateway = gateway(name, &shop);
    let mut clients: Vec<Asking> = (0..300).map(|_| Asking::connect(gateway.address)).collect();
    clients.iter_mut().for_each(|client| client.send(target, "host: test\r\n"));
    for client in &mut clients {
        assert_eq!(client.head(), 2 * HALF);
        assert_eq!(client.read(HALF), "a".repeat(HALF));
    }
    shop.gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.read(HALF), "b".repeat(HALF)));
    assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
}

#[test]
fn one_call_is_made_for_many_at_an_endpoint_and_all_read_while_it_arrives() {
    all_at_once("cache_endpoint.yaml", "/slow");
}

#[test]
fn one_call_is_made_for_many_at_an_upstream_and_all_read_while_it_arrives() {
    all_at_once("cache_upstream.yaml", "/slow/1");
}

#[test]
fn those_who_wait_are_answered_when_the_first_one_leaves() {
    let shop = Shop::start();
    let gateway = gateway("cache_leader.yaml", &shop);
    let mut first = Asking::connect(gateway.address);
    first.send("/slow", "host: test\r\n");
    shop.called.wait();
    let mut others: Vec<Asking> = (0..20).map(|_| Asking::connect(gateway.address)).collect();
    others.iter_mut().for_each(|client| client.send("/slow", "host: test\r\n"));
    others.iter_mut().for_each(|client| assert_eq!(client.head(), 2 * HALF));
    drop(first);
    shop.gate.open();
    others.iter_mut().for_each(|client| assert_eq!(client.read(2 * HALF)[HALF..], "b".repeat(HALF)));
    assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
}

/// Two who differ in one field ask for the same keys: each gets only what was made for it.
fn apart(name: &str, target: &str, fields: [&str; 2], at_most: Option<usize>) {
    let shop = Shop::start();
    let gateway = gateway(name, &shop);
    thread::scope(|scope| {
        for field in fields {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut client = Asking::connect(gateway.address);
                let (_, value) = field.trim().rsplit_once(' ').unwrap();
                for round in 0..rounds() {
                    let target = format!("{target}/{}", round % 50);
                    assert_eq!(client.ask(&target, field), format!("{target} {value}"), "round {round}");
                }
            });
        }
    });
    let calls = shop.calls.load(Ordering::SeqCst);
    assert!(at_most.is_none_or(|most| calls <= most), "{calls} calls");
}

#[test]
fn what_is_kept_for_one_identity_is_never_given_to_another() {
    let fields = ["host: test\r\nauthorization: anna\r\n", "host: test\r\nauthorization: bert\r\n"];
    apart("cache_private.yaml", "/mine", fields, Some(100));
}

#[test]
fn what_was_made_for_credentials_is_not_kept_without_a_key_that_says_for_whom() {
    let fields = ["host: test\r\nauthorization: anna\r\n", "host: test\r\nauthorization: bert\r\n"];
    apart("cache_guarded.yaml", "/guarded", fields, None);
}

#[test]
fn the_same_path_on_two_hosts_is_two_answers() {
    apart("cache_hosts.yaml", "/host", ["host: one.test\r\n", "host: two.test\r\n"], Some(100));
}
