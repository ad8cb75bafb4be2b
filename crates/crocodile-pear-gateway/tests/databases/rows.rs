//! Lists: row by row, as the client takes them.

use std::io::Read;
use std::net::TcpStream;
use std::time::Instant;

use crate::databases::database::{Database, OF_GATEWAYS};
use crate::databases::gateway;

const LISTS: &str = "  GET /some/{n}:
    pipeline:
      - sql: { to: main, query: 'select n, ''row '' || n as name from generate_series(1, $1) n', values: ['$path.n | tonumber'] }
  GET /each/{n}:
    pipeline:
      - sql: { to: main, query: 'select n from generate_series(1, $1) n', values: ['$path.n | tonumber'] }
      - each: '.[]'
      - sql: { to: main, query: 'select $1::int * 2 as twice', values: [.n], one: true }
      - concatenate: { as: json, body_only: true, order: request }
  GET /when/{n}:
    pipeline:
      - sql: { to: main, query: select 1 as a, when: '$path.n == \"1\"', otherwise: [] }
  GET /slow:
    pipeline:
      - sql: { to: main, query: select pg_sleep(60)::text as a, timeout: 200ms }
";

#[test]
fn a_list_is_json_whatever_its_length() {
    let Some(database) = Database::shared() else { return };
    let scene = gateway("lists", &database, "", LISTS);
    let mut client = scene.client();
    for n in [0, 1, 2, 1_000, 20_000] {
        let reply = client.get(&format!("/some/{n}"));
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")), "{}", reply.body);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(rows.len(), n);
        assert!(
            rows.iter().enumerate().all(|(at, row)| row["n"] == at + 1 && row["name"] == format!("row {}", at + 1))
        );
    }
    assert_eq!(client.get("/each/3").body, r#"[{"twice":2},{"twice":4},{"twice":6}]"#);
    assert_eq!([client.get("/when/1").body, client.get("/when/2").body], [r#"[{"a":1}]"#, "[]"]);
}

#[test]
fn a_client_that_leaves_ends_its_statement() {
    let Some(database) = Database::shared() else { return };
    let scene = gateway("leaves", &database, ", connections: 2", LISTS);
    let session = database.connect();
    let active = || session.sessions("state = 'active' and query like '%generate_series%'");
    let mut stream = TcpStream::connect(scene.gateway.address).unwrap();
    // Much more than all buffers hold; the server makes all rows before it sends the first one.
    std::io::Write::write_all(&mut stream, b"GET /some/3000000 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut piece = [0; 4096];
    stream.read_exact(&mut piece).unwrap();
    assert_eq!(active(), 1);
    drop(stream);
    scene.until("it is stopped", || active() == 0);
    // Its connection serves on.
    for _ in 0..4 {
        assert_eq!(scene.client().get("/some/1").status, 200);
    }
    // For a moment, the server still counts sessions that have ended.
    scene.until("no more than two are open", || session.sessions(OF_GATEWAYS) <= 2);
}

#[test]
fn a_statement_that_takes_too_long_is_stopped() {
    let Some(database) = Database::shared() else { return };
    let scene = gateway("timeout", &database, "", LISTS);
    let begun = Instant::now();
    let reply = scene.client().get("/slow");
    assert_eq!(reply.status, 504, "{}", reply.body);
    assert!(begun.elapsed().as_secs() < 5);
    let session = database.connect();
    let asleep = "state = 'active' and query like '%pg_sleep%'";
    scene.until("it is stopped", || session.sessions(asleep) == 0);
}

#[test]
fn one_connection_serves_all_threads() {
    let Some(database) = Database::shared() else { return };
    let scene = gateway("share", &database, ", connections: 1", LISTS);
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let mut client = scene.client();
            std::thread::spawn(move || (0..50).filter(|_| client.get("/some/2").status == 200).count())
        })
        .collect();
    let good: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(good, 16 * 50);
    let session = database.connect();
    scene.until("one connection is open", || session.sessions(OF_GATEWAYS) == 1);
}
