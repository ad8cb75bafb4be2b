//! Connections, breakers, ejections, health, names and tokens.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::reload::Kept;
use crate::stage::names::Names;
use crate::stage::shop::{Gate, Shop, answer};

/// Answers with a status that may change.
fn shop() -> (Shop, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let now = status.clone();
    let shop = Shop::open(move |_, stream| stream.write_all(&answer(now.load(Ordering::SeqCst), "", "ok")));
    (shop, status)
}

fn config(upstream: &str) -> String {
    format!("upstreams:\n  shop: {upstream}\nendpoints:\n  GET /a: shop /a\n")
}

#[test]
fn connections_stay_open() {
    let (shop, _) = shop();
    let mut kept = Kept::new("connections", &config(&format!("{{ url: 'http://{}', timeout: 20s }}", shop.address)));
    assert_eq!(kept.status("/a"), 200);
    kept.reload();
    assert_eq!((kept.status("/a"), shop.connections()), (200, 1));
    // What has changed is not about connections.
    kept.change("timeout: 20s", "timeout: 30s");
    assert_eq!((kept.status("/a"), shop.connections()), (200, 1));
    assert_eq!(kept.scene.metric("crocodile_pear_upstream_calls_total{upstream=\"shop\"}"), 3);
    kept.change("timeout: 30s", "keep: 40s");
    assert_eq!((kept.status("/a"), shop.connections()), (200, 2));
}

#[test]
fn an_open_breaker_stays_open() {
    let (shop, status) = shop();
    let upstream = format!("{{ url: 'http://{}', breaker: {{ failures: 1, open: 1h }} }}", shop.address);
    let mut kept = Kept::new("breaker", &config(&upstream));
    status.store(500, Ordering::SeqCst);
    assert_eq!((kept.status("/a"), kept.status("/a"), shop.calls()), (500, 503, 1));
    kept.reload();
    assert_eq!((kept.status("/a"), shop.calls()), (503, 1));
    kept.change("breaker:", "in_flight: 100, breaker:");
    assert_eq!((kept.status("/a"), shop.calls()), (503, 1));
    kept.change("failures: 1", "failures: 2");
    assert_eq!((kept.status("/a"), shop.calls()), (500, 2));
}

#[test]
fn an_ejected_server_stays_ejected() {
    let ((good, _), (bad, status)) = (shop(), shop());
    status.store(500, Ordering::SeqCst);
    let servers = format!("['http://{}', 'http://{}']", good.address, bad.address);
    let upstream = format!(
        "{{ servers: {servers}, balance: {{ by: round_robin, eject: {{ failures: 1, first: 1h, most: 1h }} }} }}"
    );
    let mut kept = Kept::new("ejected", &config(&upstream));
    kept.scene.gateway.logged("*").unwrap();
    for _ in 0..4 {
        // The first failure is retried at the other server.
        assert_eq!(kept.status("/a"), 200);
    }
    assert_eq!(bad.calls(), 1);
    kept.reload();
    (0..4).for_each(|_| assert_eq!(kept.status("/a"), 200));
    assert_eq!(bad.calls(), 1);
    // One server more: the others are as they were.
    let (further, _) = shop();
    kept.change("servers: [", &format!("servers: ['http://{}', ", further.address));
    (0..6).for_each(|_| assert_eq!(kept.status("/a"), 200));
    assert_eq!(bad.calls(), 1);
    assert!(further.calls() > 0);
}

#[test]
fn a_server_that_is_down_stays_down() {
    let (good, _) = shop();
    let hangs = Arc::new(AtomicBool::new(false));
    let (later, gate) = (hangs.clone(), Gate::default());
    let waits = gate.clone();
    let bad = Shop::open(move |asked, stream| {
        if asked.target == "/health" && later.load(Ordering::SeqCst) {
            waits.wait();
        }
        stream.write_all(&answer(if asked.target == "/health" { 500 } else { 200 }, "", "bad"))
    });
    let servers = format!("['http://{}', 'http://{}']", good.address, bad.address);
    let health = "health: { path: /health, interval: 20ms, timeout: 10s, unhealthy: 1 }";
    let upstream = format!("{{ servers: {servers}, balance: round_robin, {health} }}");
    let mut kept = Kept::new("health", &config(&upstream));
    kept.scene.gateway.logged("*server down: health checks fail*").unwrap();
    // The next check does not end before the test does.
    hangs.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        kept.reload();
        (0..4).for_each(|_| assert_eq!(kept.client.get("/a").body, "ok"));
    }
    gate.open();
}

#[test]
fn known_addresses_stay_known_in_an_outage_of_the_name_server() {
    let (shop, _) = shop();
    let names = Names::new(&["127.0.0.1"]);
    let upstream = format!("{{ url: 'http://shop.test:{}', timeout: 20s }}", shop.address.port());
    let mut kept = Kept::new("names", &format!("resolver: {}\n{}", names.address, config(&upstream)));
    assert_eq!(kept.status("/a"), 200);
    names.set(&[]);
    kept.reload();
    assert_eq!(kept.status("/a"), 200);
    // Another pool, the same name.
    kept.change("timeout: 20s", "keep: 40s");
    assert_eq!(kept.status("/a"), 200);
    // And without a connection.
    kept.change("keep: 40s", "keep: 0s");
    assert_eq!((kept.status("/a"), kept.status("/a")), (200, 200));
}

#[test]
fn a_token_is_fetched_once() {
    let (shop, _) = shop();
    let tokens = Shop::open(|_, stream| {
        let token = r#"{"access_token":"a","token_type":"bearer","expires_in":3600}"#;
        stream.write_all(&answer(200, "content-type: application/json\r\n", token))
    });
    let oauth2 = format!(
        "credentials: {{ oauth2: {{ token_url: 'http://{}/t', client_id: me, client_secret: hush }} }}",
        tokens.address
    );
    let upstream = format!("{{ url: 'http://{}', timeout: 20s, {oauth2} }}", shop.address);
    let mut kept = Kept::new("token", &config(&upstream));
    assert_eq!((kept.status("/a"), tokens.calls()), (200, 1));
    kept.reload();
    assert_eq!((kept.status("/a"), tokens.calls()), (200, 1));
    kept.change("timeout: 20s", "keep: 40s");
    assert_eq!((kept.status("/a"), tokens.calls()), (200, 1));
    kept.change("client_id: me", "client_id: you");
    assert_eq!((kept.status("/a"), tokens.calls()), (200, 2));
}

#[test]
fn calls_in_flight_are_counted_on() {
    let gate = Gate::default();
    let waits = gate.clone();
    let shop = Shop::open(move |asked, stream| {
        if asked.target == "/slow" {
            waits.wait();
        }
        stream.write_all(&answer(200, "", "ok"))
    });
    let upstream = format!("{{ url: 'http://{}', in_flight: 1, timeout: {{ connect: 50ms }} }}", shop.address);
    let mut kept = Kept::new("in_flight", &format!("{}  GET /slow: shop /slow\n", config(&upstream)));
    std::thread::scope(|scope| {
        let mut slow = kept.scene.client();
        let slow = scope.spawn(move || slow.get("/slow").status);
        kept.scene.until("it is there", || shop.calls() == 1);
        kept.reload();
        assert_eq!(kept.status("/a"), 503);
        gate.open();
        assert_eq!(slow.join().unwrap(), 200);
        kept.scene.until("its place is free", || kept.scene.client().get("/a").status == 200);
    });
}
