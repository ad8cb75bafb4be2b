//! The breaker of a database: what is away is left alone, and asked again in time.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::databases::database::Database;
use crate::databases::gateway;
use crate::stage::scene::Scene;

/// Much less than this is the rule; a busy machine adds to it.
const PATIENCE: Duration = Duration::from_secs(20);

const ENDPOINTS: &str = "  GET /a:
    pipeline:
      - sql: { to: main, query: select 1 as a, one: true }
  GET /none:
    pipeline:
      - sql: { to: main, query: select 1 as a where false, one: true }
  GET /bad/{n}:
    pipeline:
      - sql: { to: main, query: select 1 / $1 as a, values: ['$path.n | tonumber'], one: true }
";

/// Until it is refused at once: the breaker is open.
fn opens(scene: &Scene) {
    scene.until("the breaker opens", || {
        let reply = scene.client().get("/a");
        assert!(matches!(reply.status, 503 | 504), "{} {}", reply.status, reply.body);
        reply.body.contains("circuit breaker")
    });
}

#[test]
fn a_database_that_is_killed_is_left_alone_and_found_again() {
    let Some(mut database) = Database::start() else { return };
    let settings = ", breaker: { failures: 3, open: 1s, probes: 2 }";
    let scene = gateway("breaker_killed", &database, settings, ENDPOINTS);
    assert_eq!(scene.client().get("/a").status, 200);
    database.kill();
    opens(&scene);
    assert_eq!(scene.metric("crocodile_pear_database_breaker_open{"), 1);
    assert_eq!(scene.metric("crocodile_pear_database_breaker_opened_total"), 1);
    assert!(scene.metric("crocodile_pear_database_statements_refused_total") > 0);
    scene.until("the log says so", || scene.count("circuit breaker opened") == 1);
    database.restart();
    let begun = Instant::now();
    // An answer that there is no such row is an answer.
    scene.until("a probe succeeds", || scene.client().get("/none").status == 404);
    scene.until("it serves", || scene.client().get("/a").status == 200);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    scene.until("it is closed", || scene.metric("crocodile_pear_database_breaker_open{") == 0);
    scene.until("the log says so", || scene.count("circuit breaker closed") == 1);
}

#[test]
fn nothing_is_sent_while_the_breaker_is_open() {
    let Some(mut database) = Database::start() else { return };
    let settings = ", breaker: { failures: 2, open: 60s }";
    let scene = gateway("breaker_open", &database, settings, ENDPOINTS);
    database.kill();
    opens(&scene);
    // In the place of the server: it would see who comes.
    let place = TcpListener::bind(("127.0.0.1", database.port)).unwrap();
    place.set_nonblocking(true).unwrap();
    for _ in 0..20 {
        let reply = scene.client().get("/a");
        let after: u64 = reply.field("retry-after").unwrap().parse().unwrap();
        assert!(reply.status == 503 && (2..=60).contains(&after), "{} {after}", reply.status);
    }
    assert_eq!(place.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_database_that_is_silent_opens_the_breaker() {
    let Some(database) = Database::start() else { return };
    let settings = ", timeout: 300ms, breaker: { failures: 2, open: 500ms, probes: 1 }";
    let scene = gateway("breaker_silent", &database, settings, ENDPOINTS);
    scene.until("it serves", || scene.client().get("/a").status == 200);
    database.signal("STOP");
    opens(&scene);
    database.signal("CONT");
    scene.until("it serves again", || scene.client().get("/a").status == 200);
}

#[test]
fn what_the_database_refuses_does_not_open_the_breaker() {
    let Some(database) = Database::shared() else { return };
    let settings = ", breaker: { failures: 2, calls: 2, open: 60s }";
    let scene = gateway("breaker_refusals", &database, settings, ENDPOINTS);
    let mut client = scene.client();
    for _ in 0..10 {
        for (path, status) in [("/none", 404), ("/bad/0", 400), ("/bad/x", 400), ("/bad/1e10", 400)] {
            assert_eq!(client.get(path).status, status, "{path}");
        }
    }
    assert_eq!(client.get("/a").status, 200);
    assert_eq!(scene.metric("crocodile_pear_database_breaker_opened_total"), 0);
}

#[test]
fn a_breaker_is_on_where_none_is_written() {
    let Some(database) = Database::start() else { return };
    // The only connection is in use, and nothing is timed out: only the silence of the server tells.
    let slow = "  POST /slow:
    pipeline:
      - sql: { to: main, query: 'select pg_sleep($1)::text as a', values: [$body], one: true }
  POST /a:
    pipeline:
      - sql: { to: main, query: select 1 as a, one: true }
";
    let scene = gateway("breaker_default", &database, ", connections: 1, wait: 200ms, timeout: never", slow);
    let ask = |path: &str, body: &str| scene.client().ask("POST", path, &[], body);
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| ask("/slow", "2").status);
        let in_use = "db_client_connection_count{database=\"main\",state=\"used\"}";
        scene.until("it runs", || scene.metric(in_use) == 1);
        database.signal("STOP");
        scene.until("the breaker opens", || ask("/a", "").body.contains("circuit breaker"));
        database.signal("CONT");
        assert_eq!(stuck.join().unwrap(), 200);
    });
    scene.until("it serves again", || ask("/a", "").status == 200);
}

#[test]
fn statements_that_take_long_do_not_open_the_breaker() {
    let Some(database) = Database::shared() else { return };
    let slow = "  GET /a:
    pipeline:
      - sql: { to: main, query: 'select pg_sleep(2)::text as a', one: true }
  GET /b:
    pipeline:
      - sql: { to: main, query: select 1 as a, one: true }
";
    let scene = gateway("breaker_slow", &database, ", connections: 1, wait: 100ms", slow);
    assert_eq!(scene.client().get("/b").status, 200);
    std::thread::scope(|scope| {
        let long = scope.spawn(|| scene.client().get("/a").status);
        scene.until("it runs", || scene.client().get("/b").status == 503 || long.is_finished());
        for _ in 0..20 {
            let reply = scene.client().get("/b");
            assert!(reply.status == 200 || reply.body.contains("wait for a connection"), "{}", reply.body);
        }
        assert_eq!(long.join().unwrap(), 200);
    });
    assert_eq!(scene.metric("crocodile_pear_database_breaker_opened_total"), 0);
}
