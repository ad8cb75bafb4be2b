//! A connection pooler in front of the database, which gives a connection to another client after each transaction: every
//! row is the endpoint's own, and every write is done once.

use std::time::{Duration, Instant};

use crate::databases::database::Database;
use crate::stage::bouncer::Bouncer;
use crate::stage::scene::Scene;

/// So many endpoints, each with a table, a type and statements of its own.
const ENDPOINTS: usize = 20;

fn tables(database: &Database) {
    let session = database.connect();
    session.run("create type mood as enum ('well', 'ill'); create domain name as text").unwrap();
    session.run("create table written (endpoint int not null, n bigint not null)").unwrap();
    for at in 0..ENDPOINTS {
        let create = format!(
            "create table t{at} (id int primary key, own text, mood mood, name name);
             insert into t{at} select n, 'row ' || n || ' of {at}', 'well', 'n' from generate_series(1, 100) as n"
        );
        session.run(&create).unwrap();
    }
}

fn endpoints() -> String {
    let one = |at: usize| {
        format!(
            "  GET /{at}/{{id}}:
    pipeline:
      - sql: {{ to: main, query: 'select id, own, mood, name from t{at} where id = $1', values: ['$path.id | tonumber'], one: true }}
  GET /list/{at}/{{id}}:
    pipeline:
      - sql: {{ to: main, query: 'select own from t{at} where id <= $1 order by id', values: ['$path.id | tonumber'], read_only: true }}
  POST /{at}/{{n}}:
    pipeline:
      - sql: {{ to: main, query: 'insert into written values ({at}, $1) returning endpoint, n', values: ['$path.n | tonumber'], one: true }}
"
        )
    };
    format!("endpoints:\n{}", (0..ENDPOINTS).map(one).collect::<String>())
}

