//! PostgreSQL is killed, stopped, moved, and has no connection left: what is acknowledged is there, once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crocodile_pear_demo::postgres::{Postgres, free_port};
use rustix::process::{Pid, Signal, kill_process};

use crate::stage::database::launch;
use crate::stage::scene::Scene;
use crate::stage::until;
use crate::stage::{Program, pause};

/// Clients that write.
const CLIENTS: u64 = 8;

/// All that the configuration allows: a wait for a connection and for an answer, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(8);

/// From the moment in which the server is back to the first write. The goal is a second; a busy machine adds to it.
const RECOVERY: Duration = Duration::from_secs(5);

fn writes() -> u64 {
    std::env::var("WRITES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn configuration(hosts: &str) -> String {
    format!(
        "databases:
  it: {{ url: 'postgres://postgres@{hosts}/postgres?target_session_attrs=read-write', connections: 4, wait: 1s, connect: 500ms, timeout: 1s }}
endpoints:
  POST /writes/{{key}}:
    pipeline:
      - sql: {{ to: it, query: 'insert into writes values ($1) returning key', values: ['$path.key | tonumber'], one: true }}
      - respond: {{ status: 201 }}
"
    )
}

/// How often the server is in trouble.
fn rounds() -> usize {
    (writes() as usize / 4_000).clamp(3, 24)
}

/// The outcomes of the writes.
#[derive(Default)]
struct Ledger {
    /// By status.
    answers: Mutex<HashMap<u16, u64>>,
    acknowledged: Mutex<Vec<u64>>,
    next: AtomicU64,
    /// How many were acknowledged.
    done: AtomicU64,
    over: AtomicBool,
    slowest: Mutex<Duration>,
    /// When the last write was acknowledged, in microseconds from the beginning.
    last: AtomicU64,
}

impl Ledger {
    /// Writes until as many are acknowledged as wanted, and until the troubles are over.
    fn write(&self, scene: &Scene, wanted: u64, begun: Instant) {
        let mut client = scene.client();
        while !self.over.load(Ordering::Relaxed) || self.done.load(Ordering::Relaxed) < wanted {
            let key = self.next.fetch_add(1, Ordering::Relaxed);
            let asked = Instant::now();
            let reply = client.ask("POST", &format!("/writes/{key}"), &[("content-length", "0")], "");
            let mut slowest = self.slowest.lock().unwrap();
            *slowest = slowest.max(asked.elapsed());
            drop(slowest);
            *self.answers.lock().unwrap().entry(reply.status).or_default() += 1;
            if reply.status == 201 {
                self.acknowledged.lock().unwrap().push(key);
                self.done.fetch_add(1, Ordering::Relaxed);
                self.last.store(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
            } else {
                // As `retry-after` would have it, only sooner.
                pause(Duration::from_millis(5));
                client = scene.client();
            }
        }
    }

    /// Waits until some more are written.
    fn goes_on(&self) {
        let enough = self.done.load(Ordering::Relaxed) + writes() / 8 / rounds() as u64;
        until("writes go on", || self.done.load(Ordering::Relaxed) >= enough);
    }

    /// Waits for a write that was acknowledged after this moment; how long that took.
    fn recovered(&self, begun: Instant, since: Instant) -> Duration {
        let mark = (since - begun).as_micros() as u64;
        until("a write is acknowledged again", || self.last.load(Ordering::Relaxed) > mark);
        since.elapsed()
    }
}

/// Writes while something happens to the server; then compares what was said with what is there.
fn under(name: &str, hosts: &str, mut postgres: Postgres, trouble: impl FnOnce(&mut Postgres, &Ledger, Instant)) {
    postgres.run("create table writes (key bigint)").unwrap();
    let scene = Arc::new(Scene::new(name, &configuration(hosts)));
    let (ledger, begun, wanted) = (Arc::new(Ledger::default()), Instant::now(), writes());
    let writers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (scene, ledger) = (scene.clone(), ledger.clone());
            thread::spawn(move || ledger.write(&scene, wanted, begun))
        })
        .collect();
    until("writes go on", || ledger.last.load(Ordering::Relaxed) > 0);
    trouble(&mut postgres, &ledger, begun);
    ledger.over.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let (acknowledged, answers) = (ledger.acknowledged.lock().unwrap(), ledger.answers.lock().unwrap());
    let twice =
        postgres.run("select count(*) from (select key from writes group by key having count(*) > 1) t").unwrap();
    let keys: Vec<u64> =
        postgres.run("select key from writes").unwrap().lines().map(|key| key.parse().unwrap()).collect();
    let there: std::collections::HashSet<u64> = keys.into_iter().collect();
    let lost = acknowledged.iter().filter(|key| !there.contains(key)).count();
    let slowest = *ledger.slowest.lock().unwrap();
    println!(
        "{name}: {} acknowledged, {} there, {lost} lost, {twice} twice, answers {answers:?}, the slowest {slowest:?}",
        acknowledged.len(),
        there.len()
    );
    assert_eq!((lost, twice.as_str()), (0, "0"));
    assert!(answers.keys().all(|status| matches!(status, 201 | 503 | 504)), "{answers:?}");
    assert!(slowest < DEADLINE, "{slowest:?}");
}

