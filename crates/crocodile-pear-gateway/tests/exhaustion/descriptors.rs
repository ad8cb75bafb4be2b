//! A process may have so many file descriptors, and each client takes one.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::stage::authority::Authority;
use super::stage::gateway::Gateway;
use super::stage::secure::{ALL_VERSIONS, Folder, connect, get as get_secure, trusting};
use super::stage::shop::{self, Gate, Shop};
use super::stage::{PATIENCE, program, scratch, until, within};

static SCENES: AtomicUsize = AtomicUsize::new(0);

/// A gateway that may have so many descriptors (`ulimit -n`), before a shop.
struct Scene {
    gateway: Gateway,
    admin: SocketAddr,
}

impl Scene {
    fn new(limit: &str, config: &str, shop: &Shop) -> Self {
        // The test's own sockets are more.
        let own = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own });
        let path = scratch(format!("exhaustion_{}.yaml", SCENES.fetch_add(1, Ordering::Relaxed)));
        let config = format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 2\n{config}");
        std::fs::write(&path, config.replace("SHOP", &shop.address.to_string())).unwrap();
        let gateway = Gateway::begin(limited(limit, &path)).unwrap();
        let admin = gateway.admin().unwrap();
        Scene { gateway, admin }
    }

    /// The number behind a metric.
    fn metric(&self, name: &str) -> u64 {
        let page = get(self.admin, "/metrics").unwrap();
        page.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).sum::<f64>() as u64
    }
}

fn limited(limit: &str, config: &std::path::Path) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{limit}; exec \"$0\" run \"$1\"");
    command.args(["-c".as_ref(), script.as_ref(), program("crocodile-pear").as_os_str(), config.as_os_str()]);
    command
}

/// The whole answer to a request on a connection of its own.
fn get(address: SocketAddr, target: &str) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut stream = open(address).map_err(told)?;
    let request = format!("GET {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(answer) }
}

