//! Short reads share a connection: what one of them does is nothing to the others.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::gateway;
use crate::scene::Scene;

/// How long the slow one takes.
const SLOW: Duration = Duration::from_secs(8);

/// Much less than this is the rule; a busy machine adds to it.
const SOON: Duration = Duration::from_secs(4);

/// Reads beside the slow one.
const READS: usize = 24;

/// Short, but for one value.
fn endpoints(timeout: &str) -> String {
    format!(
        "  GET /a/{{n}}:
    pipeline:
      - sql:
          to: main
          query: 'select case $1::int when 8 then pg_sleep(8)::text else $1::text end as a'
          values: [$path.n | tonumber]
          one: true
          timeout: {timeout}
"
    )
}

/// Reads, all at once: their status, and how long each took.
fn reads(scene: &Scene, paths: &[&'static str]) -> Vec<(u16, Duration)> {
    let start = Barrier::new(paths.len());
    thread::scope(|threads| {
        let ask = |path: &'static str| {
            let start = &start;
            threads.spawn(move || {
                let mut client = scene.client();
                start.wait();
                let begun = Instant::now();
                (client.get(path).status, begun.elapsed())
            })
        };
        let asked: Vec<_> = paths.iter().map(|path| ask(path)).collect();
        asked.into_iter().map(|read| read.join().unwrap()).collect()
    })
}

/// Until the gateway knows that the statement is short.
fn warm(scene: &Scene) {
    for _ in 0..5 {
        assert!(reads(scene, &["/a/1"; READS]).iter().all(|(status, _)| *status == 200));
    }
}

#[test]
fn a_slow_read_does_not_hold_those_behind_it() {
    let Some(database) = Database::start() else { return };
    let scene = gateway("slow_neighbour", &database, ", connections: 4", &endpoints("30s"));
    warm(&scene);
    thread::scope(|threads| {
        let slow = threads.spawn(|| reads(&scene, &["/a/8"]));
        scene.until("it runs", || running(&database) == 1);
        for _ in 0..5 {
            for (status, took) in reads(&scene, &["/a/1"; READS]) {
                assert_eq!(status, 200);
                assert!(took < SOON, "{took:?}");
            }
        }
        let (status, took) = slow.join().unwrap()[0];
        assert!(status == 200 && took >= SLOW, "{status} after {took:?}");
    });
}

#[test]
fn a_read_that_runs_out_of_time_is_stopped_and_its_neighbours_are_not() {
    let Some(database) = Database::start() else { return };
    let scene = gateway("late_neighbour", &database, ", connections: 4", &endpoints("2s"));
    warm(&scene);
    for _ in 0..3 {
        let mut paths = vec!["/a/1"; READS];
        paths[0] = "/a/8";
        let answers = reads(&scene, &paths);
        assert_eq!(answers[0].0, 504);
        assert!(answers[1..].iter().all(|(status, _)| *status == 200), "{answers:?}");
        scene.until("the server has stopped it", || running(&database) == 0);
    }
    let late =
        |line: &str| line.starts_with("db_client_operation_duration_seconds_count") && line.contains("\"timeout\"");
    assert!(scene.metrics().lines().any(late), "{}", scene.metrics());
}

#[test]
fn what_cannot_share_is_not_kept_waiting_by_what_can() {
    let Some(database) = Database::start() else { return };
    database.connect().run("create table a (n int)").unwrap();
    let write = "  POST /b:
    pipeline:
      - sql: { to: main, query: 'insert into a values (1)' }
";
    let scene = gateway("fair", &database, ", connections: 2", &(endpoints("30s") + write));
    warm(&scene);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|threads| {
        for _ in 0..READS {
            threads.spawn(|| {
                let mut client = scene.client();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(client.get("/a/1").status, 200);
                }
            });
        }
        let mut client = scene.client();
        let answers: Vec<u16> = (0..50).map(|_| client.ask("POST", "/b", &[], "").status).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(answers, vec![200; 50]);
    });
    assert_eq!(database.connect().one("select count(*) from a").as_deref(), Some("50"));
}

/// How many sleep in the server.
fn running(database: &Database) -> usize {
    let sql = "select count(*) from pg_stat_activity where state = 'active' and wait_event = 'PgSleep'";
    database.connect().one(sql).unwrap().parse().unwrap()
}
