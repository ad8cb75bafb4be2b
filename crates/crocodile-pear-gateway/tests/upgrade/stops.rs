//! The causes that end a tunnel besides its two sides, and those that do not.

use std::time::{Duration, Instant};

use crate::upgrade::scene::{Close, Scene, config};

#[test]
fn silence_ends_a_tunnel_on_both_sides() {
    let scene = Scene::new("upgrade: { to: websocket, idle: 1s }", "log: { access: true }");
    let (mut client, mut upstream) = scene.tunnel();
    let since = Instant::now();
    // Either side may speak to keep it.
    while since.elapsed() < Duration::from_millis(1500) {
        upstream.send("x");
        assert_eq!(client.exactly(1), b"x");
        client.quiet(Duration::from_millis(50));
    }
    assert_eq!(client.rest(), (vec![], Close::Clean));
    assert_eq!(upstream.rest(), (vec![], Close::Clean));
    scene.gateway.logged("*access*status=101*ended=\"failed\"*silent*").unwrap();
}

#[test]
fn the_times_of_a_call_and_of_a_request_are_not_those_of_a_tunnel() {
    let scene = Scene::new("timeout: 1s, upgrade: { to: websocket, idle: never }", "clients: { keep: 1s }");
    let (mut client, mut upstream) = scene.tunnel();
    client.quiet(Duration::from_millis(1_500));
    upstream.send("x");
    assert_eq!(client.exactly(1), b"x");
}

#[test]
fn a_reload_leaves_tunnels_alone() {
    let scene = Scene::new("upgrade: websocket", "");
    let (mut client, mut upstream) = scene.tunnel();
    // The endpoint and its upstream are gone from the configuration.
    let other = config("max_body: 1B", "", "127.0.0.1:9").replace("chat", "other");
    std::fs::write(&scene.file, other).unwrap();
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*configuration reloaded*").unwrap();
    let mut gone = scene.connect();
    gone.send("GET /chat HTTP/1.1\r\nhost: h\r\n\r\n");
    assert!(gone.head().starts_with("HTTP/1.1 404"));
    for _ in 0..3 {
        client.send("up");
        assert_eq!(upstream.exactly(2), b"up");
        upstream.send("down");
        assert_eq!(client.exactly(4), b"down");
    }
    client.end();
    assert_eq!(upstream.rest(), (vec![], Close::Clean));
}

#[test]
fn a_stop_ends_tunnels_when_the_time_for_it_is_over() {
    let mut scene = Scene::new("upgrade: websocket", "clients: { drain: 500ms }\nlog: { access: true }");
    let (mut client, mut upstream) = scene.tunnel();
    let (mut leaving, mut left) = scene.tunnel();
    let since = Instant::now();
    scene.gateway.signal("TERM").unwrap();
    scene.gateway.logged("*shutting down*").unwrap();
    client.send("up");
    assert_eq!(upstream.exactly(2), b"up");
    upstream.send("down");
    assert_eq!(client.exactly(4), b"down");
    leaving.end();
    assert_eq!(left.rest(), (vec![], Close::Clean));
    drop(left);
    assert_eq!(leaving.rest(), (vec![], Close::Clean));
    assert_eq!(client.rest(), (vec![], Close::Reset));
    assert_eq!(upstream.rest(), (vec![], Close::Reset));
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(450) && waited < Duration::from_secs(5), "{waited:?}");
    assert!(scene.gateway.ended().unwrap().success());
    scene.gateway.logged("*access*status=101*bytes=4*client-gone*").unwrap();
}

#[test]
fn an_access_line_has_the_bytes_of_a_tunnel() {
    let scene = Scene::new("upgrade: websocket", "log: { access: true }");
    let (mut client, mut upstream) = scene.tunnel();
    upstream.send("x".repeat(70_000));
    client.exactly(70_000);
    client.end();
    upstream.rest();
    drop(upstream);
    client.rest();
    scene.gateway.logged("*access*status=101*bytes=70000*ended=\"whole\"*").unwrap();
}
