//! Short reads share a connection: what one of them does is nothing to the others.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::databases::database::{Database, Session};
use crate::databases::gateway;
use crate::stage::scene::Scene;

/// Reads beside the slow one.
const READS: usize = 24;

/// Short, but for one value, which takes until [`held`] is let go.
fn endpoints(timeout: &str) -> String {
    format!(
        "  GET /a/{{n}}:
    pipeline:
      - sql:
          to: main
          query: 'select case $1::int when 8 then pg_advisory_xact_lock_shared(8)::text else $1::text end as a'
          values: [$path.n | tonumber]
          one: true
          timeout: {timeout}
"
    )
}

/// The session that the slow read waits for.
fn held(database: &Database) -> Session {
    let session = database.connect();
    session.run("select pg_advisory_lock(8)").unwrap();
    session
}

/// Reads, all at once: their status.
fn reads(scene: &Scene, paths: &[&'static str]) -> Vec<u16> {
    let start = Barrier::new(paths.len());
    thread::scope(|threads| {
        let ask = |path: &'static str| {
            let start = &start;
            threads.spawn(move || {
                let mut client = scene.client();
                start.wait();
                client.get(path).status
            })
        };
        let asked: Vec<_> = paths.iter().map(|path| ask(path)).collect();
        asked.into_iter().map(|read| read.join().unwrap()).collect()
    })
}

/// Until the gateway knows that the statement is short.
fn warm(scene: &Scene) {
    for _ in 0..5 {
        assert_eq!(reads(scene, &["/a/1"; READS]), [200; READS]);
    }
}

/// How many statements were counted: done, and with this error.
fn counted(scene: &Scene, error: &str) -> u64 {
    let name = "db_client_operation_duration_seconds_count{db_system_name=\"postgresql\",database=\"main\"";
    scene.metric(&format!("{name},error_type=\"{error}\"}}"))
}

#[test]
fn a_slow_read_does_not_hold_those_behind_it() {
    let Some(database) = Database::shared() else { return };
    let scene = gateway("slow_neighbour", &database, ", connections: 4", &endpoints("30s"));
    warm(&scene);
    let before = counted(&scene, "");
    thread::scope(|threads| {
        let lock = held(&database);
        let slow = threads.spawn(|| reads(&scene, &["/a/8"]));
        scene.until("it runs", || running(&database) == 1);
        // It does not end before they do.
        for _ in 0..5 {
            assert_eq!(reads(&scene, &["/a/1"; READS]), [200; READS]);
        }
        assert_eq!(running(&database), 1);
        drop(lock);
        assert_eq!(slow.join().unwrap(), [200]);
    });
    // A read that was run elsewhere is one that is done, and none that failed.
    assert_eq!(counted(&scene, "") - before, 5 * READS as u64 + 1);
    assert_eq!(scene.metric("db_client_operation_duration_seconds_count"), counted(&scene, ""), "{}", scene.metrics());
}

#[test]
fn a_read_that_runs_out_of_time_is_stopped_and_its_neighbours_are_not() {
    let Some(database) = Database::shared() else { return };
    let scene = gateway("late_neighbour", &database, ", connections: 4", &endpoints("2s"));
    warm(&scene);
    let _lock = held(&database);
    for _ in 0..3 {
        let mut paths = vec!["/a/1"; READS];
        paths[0] = "/a/8";
        let answers = reads(&scene, &paths);
        assert_eq!(answers[0], 504);
        assert_eq!(answers[1..], [200; READS - 1]);
        scene.until("the server has stopped it", || running(&database) == 0);
    }
    assert_eq!(counted(&scene, "timeout"), 3, "{}", scene.metrics());
}

/// Reads that come one after the other, never all at once: a connection that they share is never free by itself.
const STREAM: &str = "  GET /c:
    pipeline:
      - sql: { to: main, query: 'select pg_sleep(0.003)::text as c', one: true }
  POST /b:
    pipeline:
      - sql: { to: main, query: 'insert into a values (1)' }
";

#[test]
fn what_cannot_share_is_not_kept_waiting_by_what_can() {
    let Some(database) = Database::shared() else { return };
    database.connect().run("create table a (n int)").unwrap();
    let scene = gateway("fair", &database, ", connections: 2, wait: 20s", STREAM);
    for _ in 0..5 {
        assert_eq!(scene.client().get("/c").status, 200);
    }
    let (done, read) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|threads| {
        for _ in 0..READS {
            threads.spawn(|| {
                let mut client = scene.client();
                while !done.load(Relaxed) {
                    assert_eq!(client.get("/c").status, 200);
                    read.fetch_add(1, Relaxed);
                }
            });
        }
        scene.until("they share", || read.load(Relaxed) > 4 * READS);
        let mut client = scene.client();
        let failed = (0..20).map(|_| client.ask("POST", "/b", &[], "").status).find(|status| *status != 200);
        done.store(true, Relaxed);
        assert_eq!(failed, None);
    });
    assert_eq!(database.connect().one("select count(*) from a").as_deref(), Some("20"));
}

/// How many wait in the server.
fn running(database: &Database) -> usize {
    database.connect().sessions("state = 'active' and wait_event = 'advisory'")
}
