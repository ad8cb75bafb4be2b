//! A database that does not serve: 503 soon, and all is well when it does again.

use std::time::{Duration, Instant};

use crate::databases::database::Database;
use crate::databases::gateway;
use crate::stage::relay::{Relay, Way};
use crate::stage::scene::Scene;

/// Much less than this is the rule; a busy machine adds to it.
const PATIENCE: Duration = Duration::from_secs(20);

const READ: &str = "  GET /a:
    pipeline:
      - sql: { to: main, query: select 1 as a, one: true }
";

#[test]
fn a_database_that_is_away_is_503_until_it_is_there() {
    let Some(mut database) = Database::start() else { return };
    // Nobody waits for a connection that is no more, not even one of another core.
    let scene = gateway("away", &database, ", wait: 30s", READ);
    for _ in 0..4 {
        assert_eq!(scene.client().get("/a").body, r#"{"a":1}"#);
    }
    database.stop();
    let begun = Instant::now();
    for _ in 0..20 {
        let reply = scene.client().get("/a");
        assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")), "{}", reply.body);
        assert!(reply.body.contains("\"kind\":\"unavailable\"") && !reply.body.contains("127.0.0.1"), "{}", reply.body);
    }
    assert!(begun.elapsed() < PATIENCE);
    database.restart();
    let begun = Instant::now();
    scene.until("it serves again", || scene.client().get("/a").status == 200);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn a_core_that_can_open_no_connection_uses_one_of_another_core() {
    let Some(database) = Database::shared() else { return };
    let session = database.connect();
    session.run("create role single login connection limit 1").unwrap();
    let url = database.url().replace("postgres@", "single@");
    let config = format!("databases:\n  main: {{ url: '{url}', connections: 8, wait: 5s }}\nendpoints:\n{READ}");
    let scene = Scene::new("databases_single", &config);
    scene.until("the check of the statements has left", || session.sessions("true") == 0);
    // Each client comes to one of two cores.
    for _ in 0..20 {
        let reply = scene.client().get("/a");
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

#[test]
fn statements_that_wait_open_connections_as_soon_as_they_may() {
    let Some(database) = Database::shared() else { return };
    let session = database.connect();
    session.run("create role narrow login connection limit 1; select pg_advisory_lock(1)").unwrap();
    let url = database.url().replace("postgres@", "narrow@");
    let config = format!(
        "databases:\n  main: {{ url: '{url}', connections: 8, wait: 20s, timeout: 60s }}\nendpoints:\n  \
         POST /held: {{ pipeline: [ sql: {{ to: main, query: 'select pg_advisory_xact_lock(1)::text as a', timeout: 60s }} ] }}\n  \
         POST /a: {{ pipeline: [ sql: {{ to: main, query: select 1 as a, one: true }} ] }}\n"
    );
    let scene = Scene::new("databases_narrow", &config);
    scene.until("the check of the statements has left", || session.sessions("true") == 0);
    let mut held = scene.client();
    held.write("POST /held HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
    scene.until("it is held", || session.sessions("wait_event_type = 'Lock'") == 1);
    let mut waiting: Vec<_> = (0..3).map(|_| scene.client()).collect();
    waiting.iter_mut().for_each(|client| client.write("POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n"));
    scene.gateway.logged("*cannot connect to the database*").unwrap();
    session.run("alter role narrow connection limit 8").unwrap();
    for client in &mut waiting {
        let reply = client.read();
        assert_eq!((reply.status, &*reply.body), (200, r#"{"a":1}"#));
    }
    session.run("select pg_advisory_unlock(1)").unwrap();
    assert_eq!(held.read().status, 200);
}

#[test]
fn a_statement_whose_new_connection_gets_no_answer_takes_one_that_becomes_free() {
    let Some(database) = Database::shared() else { return };
    let session = database.connect();
    session.run("select pg_advisory_lock(2)").unwrap();
    let relay = Relay::to(([127, 0, 0, 1], database.port).into());
    let url = database.by(&relay);
    let config = format!(
        "databases:\n  main: {{ url: '{url}', connections: 4, connect: 60s, wait: 60s, timeout: 60s }}\nendpoints:\n  \
         POST /held: {{ pipeline: [ sql: {{ to: main, query: 'select pg_advisory_xact_lock(2)::text as a' }} ] }}\n  \
         POST /write: {{ pipeline: [ sql: {{ to: main, query: select 1 as a, one: true }} ] }}\n{READ}"
    );
    let scene = Scene::new("databases_full", &config);
    scene.until("the check of the statements has left", || session.sessions("true") == 0);
    let mut clients = [(); 3].map(|()| scene.client());
    let [held, write, read] = &mut clients;
    held.write("POST /held HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
    scene.until("it is held", || session.sessions("wait_event_type = 'Lock'") == 1);
    relay.set(Way::Full);
    write.write("POST /write HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
    read.write("GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
    scene.until("both wait", || scene.metric("db_client_connection_pending_requests{") == 2);
    session.run("select pg_advisory_unlock(2)").unwrap();
    for client in &mut clients {
        let reply = client.read();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

#[test]
fn a_gateway_starts_without_its_database() {
    let Some(mut database) = Database::start() else { return };
    database.stop();
    let scene = gateway("late", &database, "", READ);
    assert_eq!(scene.client().get("/a").status, 503);
    database.restart();
    scene.until("it serves", || scene.client().get("/a").status == 200);
}

#[test]
fn a_database_that_does_not_answer_is_given_up_in_time() {
    let Some(database) = Database::start() else { return };
    let scene = gateway("silent", &database, ", timeout: 300ms, connect: 300ms", READ);
    scene.until("it serves", || scene.client().get("/a").status == 200);
    database.signal("STOP");
    for _ in 0..3 {
        let begun = Instant::now();
        let status = scene.client().get("/a").status;
        assert!(matches!(status, 503 | 504), "{status}");
        assert!(begun.elapsed() < PATIENCE);
    }
    database.signal("CONT");
    let begun = Instant::now();
    scene.until("it serves again", || scene.client().get("/a").status == 200);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn a_restart_is_not_seen_by_who_reads() {
    let Some(mut database) = Database::start() else { return };
    let scene = gateway("restart", &database, "", READ);
    let mut client = scene.client();
    assert_eq!(client.get("/a").status, 200);
    database.stop();
    database.restart();
    // The connections of before are gone; whoever finds that out asks again.
    assert_eq!(client.get("/a").status, 200);
}

#[test]
fn a_write_that_took_too_long_may_have_been_done() {
    let Some(database) = Database::shared() else { return };
    let session = database.connect();
    session.run("create table written (n int)").unwrap();
    let endpoints = "  POST /a:
    pipeline:
      - sql: { to: main, query: 'insert into written values (1)', timeout: 1s }
  GET /a:
    pipeline:
      - sql: { to: main, query: 'select n from written', timeout: 1s }
";
    let scene = gateway("late_write", &database, "", endpoints);
    session.run("begin; lock table written").unwrap();
    let (write, read) = (scene.client().ask("POST", "/a", &[], ""), scene.client().get("/a"));
    assert_eq!((write.status, read.status), (504, 504));
    assert!(write.body.contains("whether the statement was done is not known"), "{}", write.body);
    assert!(!read.body.contains("not known"), "{}", read.body);
}
