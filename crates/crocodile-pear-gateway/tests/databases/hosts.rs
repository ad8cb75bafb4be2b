//! A database with several servers: the one that accepts changes is used, also after another server has taken over.

use crate::database::Database;
use crate::stage::scene::Scene;
use crate::stage::until;

const ENDPOINTS: &str = "endpoints:
  POST /a:
    pipeline:
      - sql: { to: main, query: 'insert into a values (1)' }
  GET /a:
    pipeline:
      - sql: { to: main, query: 'select count(*) as n from a', one: true }
";

#[test]
fn the_server_that_takes_changes_is_used() {
    let Some(replica) = Database::start() else { return };
    let Some(mut primary) = Database::start() else { return };
    for server in [&replica, &primary] {
        server.connect().run("create table a (n int)").unwrap();
    }
    replica.connect().run("alter system set default_transaction_read_only = on").unwrap();
    replica.connect().run("select pg_reload_conf()").unwrap();
    becomes_read_only(&replica);
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", replica.port, primary.port);
    let url = format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write");
    let scene = Scene::new("databases_hosts", &format!("databases: {{ main: '{url}' }}\n{ENDPOINTS}"));
    let write = || scene.client().ask("POST", "/a", &[], "").status;
    assert_eq!(write(), 200);
    assert_eq!(primary.connect().one("select count(*) from a").as_deref(), Some("1"));
    assert_eq!(scene.client().get("/a").body, r#"{"n":1}"#);

    // Failed over: the other one takes changes from now on.
    primary.stop();
    assert_eq!(write(), 503);
    let session = replica.connect();
    for sql in ["set default_transaction_read_only = off", "alter system reset all", "select pg_reload_conf()"] {
        session.run(sql).unwrap();
    }
    scene.until("it writes again", || write() == 200);
    assert_eq!(replica.connect().one("select count(*) from a").as_deref(), Some("1"));
}

/// A server takes up its settings in its own time.
fn becomes_read_only(server: &Database) {
    let setting = || server.connect().one("show default_transaction_read_only");
    until("it is read-only", || setting().as_deref() == Some("on"));
}
