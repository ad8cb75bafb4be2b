//! Connections of databases, and what they know of statements.

use crate::reload::Kept;
use crate::stage::database::{Database, OF_GATEWAYS};
use crate::stage::found;

fn config(url: &str) -> String {
    format!(
        "databases:\n  main: {{ url: '{url}', connections: 1, timeout: 20s }}\nendpoints:\n  \
         GET /pid:\n    pipeline: [sql: {{ to: main, query: select pg_backend_pid() as pid, one: true }}]\n  \
         GET /name/{{name}}:\n    pipeline: [sql: {{ to: main, query: 'select $1::text as name', values: [$path.name], one: true }}]\n"
    )
}

#[test]
fn connections_stay_open_and_know_their_statements() {
    let Some(database) = Database::start() else { return };
    let mut kept = Kept::new("database", &config(&database.url()));
    let pid = kept.client.get("/pid").body;
    assert_eq!(kept.client.get("/name/a").body, r#"{"name":"a"}"#);
    kept.reload();
    assert_eq!(kept.client.get("/pid").body, pid);
    // The time of a statement is not about connections.
    kept.change("timeout: 20s", "timeout: 30s");
    assert_eq!(kept.client.get("/pid").body, pid);
    // A statement in the place of another one, and one more.
    kept.change("select $1::text as name", "select upper($1) as name");
    assert_eq!(kept.client.get("/name/a").body, r#"{"name":"A"}"#);
    kept.change(
        "  GET /pid:",
        "  GET /more:\n    pipeline: [sql: { to: main, query: select 7 as n, one: true }]\n  GET /pid:",
    );
    assert_eq!(kept.client.get("/more").body, r#"{"n":7}"#);
    assert_eq!(kept.client.get("/name/b").body, r#"{"name":"B"}"#);
    assert_eq!(kept.client.get("/pid").body, pid);
    let session = database.connect();
    kept.scene.until("one connection is open", || session.sessions(OF_GATEWAYS) == 1);
}

#[test]
fn what_has_changed_has_no_second_pool_beside_it() {
    let Some(database) = Database::start() else { return };
    let mut kept = Kept::new("database_changed", &config(&database.url()));
    let pid = kept.client.get("/pid").body;
    kept.change("connections: 1", "connections: 2");
    assert_ne!(kept.client.get("/pid").body, pid);
    let session = database.connect();
    kept.scene.until("the connection of before is closed", || session.sessions(OF_GATEWAYS) == 1);
}

#[test]
fn a_reload_needs_no_connection_where_there_is_none_left() {
    let Some(database) = Database::with(&["max_connections=5", "superuser_reserved_connections=3"]) else { return };
    // As another user: the last three are for the superuser.
    database.connect().run("create role shop login; grant connect on database postgres to shop").unwrap();
    let url = database.url().replace("postgres://postgres@", "postgres://shop@");
    let mut kept = Kept::new("database_full", &config(&url));
    let pid = kept.client.get("/pid").body;
    assert!(pid.starts_with("{\"pid\":"), "{pid}");
    // The other one that there is.
    let mut own: tokio_postgres::Config = url.parse().unwrap();
    own.application_name("taken");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // For a moment, the server still counts sessions that have ended.
    let connect = || runtime.block_on(own.connect(tokio_postgres::NoTls)).ok();
    let (_taken, connection) = found(connect, || "there is no place".to_owned());
    runtime.spawn(connection);
    for _ in 0..3 {
        kept.reload();
        assert_eq!(kept.client.get("/pid").body, pid);
    }
    assert_eq!(kept.scene.count("cannot be reached"), 0);
}
