//! Servers that the SRV records of a DNS service name, by a name server of the tests' own.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::outages::load::Load;
use crate::outages::scene::{Scene, config, get};
use crate::stage::moody::Server;
use crate::stage::until;

/// Priority, weight, and the server.
type Record = (u16, u16, SocketAddr);

/// Answers SRV with these records, for a second, and every host with 127.0.0.1; nothing at all while there are none.
#[derive(Clone, Default)]
struct Services(Arc<Mutex<Option<Vec<Record>>>>);

impl Services {
    fn new() -> (Self, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (services, address) = (Services::default(), socket.local_addr().unwrap());
        let answers = services.clone();
        thread::spawn(move || {
            let mut query = [0; 1024];
            while let Ok((length, from)) = socket.recv_from(&mut query) {
                let records = answers.0.lock().unwrap().clone();
                if let Some(records) = records {
                    socket.send_to(&answer(&query[..length], &records), from).unwrap();
                }
            }
        });
        (services, address)
    }

    fn set(&self, records: &[Record]) {
        *self.0.lock().unwrap() = Some(records.to_vec());
    }

    /// A gateway whose upstream `shop` is this service.
    fn scene(&self, name: &str, resolver: SocketAddr, more: &str) -> Scene {
        let upstream = format!("{{ url: 'http+srv://_shop._tcp.example.test', {more} }}");
        Scene::with(name, &format!("resolver: {resolver}\n{}", config(&upstream)))
    }
}

/// RFC 1035, 4.1, and RFC 2782.
fn answer(query: &[u8], records: &[Record]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&byte| byte == 0).unwrap() + 5;
    let asked = query[end - 3];
    let number = match asked {
        1 => 1,
        33 => records.len(),
        _ => 0,
    };
    let mut answer = vec![query[0], query[1], 0x81, 0x80, 0, 1, 0, number as u8, 0, 0, 0, 0];
    answer.extend_from_slice(&query[12..end]);
    let record = |data: &[u8]| [&[0xc0, 12, 0, asked, 0, 1, 0, 0, 0, 1, 0, data.len() as u8], data].concat();
    match asked {
        1 => answer.extend(record(&[127, 0, 0, 1])),
        33 => {
            for (priority, weight, server) in records {
                let numbers = [*priority, *weight, server.port()].map(u16::to_be_bytes).concat();
                answer.extend(record(&[&numbers[..], b"\x04host\x04test\x00"].concat()));
            }
        }
        _ => {}
    }
    answer
}

fn asked(servers: &[Server]) -> Vec<u64> {
    servers.iter().map(|server| server.mood.asked()).collect()
}

#[test]
fn calls_go_to_the_first_priority_by_weight_and_to_the_next_when_it_is_gone() {
    let mut servers: Vec<Server> = (0..3).map(|_| Server::new()).collect();
    let (services, resolver) = Services::new();
    let at = |at: usize| servers[at].address;
    // The weights are large, as some registries have them.
    services.set(&[(1, 3_000, at(0)), (1, 1_000, at(1)), (2, 1, at(2))]);
    let scene = services.scene("service_weights", resolver, "balance: round_robin");
    let seen = Load::get(scene.address(), 400).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    // A call that waits long asks for another server, and skips a turn.
    let seen = asked(&servers);
    assert!((290..=310).contains(&seen[0]) && seen[2] == 0, "{seen:?}");
    let last = servers.pop().unwrap();
    drop(servers);
    // A call is tried twice: the first ones may meet both of the dead servers, until these are ejected.
    Load::get(scene.address(), 100).at_once(4).run();
    let before = last.mood.asked();
    let seen = Load::get(scene.address(), 200).at_once(4).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    assert_eq!(last.mood.asked() - before, 200);
}

#[test]
fn records_that_change_lose_no_call_and_no_connection() {
    let servers: Vec<Server> = (0..3).map(|_| Server::new()).collect();
    let (services, resolver) = Services::new();
    let at = |at: usize| servers[at].address;
    services.set(&[(0, 0, at(0)), (0, 0, at(1))]);
    let scene = services.scene("service_changes", resolver, "balance: round_robin");
    let seen = Load::get(scene.address(), 100).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    let kept = servers[1].mood.connections.load(std::sync::atomic::Ordering::SeqCst);
    let load = Load::get(scene.address(), 2_000).paced(500).begin();
    services.set(&[(0, 0, at(1)), (0, 0, at(2))]);
    scene.gateway.logged("*the addresses have changed*").unwrap();
    let before = asked(&servers);
    let seen = load.join().unwrap();
    assert!(seen.failures.is_empty(), "{seen:?}");
    // What is under way ends where it began.
    let after = asked(&servers);
    assert!(after[0] - before[0] <= 64 && after[2] > 300, "{before:?} {after:?}");
    // The server that stays has the connections that it had, and those that the load opened: as many as calls at once.
    let now = servers[1].mood.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert!(kept >= 1 && now <= kept + 64, "{kept} {now}");
    assert_eq!(scene.metric("crocodile_pear_upstream_server_changes_total", "shop"), 1);
    assert_eq!(scene.metric("crocodile_pear_server_up", "shop"), 2);
}

#[test]
fn a_service_that_is_not_known_is_told_and_found_later() {
    let server = Server::new();
    let (services, resolver) = Services::new();
    let scene = services.scene(
        "service_unknown",
        resolver,
        "timeout: { connect: 300ms }, health: { path: /item, interval: 50ms }",
    );
    let told = get(scene.address(), "/item");
    assert!(told.starts_with("HTTP/1.1 504 ") && told.contains("the servers were not known in time"), "{told}");
    scene.gateway.logged("*WARN*DNS lookup failed; no address is known*_shop._tcp.example.test*").unwrap();
    let told = get(scene.address(), "/item");
    assert!(told.starts_with("HTTP/1.1 502 ") && told.contains("no server is known"), "{told}");
    // The service is there, and offers no server; then one.
    services.set(&[]);
    scene.until_at_least("crocodile_pear_upstream_resolutions_failed_total", "shop", 2);
    services.set(&[(0, 0, server.address)]);
    scene.gateway.logged("*DNS lookup succeeds again*").unwrap();
    until("it is called", || get(scene.address(), "/item").starts_with("HTTP/1.1 200 "));
    scene.until_at_least("crocodile_pear_server_checks_total", "shop", 3);
}