/// Asks all endpoints of all gateways at once, for a time, and compares each row. How many were asked, and the writes.
fn ask_all(scenes: &[Scene], time: Duration) -> (usize, Vec<(usize, u64)>) {
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|client: usize| {
                scope.spawn(move || {
                    let mut connection = scenes[client % scenes.len()].client();
                    let (mut asked, mut written) = (0, Vec::new());
                    while Instant::now() < until {
                        let (at, id) = ((asked * 7 + client) % ENDPOINTS, asked % 100 + 1);
                        let (path, wanted) = match asked % 3 {
                            0 => {
                                let row = format!(r#"{{"id":{id},"own":"row {id} of {at}","mood":"well","name":"n"}}"#);
                                (format!("/{at}/{id}"), row)
                            }
                            1 => {
                                let rows: Vec<_> =
                                    (1..=3).map(|id| format!(r#"{{"own":"row {id} of {at}"}}"#)).collect();
                                (format!("/list/{at}/3"), format!("[{}]", rows.join(",")))
                            }
                            _ => {
                                let n = (client * 1_000_000 + asked) as u64;
                                let reply = connection.ask("POST", &format!("/{at}/{n}"), &[], "");
                                assert_eq!(
                                    (reply.status, reply.body),
                                    (200, format!(r#"{{"endpoint":{at},"n":{n}}}"#))
                                );
                                written.push((at, n));
                                asked += 1;
                                continue;
                            }
                        };
                        let reply = connection.get(&path);
                        assert_eq!((reply.status, reply.body.as_str()), (200, wanted.as_str()), "{path}");
                        asked += 1;
                    }
                    (asked, written)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).fold(
            (0, Vec::new()),
            |(asked, mut all), (more, written)| {
                all.extend(written);
                (asked + more, all)
            },
        )
    })
}

/// How long the gateways are asked: a moment, or as many seconds as `POOLER_SECONDS` says.
fn time() -> Duration {
    let seconds = std::env::var("POOLER_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(Duration::from_secs(1), Duration::from_secs)
}

fn every_row_is_its_own(mode: &str, settings: &str) {
    let Some(database) = Database::shared() else { return };
    let Some(bouncer) = Bouncer::start(&database, mode) else { return };
    tables(&database);
    let config = format!("databases:\n  main: {{ url: '{}'{settings} }}\n{}", bouncer.url(), endpoints());
    let scenes: Vec<Scene> =
        (0..3).map(|at| Scene::new(&format!("databases_pooler_{mode}_{}_{at}", settings.len()), &config)).collect();
    let (asked, mut written) = ask_all(&scenes, time());
    println!("{mode}{settings}: {asked} requests, {} writes", written.len());
    let session = database.connect();
    written.sort_unstable();
    let count = session.one("select count(*) from written").unwrap();
    assert_eq!(count, written.len().to_string(), "none is lost, none is done twice");
    let sum: u64 = written.iter().map(|(at, n)| *at as u64 * 7 + n).sum();
    assert_eq!(session.one("select sum(endpoint * 7 + n) from written").unwrap(), sum.to_string());
}

#[test]
fn every_row_is_the_endpoints_own_behind_a_pooler_in_transaction_mode() {
    every_row_is_its_own("transaction", "");
}

#[test]
fn every_row_is_the_endpoints_own_behind_a_pooler_in_session_mode() {
    // A session holds its connection: there are as many as there may be sessions.
    every_row_is_its_own("session", ", connections: 2");
    every_row_is_its_own("session", ", connections: 2, statements: named");
}

#[test]
fn statements_with_names_behind_a_pooler_fail_and_say_why() {
    let Some(database) = Database::shared() else { return };
    let Some(bouncer) = Bouncer::start(&database, "transaction") else { return };
    tables(&database);
    let config = format!("databases:\n  main: {{ url: '{}', statements: named }}\n{}", bouncer.url(), endpoints());
    let scenes = [0, 1].map(|at| Scene::new(&format!("databases_pooler_named_{at}"), &config));
    scenes[0].gateway.logged("*behind a connection pooler, and `statements` is `named`*").unwrap();
    // Whatever fails: a row that comes is the endpoint's own.
    for turn in 0..300 {
        let (at, id) = (turn % ENDPOINTS, turn % 100 + 1);
        let reply = scenes[turn % 2].client().get(&format!("/{at}/{id}"));
        if reply.status == 200 {
            assert!(reply.body.contains(&format!("\"row {id} of {at}\"")), "{}", reply.body);
        }
    }
}

#[test]
fn a_pooler_is_named_when_it_is_met() {
    let Some(database) = Database::shared() else { return };
    let Some(bouncer) = Bouncer::start(&database, "transaction") else { return };
    tables(&database);
    let scene =
        Scene::new("databases_pooler_met", &format!("databases:\n  main: '{}'\n{}", bouncer.url(), endpoints()));
    scene.gateway.logged("*a connection pooler is in front of the database; statements are sent unnamed*").unwrap();
    // A server without one is none.
    let scene = Scene::new("databases_direct", &format!("databases:\n  main: '{}'\n{}", database.url(), endpoints()));
    assert_eq!(scene.client().get("/1/1").status, 200);
    assert_eq!(scene.count("pooler"), 0);
}

#[test]
fn a_column_that_changes_its_type_gives_no_wrong_value() {
    let Some(database) = Database::shared() else { return };
    for statements in ["named", "unnamed"] {
        let session = database.connect();
        session.run("drop table if exists changing; create table changing (v int not null); insert into changing values (1)").unwrap();
        let endpoint = "endpoints:\n  GET /v:\n    pipeline:\n      - sql: { to: main, query: 'select v from changing', one: true }\n";
        let config =
            format!("databases:\n  main: {{ url: '{}', statements: {statements} }}\n{endpoint}", database.url());
        let scene = Scene::new(&format!("databases_pooler_changing_{statements}"), &config);
        assert_eq!(scene.client().get("/v").body, r#"{"v":1}"#);
        // As long as before, and another value where it is read as before.
        session.run("alter table changing alter v type real").unwrap();
        let reply = scene.client().get("/v");
        assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"v":1}"#), "{statements}");
        session.run("update changing set v = 1.5").unwrap();
        assert_eq!(scene.client().get("/v").body, r#"{"v":1.5}"#);
    }
}