fn local(postgres: &Postgres) -> String {
    format!("127.0.0.1:{}", postgres.port())
}

fn check(what: &str, took: Duration) {
    println!("{what}: a write {took:?} after it was back");
    assert!(took < RECOVERY, "{what}: {took:?}");
}

#[test]
fn killed_and_started_again() {
    let Some(postgres) = launch(&["fsync=on", "max_connections=30"]) else { return };
    let hosts = local(&postgres);
    under("killed", &hosts, postgres, |postgres, ledger, begun| {
        for _ in 0..rounds() {
            ledger.goes_on();
            postgres.kill();
            let gone = Instant::now();
            // Somebody is refused before it is back.
            let refused = |ledger: &Ledger| ledger.answers.lock().unwrap().get(&503).copied().unwrap_or_default();
            let before = refused(ledger);
            until("writes are refused", || refused(ledger) > before);
            assert!(gone.elapsed() < DEADLINE);
            postgres.restart(postgres.port()).unwrap();
            check("killed", ledger.recovered(begun, Instant::now()));
        }
    });
}

#[test]
fn stopped_and_woken() {
    let Some(postgres) = launch(&["max_connections=30"]) else { return };
    let hosts = local(&postgres);
    under("stopped", &hosts, postgres, |postgres, ledger, begun| {
        for _ in 0..rounds() / 3 {
            ledger.goes_on();
            let processes = family(postgres.id());
            processes.iter().for_each(|id| signal(*id, Signal::STOP));
            // Until no statement that was sent before is waited for any more.
            let failed = |ledger: &Ledger| {
                let answers = ledger.answers.lock().unwrap();
                answers.iter().filter(|(status, _)| **status != 201).map(|(_, count)| count).sum::<u64>()
            };
            let before = failed(ledger);
            until("writers are refused", || failed(ledger) >= before + 2 * CLIENTS);
            processes.iter().for_each(|id| signal(*id, Signal::CONT));
            check("stopped", ledger.recovered(begun, Instant::now()));
        }
    });
}

#[test]
fn moved_to_another_port() {
    let Some(postgres) = launch(&["fsync=on", "max_connections=30"]) else { return };
    let other = free_port().unwrap();
    let hosts = format!("{},127.0.0.1:{other}", local(&postgres));
    under("moved", &hosts, postgres, |postgres, ledger, begun| {
        let ports = [other, postgres.port()];
        for port in ports.into_iter().cycle().take(rounds() / 3) {
            ledger.goes_on();
            postgres.kill();
            postgres.restart(port).unwrap();
            check("moved", ledger.recovered(begun, Instant::now()));
        }
    });
}

#[test]
fn out_of_connections() {
    // Three of them are for those who look after it.
    let Some(postgres) = launch(&["max_connections=12"]) else { return };
    postgres.run("create role guest login; create table writes (key bigint); grant all on writes to guest").unwrap();
    let config = configuration(&local(&postgres)).replace("postgres://postgres@", "postgres://guest@");
    let guests = "select count(*) from pg_stat_activity where usename = 'guest'";
    let mut others = Vec::new();
    // A connection that was closed may take its place for a moment.
    while postgres.run(guests).unwrap() != "9" {
        others.push(other(&postgres));
        assert!(others.len() < 500, "connections are not taken");
    }
    let scene = Scene::new("connections", &config);
    let mut client = scene.client();
    let asked = Instant::now();
    let reply = client.ask("POST", "/writes/1", &[("content-length", "0")], "");
    assert_eq!(reply.status, 503, "{}", reply.body);
    assert!(reply.field("retry-after").is_some());
    assert!(asked.elapsed() < DEADLINE, "{:?}", asked.elapsed());
    drop(others);
    let back = Instant::now();
    until("there are connections again", || {
        scene.client().ask("POST", "/writes/2", &[("content-length", "0")], "").status == 201
    });
    check("out of connections", back.elapsed());
    assert_eq!(postgres.run("select count(*) from writes where key = 1").unwrap(), "0");
}

/// A connection of somebody else.
fn other(postgres: &Postgres) -> Program {
    let url = postgres.url().replace("postgres@", "guest@");
    let mut command = std::process::Command::new("psql");
    command.args(["-X", &url]);
    Program(command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap())
}

/// A process and its children.
fn family(id: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    std::iter::once(id).chain(children.split_whitespace().map(|child| child.parse().unwrap())).collect()
}

fn signal(id: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(id as i32).unwrap(), signal);
}
