//! Servers that close their connections: no GET fails, no POST arrives twice, and no more connections are opened than wanted.

use std::sync::atomic::Ordering;

use crate::outages::load::Load;
use crate::outages::scene::Scene;
use crate::stage::moody::Server;

fn closing(name: &str, closes: u64, whims: u64) -> (Server, Scene) {
    let server = Server::new();
    server.mood.closes.store(closes, Ordering::SeqCst);
    server.mood.whims.store(whims, Ordering::SeqCst);
    let scene = Scene::new(name, &format!("'http://{}'", server.address));
    (server, scene)
}

#[test]
fn a_get_never_fails_because_a_server_closes() {
    for (closes, whims) in [(1, 0), (7, 0), (1_000, 0), (0, 10)] {
        let (server, scene) = closing(&format!("get_{closes}_{whims}"), closes, whims);
        let seen = Load::get(scene.address(), 1_500).run();
        assert!(seen.failures.is_empty(), "{closes} {whims}: {seen:?}");
        assert_eq!(server.mood.asked(), seen.sent);
    }
}

#[test]
fn a_post_arrives_at_most_once() {
    for (closes, whims) in [(1, 0), (7, 0), (0, 10)] {
        let (server, scene) = closing(&format!("post_{closes}_{whims}"), closes, whims);
        let seen = Load::post(scene.address(), 1_000).run();
        let bodies = server.mood.bodies.lock().unwrap();
        assert!(bodies.values().all(|times| *times == 1), "{closes} {whims}");
        eprintln!("every {closes} or one of {whims}: {} of {} posts told an error", seen.failures.len(), seen.sent);
        assert!((seen.failures.len() as u64) * 100 <= seen.sent, "{closes} {whims}: {:?}", seen.failures.first());
        assert!(bodies.len() as u64 + seen.failures.len() as u64 >= seen.sent);
    }
}

#[test]
fn connections_are_opened_for_those_who_come_at_once() {
    let (server, scene) = closing("kept", 0, 0);
    let seen = Load::get(scene.address(), 3_200).at_once(64).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    let opened = server.mood.connections.load(Ordering::SeqCst);
    eprintln!("{opened} connections for {} requests", seen.sent);
    assert!(opened <= 64 + cores, "{opened}");
    assert_eq!(scene.metric("crocodile_pear_upstream_connections_opened_total", "shop"), opened);
}
