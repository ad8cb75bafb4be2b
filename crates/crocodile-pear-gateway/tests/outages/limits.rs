//! Where there is no more room: a clean 503 that says when to come again, and everything as before afterwards.

use std::process::Command;
use std::sync::atomic::Ordering;

use crate::outages::load::Load;
use crate::outages::scene::{Scene, config, get};
use crate::stage::moody::Server;
use crate::stage::until;

fn refused(seen: &crate::outages::load::Seen) -> usize {
    seen.failures.iter().filter(|(_, what)| what == "503").count()
}

#[test]
fn without_files_to_open_clients_wait_and_nothing_ends() {
    let server = Server::new();
    let scene = Scene::by("files", &format!("'http://{}'", server.address), |file| {
        let mut command = Command::new("sh");
        let run = "ulimit -n 200; exec \"$0\" run \"$1\"";
        command.args(["-c", run, env!("CARGO_BIN_EXE_crocodile-pear")]).arg(file);
        command
    });
    server.mood.set(|mood| &mood.stalls, true);
    // Each wants two files: its own connection, and one to the upstream.
    let load = Load { requests: 150, ..Load::get(scene.address(), 0).at_once(150) }.begin();
    scene.gateway.logged("*no connection is idle; new clients wait*").unwrap();
    server.mood.set(|mood| &mood.stalls, false);
    let seen = load.join().unwrap();
    // Of a client that was let in by the last file, the call has none.
    assert_eq!(refused(&seen), seen.failures.len(), "{seen:?}");
    assert!(seen.failures.len() < 10, "{seen:?}");
    let seen = Load::get(scene.address(), 500).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
}

#[test]
fn a_bounded_number_of_connections_is_never_exceeded_and_who_waits_too_long_is_told() {
    let server = Server::new();
    let bounds = "connections: { open: 4, waiting: 8 }, timeout: { connect: 200ms }";
    let scene = Scene::with(
        "open",
        &format!("threads: 1\n{}", config(&format!("{{ url: 'http://{}', {bounds} }}", server.address))),
    );
    server.mood.set(|mood| &mood.stalls, true);
    let load = Load { requests: 20, ..Load::get(scene.address(), 0).at_once(20) }.begin();
    scene.until_at_least("crocodile_pear_responses_total", "5xx", 16);
    let told = get(scene.address(), "/item");
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("retry-after: 1\r\n"), "{told}");
    server.mood.set(|mood| &mood.stalls, false);
    let seen = load.join().unwrap();
    assert_eq!((refused(&seen), seen.failures.len()), (16, 16), "{seen:?}");
    let seen = Load::get(scene.address(), 1_000).at_once(12).run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    assert!(server.mood.connections.load(Ordering::SeqCst) <= 4);
}

#[test]
fn an_open_breaker_says_until_when() {
    let server = Server::new();
    server.mood.fails.store(true, Ordering::SeqCst);
    let scene = Scene::new(
        "breaker",
        &format!("{{ url: 'http://{}', breaker: {{ failures: 2, open: 90s }} }}", server.address),
    );
    for _ in 0..2 {
        assert!(get(scene.address(), "/item").starts_with("HTTP/1.1 500 "));
    }
    let told = get(scene.address(), "/item");
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    let after = told.split("retry-after: ").nth(1).and_then(|rest| rest.lines().next()?.parse::<u64>().ok());
    assert!(after.is_some_and(|after| (60..=90).contains(&after)), "{told}");
    assert_eq!(scene.metric("crocodile_pear_upstream_calls_refused_total", "shop"), 1);
}

#[test]
fn health_checks_end_with_the_configuration_that_wants_them() {
    let server = Server::new();
    let health = "health: { path: /item, interval: 10ms }";
    let scene = Scene::new("health", &format!("{{ url: 'http://{}', {health} }}", server.address));
    until("health checks are made", || server.mood.asked() >= 5);
    std::fs::write(&scene.file, config(&format!("'http://{}'", server.address))).unwrap();
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*configuration reloaded*").unwrap();
    assert!(get(scene.address(), "/item").starts_with("HTTP/1.1 200 "));
    let before = server.mood.asked();
    let seen = Load { requests: 300, ..Load::get(scene.address(), 0).paced(1_000) }.run();
    assert!(seen.failures.is_empty(), "{seen:?}");
    // A check that was under way at the reload may arrive late; thirty would come in this time if they went on.
    let asked = server.mood.asked() - before;
    assert!((300..=301).contains(&asked), "{asked}");
}
