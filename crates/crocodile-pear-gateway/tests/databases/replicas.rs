//! Statements with `read_only`: on the replicas, in turn, and nothing can be changed. Two databases stand for a primary and its replica,
//! on two servers where one of them fails. The rows of their tables say where a statement ran.

use std::collections::BTreeMap;
use std::process::Command;

use crate::databases::database::Database;
use crate::stage::scene::{Client, Scene};

const ENDPOINTS: &str = "endpoints:
  GET /read:
    pipeline:
      - sql: { to: main, query: select name from here, one: true, read_only: true }
  GET /list:
    pipeline:
      - sql: { to: main, query: select name from here, read_only: true }
  GET /any:
    pipeline:
      - sql: { to: main, query: select name from here, one: true }
  POST /write:
    pipeline:
      - sql: { to: main, query: 'with a as (insert into here values ($1) returning name) select * from a', values: [$body], read_only: true }
  POST /call:
    pipeline:
      - sql: { to: main, query: 'select note($1)', values: [$body], one: true, read_only: true }
  POST /both:
    pipeline:
      - sql: { to: main, read_only: true, transaction: [{ query: select count(*) from here }, { query: 'select note($1)', values: [$body] }] }
  GET /both:
    pipeline:
      - sql: { to: main, read_only: true, transaction: [{ query: select count(*) from here }, { query: \"select name, current_setting('transaction_read_only') as only from here\", one: true }] }
";

/// A server whose table says which it is.
fn server(name: &str) -> Option<Database> {
    Some(named(name, Database::start()?))
}

/// The same in the shared server, for a test that does not stop it.
fn database(name: &str) -> Option<Database> {
    Some(named(name, Database::shared()?))
}

fn named(name: &str, database: Database) -> Database {
    let session = database.connect();
    session.run("create table here (name text)").unwrap();
    session.run(&format!("insert into here values ('{name}')")).unwrap();
    let note =
        "create function note(name text) returns text language sql as 'insert into here values (name) returning name'";
    session.run(note).unwrap();
    database
}

fn scene(name: &str, primary: &Database, replicas: &[&Database]) -> Scene {
    let urls: Vec<String> = replicas.iter().map(|replica| format!("'{}'", replica.url())).collect();
    let replicas = urls.join(", ");
    let databases = format!("databases: {{ main: {{ url: '{}', replicas: [{replicas}] }} }}\n", primary.url());
    Scene::new(&format!("databases_{name}"), &(databases + ENDPOINTS))
}

/// Where so many reads ran; none may fail.
fn counted(client: &mut Client, reads: usize) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for _ in 0..reads {
        let reply = client.get("/read");
        assert_eq!(reply.status, 200, "{}", reply.body);
        *counted.entry(reply.body).or_insert(0) += 1;
    }
    counted
}

fn rows(database: &Database) -> Option<String> {
    database.connect().one("select count(*) from here")
}

fn row(name: &str) -> String {
    format!(r#"{{"name":"{name}"}}"#)
}

#[test]
fn reads_run_on_the_replicas_in_turn_and_all_else_on_the_primary() {
    let (Some(primary), Some(a), Some(b)) = (database("primary"), database("a"), database("b")) else { return };
    let scene = scene("replicas", &primary, &[&a, &b]);
    let mut client = scene.client();
    assert_eq!(counted(&mut client, 20), BTreeMap::from([(row("a"), 10), (row("b"), 10)]));
    assert_eq!(client.get("/any").body, row("primary"));
    assert!(!client.get("/list").body.contains("primary"));
    let both = client.get("/both").body;
    assert!(both.contains(r#""only":"on""#) && !both.contains("primary"), "{both}");
}

#[test]
fn what_changes_something_is_refused_and_not_done() {
    let (Some(primary), Some(replica)) = (database("primary"), database("replica")) else { return };
    // Without a replica it is the primary that refuses.
    for (name, replicas) in [("replica_refuses", &[&replica][..]), ("primary_refuses", &[])] {
        let scene = scene(name, &primary, replicas);
        for path in ["/write", "/call", "/both"] {
            let reply = scene.client().ask("POST", path, &[], "\"x\"");
            assert_eq!(reply.status, 500, "{path}: {}", reply.body);
            assert!(reply.body.contains("may only read") && !reply.body.contains("here"), "{}", reply.body);
        }
        scene.until("the operator learns why", || scene.count("read-only transaction") > 0);
        // The connections are as good as before.
        assert_eq!(scene.client().get("/any").body, row("primary"));
        assert_eq!(scene.client().get("/read").status, 200);
    }
    assert_eq!((rows(&primary).as_deref(), rows(&replica).as_deref()), (Some("1"), Some("1")));
}

#[test]
fn a_replica_that_is_killed_fails_no_read() {
    let (Some(primary), Some(mut a), Some(mut b)) = (database("primary"), server("a"), server("b")) else { return };
    let scene = scene("replica_killed", &primary, &[&a, &b]);
    let mut client = scene.client();
    counted(&mut client, 10);
    a.kill();
    let after = counted(&mut client, 50);
    assert_eq!(after, BTreeMap::from([(row("b"), 50)]));
    b.kill();
    assert_eq!(counted(&mut client, 50), BTreeMap::from([(row("primary"), 50)]));
    let down = scene
        .metrics()
        .lines()
        .filter(|line| line.starts_with("crocodile_pear_database_up") && line.ends_with(" 0"))
        .count();
    assert_eq!(down, 2, "{}", scene.metrics());
    a.restart();
    scene.until("it is found again", || scene.client().get("/read").body == row("a"));
}

#[test]
fn reads_do_not_need_the_primary() {
    let (Some(mut primary), Some(replica)) = (server("primary"), database("replica")) else { return };
    primary.stop();
    let scene = scene("primary_away", &primary, &[&replica]);
    let mut client = scene.client();
    assert_eq!(counted(&mut client, 10), BTreeMap::from([(row("replica"), 10)]));
    assert_eq!(client.get("/any").status, 503);
}

#[test]
fn a_statement_is_checked_where_it_runs() {
    let (Some(primary), Some(replica)) = (database("primary"), database("replica")) else { return };
    replica.connect().run("alter table here rename column name to other").unwrap();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("databases_checked_replica.yaml");
    let config = format!(
        "listen: 127.0.0.1:0
databases: {{ main: {{ url: '{}', replicas: ['{}'] }} }}
endpoints:
  GET /a:
    pipeline:
      - sql: {{ to: main, query: select name from here, read_only: true }}
  GET /b:
    pipeline:
      - sql: {{ to: main, query: select name from here }}
  POST /c:
    pipeline:
      - sql: {{ to: main, query: delete from here, read_only: true }}
",
        primary.url(),
        replica.url()
    );
    let check = |config: &str| {
        std::fs::write(&file, config).unwrap();
        let check = Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).arg("check").arg(&file).output().unwrap();
        String::from_utf8(check.stdout).unwrap()
    };
    let said = check(&config);
    assert!(said.contains("`read_only` allows nothing to be changed") && said.contains(":12:"), "{said}");
    let said = check(&config.replace("query: delete from here, read_only: true", "query: delete from here"));
    assert!(said.contains("a replica of the database cannot run this: column \"name\" does not exist"), "{said}");
    assert_eq!(said.matches("does not exist").count(), 1, "{said}");
}

#[test]
fn a_replica_that_hangs_costs_no_read() {
    let (Some(primary), Some(a), Some(b)) = (database("primary"), server("a"), server("b")) else { return };
    let urls = format!("'{}', '{}'", a.url(), b.url());
    // Without the others, a read would wait for longer than any test does.
    let patient = "connect: 1h, wait: 1h, timeout: 1h, connections: 2, breaker: off";
    let databases = format!("databases: {{ main: {{ url: '{}', replicas: [{urls}], {patient} }} }}\n", primary.url());
    let scene = Scene::new("databases_replica_hangs", &(databases + ENDPOINTS));
    let mut client = scene.client();
    counted(&mut client, 10);
    a.signal("STOP");
    let after = counted(&mut client, 20);
    assert!(!after.contains_key(&row("a")), "{after:?}");
    scene.until("the log says so", || scene.count("the database server does not answer") > 0);
    b.signal("STOP");
    assert_eq!(counted(&mut client, 20).keys().collect::<Vec<_>>().last(), Some(&&row("primary")));
    // A list is begun elsewhere, too.
    assert_eq!(client.get("/list").body, format!("[{}]", row("primary")));
    a.signal("CONT");
    b.signal("CONT");
    scene.until("it is found again", || scene.client().get("/read").body == row("a"));
}

#[test]
fn a_slow_read_stays_where_it_is() {
    let (Some(primary), Some(replica)) = (database("primary"), database("replica")) else { return };
    let read = "endpoints:
  GET /slow:
    pipeline:
      - sql: { to: main, query: 'select name, pg_sleep(1.5)::text as slept from here', one: true, read_only: true }
";
    let databases = format!("databases: {{ main: {{ url: '{}', replicas: ['{}'] }} }}\n", primary.url(), replica.url());
    let scene = Scene::new("databases_slow_read", &(databases + read));
    let body = scene.client().get("/slow").body;
    assert!(body.contains("replica"), "{body}");
    assert_eq!(scene.count("does not answer"), 0);
}
