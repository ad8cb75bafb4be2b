//! Names that move, have several addresses, or cannot be asked for; by a name server of the tests' own.

use crate::outages::load::Load;
use crate::outages::scene::{Scene, config};
use crate::stage::moody::Server;
use crate::stage::names::Names;
use crate::stage::until;

/// A server on each of these addresses, all with one port, and a gateway that knows them by name.
fn stage(name: &str, listening: &[&str], known: &[&str]) -> (Vec<Server>, Names, Scene) {
    let mut servers = vec![Server::at(format!("{}:0", listening[0]).parse().unwrap())];
    let port = servers[0].address.port();
    servers.extend(listening[1..].iter().map(|address| Server::at(format!("{address}:{port}").parse().unwrap())));
    let names = Names::new(known);
    let config = format!("resolver: {}\n{}", names.address, config(&format!("'http://shop.test:{port}'")));
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
    let seen = Load::get(scene.address(), 1_500).at_once(32).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    let asked: Vec<u64> = servers.iter().map(|server| server.mood.asked()).collect();
    assert!(asked.iter().all(|asked| *asked > 150), "{asked:?}");
}

#[test]
fn a_name_server_that_is_silent_from_the_start_is_the_reason_that_is_told() {
    let (_servers, names, scene) = stage("silent_start", &["127.0.0.1"], &[]);
    let answer = crate::outages::scene::get(scene.address(), "/a");
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    // The first line, not only some line: the server was never called.
    let line = scene.gateway.logged("*cannot connect*").unwrap();
    assert!(line.contains("DNS"), "{line}");
    scene.gateway.logged("*WARN*DNS lookup failed*no address is known*").unwrap();
    names.set(&["127.0.0.1"]);
    until("it is found", || crate::outages::scene::get(scene.address(), "/a").starts_with("HTTP/1.1 200"));
}
