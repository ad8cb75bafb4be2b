//! A database with several servers: the one that accepts changes is used, also after another server has taken over.

use crate::databases::database::Database;
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

#[test]
fn a_host_that_is_silent_is_no_outage() {
    let Some(database) = Database::start() else { return };
    // It accepts, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", silent.local_addr().unwrap().port(), database.port);
    let config = format!(
        "databases: {{ main: {{ url: 'postgres://postgres@{hosts}/postgres', connect: 60s, connections: 2 }} }}\n\
         endpoints:\n  GET /a:\n    pipeline:\n      - sql: {{ to: main, query: select 1 as n, one: true }}\n"
    );
    let scene = Scene::new("databases_hosts_silent", &config);
    assert_eq!(scene.client().get("/a").body, r#"{"n":1}"#);
    // What has answered is tried first: a new connection does not come to the silent one.
    let accepted = || std::iter::from_fn(|| silent.accept().ok()).count();
    silent.set_nonblocking(true).unwrap();
    let before = accepted();
    assert!(before > 0);
    let session = database.connect();
    let ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'crocodile-pear'";
    session.run(ended).unwrap();
    scene.until("it serves again", || scene.client().get("/a").status == 200);
    assert_eq!(accepted(), 0);
}

#[test]
fn a_standby_is_found_by_its_role() {
    let Some(primary) = Database::shared() else { return };
    for (role, status) in [("primary", 200), ("standby", 503), ("prefer-standby", 200), ("read-only", 503)] {
        let url = format!("{}?target_session_attrs={role}", primary.url());
        let config = format!("databases: {{ main: '{url}' }}\n{ENDPOINTS}");
        primary.connect().run("create table if not exists a (n int)").unwrap();
        let scene = Scene::new(&format!("databases_hosts_{role}"), &config);
        assert_eq!(scene.client().get("/a").status, status, "{role}");
    }
}