fn open(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection that is kept after a request.
fn kept(address: SocketAddr) -> TcpStream {
    let mut stream = open(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    stream
}

/// A shop that answers at once, or when its gate is open.
fn shop() -> (Shop, Gate) {
    let gate = Gate::default();
    let waits = gate.clone();
    let shop = Shop::open(move |asked, stream| {
        if asked.target.starts_with("/slow") {
            waits.wait();
        }
        stream.write_all(&shop::answer(200, "", "fine"))
    });
    (shop, gate)
}

const PLAIN: &str = "upstreams: { shop: 'http://SHOP' }\nendpoints: { '/{*path}': 'shop /{*path}' }\n";

/// The bytes that make a connection idle.
const IDLE: [(&str, &[u8]); 5] = [
    ("silent", b""),
    ("a part of a head", b"GET / HTTP/1.1\r\nhost: h\r\nx-"),
    ("kept after a request", b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
    ("a part of a preface", b"PRI * HTTP/2.0\r\n\r\nSM"),
];

#[test]
fn idle_connections_of_one_client_stop_nobody() {
    for (kind, sent) in IDLE {
        let (shop, _gate) = shop();
        let scene = Scene::new("ulimit -n 512", PLAIN, &shop);
        let mut flood = Vec::new();
        for _ in 0..700 {
            let mut stream = open(scene.gateway.address).unwrap();
            // The oldest are closed meanwhile.
            let _ = stream.write_all(sent);
            flood.push(stream);
        }
        for _ in 0..20 {
            assert!(get(scene.gateway.address, "/a").is_ok(), "{kind}");
            assert!(get(scene.admin, "/health").is_ok() && get(scene.admin, "/ready").is_ok(), "{kind}");
        }
        let closed = scene.metric("crocodile_pear_connections_closed_for_room_total ");
        let open = scene.metric("process_open_fds ");
        assert!(closed >= 400 && open < 460, "{kind}: {closed} closed, {open} open");
        scene
            .gateway
            .logged("*file descriptors run out; closing the connections that have been idle longest*")
            .unwrap();
    }
}

#[test]
fn unfinished_handshakes_of_one_client_stop_nobody() {
    let (authority, folder) = (Authority::new(), Folder::new("exhaustion"));
    folder.identity("own", &authority.sign(&["gateway.test"]));
    let own = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own });
    let config = "listen: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }\nthreads: 2\n\
                  endpoints: { GET /a: { pipeline: [ respond: { body: '1' } ] } }\n";
    folder.write("handshakes.yaml", config);
    let gateway = Gateway::begin(limited("ulimit -n 512", &folder.path("handshakes.yaml"))).unwrap();
    // The beginning of a ClientHello.
    let sent: [&[u8]; 3] = [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"];
    let mut flood = Vec::new();
    for number in 0..700 {
        let mut stream = open(gateway.address).unwrap();
        let _ = stream.write_all(sent[number % 3]);
        flood.push(stream);
    }
    let session = std::sync::Arc::new(trusting(&authority, ALL_VERSIONS));
    for _ in 0..5 {
        let mut stream = connect(gateway.address, &session, "gateway.test", b"").unwrap();
        assert!(get_secure(&mut stream, "/a").unwrap().starts_with("HTTP/1.1 200 OK"));
    }
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    let (shop, _gate) = shop();
    let scene = Scene::new("ulimit -S -n 64; ulimit -H -n 4096", PLAIN, &shop);
    let streams: Vec<_> = (0..1000)
        .map(|_| {
            let mut stream = open(scene.gateway.address).unwrap();
            stream.write_all(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
            let mut answer = [0; 64];
            assert!(stream.read(&mut answer).unwrap() > 0 && answer.starts_with(b"HTTP/1.1 200 OK"));
            stream
        })
        .collect();
    assert_eq!(scene.metric("crocodile_pear_connections_closed_for_room_total "), 0);
    assert_eq!(scene.metric("process_max_fds "), 4096);
    assert!(get(scene.gateway.address, "/a").is_ok());
    drop(streams);
}

/// Each has a request whose answer is still to come, so none is idle. Others wait until one has its answer.
#[test]
fn at_the_limit_clients_wait_their_turn_and_calls_have_descriptors() {
    let (shop, gate) = shop();
    let scene = Scene::new("ulimit -n 256", PLAIN, &shop);
    let address = scene.gateway.address;
    let mut busy = Vec::new();
    for _ in 0..300 {
        let mut stream = open(address).unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
        busy.push(stream);
    }
    // As many as have a descriptor are at the shop, and each of them has one for its call.
    until("the calls that may be made", || shop.connections() >= 60);
    scene.gateway.logged("*file descriptors run out, and no connection is idle; new clients wait*").unwrap();
    for _ in 0..10 {
        assert!(get(scene.admin, "/health").is_ok() && get(scene.admin, "/ready").is_ok());
        assert!(get(scene.admin, "/metrics").is_ok());
    }
    assert!(shop.connections() <= 110, "{} {}", shop.connections(), scene.gateway.said());
    gate.open();
    for mut stream in busy {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}

/// Several clients that keep more connections than there is room for, and use them in turn.
#[test]
fn several_clients_together_at_the_limit_are_served_on() {
    let (shop, _gate) = shop();
    let scene = Scene::new("ulimit -n 256", PLAIN, &shop);
    let address = scene.gateway.address;
    let (served, begun_anew) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut kept: Vec<TcpStream> = (0..60).map(|_| open(address).unwrap()).collect();
                for turn in 0..600 {
                    let stream = &mut kept[turn % 60];
                    // One that was closed to make room is opened anew, as any client does.
                    if ask(stream).is_none() {
                        *stream = open(address).unwrap();
                        begun_anew.fetch_add(1, Ordering::Relaxed);
                        assert!(
                            within(PATIENCE, || ask(stream).or_else(|| {
                                *stream = open(address).unwrap();
                                None
                            }))
                            .is_some()
                        );
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(served.into_inner(), 3600);
    println!("{} connections were opened anew", begun_anew.into_inner());
    assert!(scene.metric("crocodile_pear_connections_closed_for_room_total ") > 0);
}

/// Sends a request on a kept connection; `None` where the connection was closed.
fn ask(stream: &mut TcpStream) -> Option<()> {
    stream.write_all(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n").ok()?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
    while !answer.ends_with(b"fine") {
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", answer.escape_ascii());
    Some(())
}

/// Calls that fan out take what idle clients have.
#[test]
fn calls_take_the_descriptors_of_idle_clients() {
    let (shop, gate) = shop();
    let calls: Vec<String> = (0..160).map(|number| format!("c{number}: shop /slow/{number}")).collect();
    let config = format!(
        "upstreams: {{ shop: 'http://SHOP' }}\nendpoints:\n  GET /many: {{ pipeline: [ {{ requests: {{ {} }} }}, {{ merge: '1' }} ] }}\n",
        calls.join(", ")
    );
    let scene = Scene::new("ulimit -n 256", &config, &shop);
    let _idle: Vec<TcpStream> = (0..70).map(|_| kept(scene.gateway.address)).collect();
    until("idle connections", || scene.metric("process_open_fds ") > 80);
    thread::scope(|scope| {
        let asking = scope.spawn(|| get(scene.gateway.address, "/many"));
        until("all calls", || shop.connections() >= 160);
        gate.open();
        assert!(asking.join().unwrap().is_ok());
    });
    assert!(get(scene.admin, "/health").is_ok());
}
