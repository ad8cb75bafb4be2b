//! Names that move, have several addresses, or cannot be asked for; by a name server of the tests' own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::load::Load;
use crate::scene::{Scene, config};
use crate::stage::moody::Server;
use crate::stage::until;

/// Answers every name with these addresses, for a second; with nothing, while there are none.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<IpAddr>>>);

impl Names {
    fn new(addresses: &[&str]) -> (Self, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (names, address) = (Names::default(), socket.local_addr().unwrap());
        names.set(addresses);
        let answers = names.clone();
        thread::spawn(move || {
            let mut query = [0; 1024];
            while let Ok((length, from)) = socket.recv_from(&mut query) {
                let addresses = answers.0.lock().unwrap().clone();
                if !addresses.is_empty() {
                    socket.send_to(&answer(&query[..length], &addresses), from).unwrap();
                }
            }
        });
        (names, address)
    }

    fn set(&self, addresses: &[&str]) {
        *self.0.lock().unwrap() = addresses.iter().map(|address| address.parse().unwrap()).collect();
    }
}

/// RFC 1035, 4.1, and RFC 3596.
fn answer(query: &[u8], addresses: &[IpAddr]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&byte| byte == 0).unwrap() + 5;
    let asked = query[end - 3];
    let fits = |address: &&IpAddr| asked == if address.is_ipv4() { 1 } else { 28 };
    let wanted: Vec<&IpAddr> = addresses.iter().filter(fits).collect();
    let mut answer = vec![query[0], query[1], 0x81, 0x80, 0, 1, 0, wanted.len() as u8, 0, 0, 0, 0];
    answer.extend_from_slice(&query[12..end]);
    for address in wanted {
        answer.extend_from_slice(&[0xc0, 12, 0, asked, 0, 1, 0, 0, 0, 1, 0]);
        match address {
            IpAddr::V4(four) => answer.extend([&[4][..], &four.octets()].concat()),
            IpAddr::V6(six) => answer.extend([&[16][..], &six.octets()].concat()),
        }
    }
    answer
}

/// A server on each of these addresses, all with one port, and a gateway that knows them by name.
fn stage(name: &str, listening: &[&str], known: &[&str]) -> (Vec<Server>, Names, Scene) {
    let mut servers = vec![Server::at(format!("{}:0", listening[0]).parse().unwrap())];
    let port = servers[0].address.port();
    servers.extend(listening[1..].iter().map(|address| Server::at(format!("{address}:{port}").parse().unwrap())));
    let (names, resolver) = Names::new(known);
    let config = format!("resolver: {resolver}\n{}", config(&format!("'http://shop.test:{port}'")));
    (servers, names, Scene::with(name, &config))
}

#[test]
fn busy_connections_follow_a_name_that_moves() {
    let (servers, names, scene) = stage("moves", &["127.0.0.1", "127.0.0.2"], &["127.0.0.1"]);
    let load = Load::get(scene.address(), 2_000).paced(500).begin();
    until("the load has begun", || servers[0].mood.asked() >= 200);
    names.set(&["127.0.0.2"]);
    scene.gateway.logged("*the addresses have changed*").unwrap();
    // What is under way ends where it began; each connection has one call under way.
    let after = servers[0].mood.asked();
    let seen = load.join().unwrap();
    assert!(seen.failures.is_empty(), "{seen:?}");
    let late = servers[0].mood.asked() - after;
    assert!(late <= 64 && servers[1].mood.asked() > 500, "{late} {}", servers[1].mood.asked());
    assert_eq!(scene.metric("crocodile_pear_server_address_changes_total", "shop"), 1);
}

#[test]
fn an_outage_of_the_name_server_keeps_what_was_known() {
    let (servers, names, scene) = stage("silent", &["127.0.0.1"], &["127.0.0.1"]);
    assert!(Load::get(scene.address(), 10).run().failures.is_empty());
    names.set(&[]);
    scene.gateway.logged("*WARN*DNS lookup failed*shop.test*").unwrap();
    assert!(Load::get(scene.address(), 100).run().failures.is_empty());
    names.set(&["127.0.0.1"]);
    scene.gateway.logged("*DNS lookup succeeds again*").unwrap();
    assert!(scene.metric("crocodile_pear_server_resolutions_failed_total", "shop") > 0);
    assert!(servers[0].mood.asked() >= 110);
}

#[test]
fn several_addresses_share_the_calls_and_a_dead_one_costs_none() {
    let listening = ["127.0.0.1", "127.0.0.2", "[::1]"];
    let (servers, _names, scene) = stage("several", &listening, &["127.0.0.1", "127.0.0.2", "::1", "127.0.0.3"]);
    let seen = Load::get(scene.address(), 3_000).at_once(32).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    let asked: Vec<u64> = servers.iter().map(|server| server.mood.asked()).collect();
    assert!(asked.iter().all(|asked| *asked > 300), "{asked:?}");
}
