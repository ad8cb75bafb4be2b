//! A change is seen by the next request, and no older value after it.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::events::database::{Database, Session};
use crate::events::shop::{ITEMS, Shop};
use crate::stage::PATIENCE;
use crate::stage::redis::Redis;
use crate::stage::scene::{Client, Scene};
use crate::stage::test_rng::TestRng;
use crate::stage::until;

/// How many updates are made.
fn updates() -> usize {
    std::env::var("EVENTS").ok().and_then(|number| number.parse().ok()).unwrap_or(100)
}

fn config(shop: &Shop, events: &str) -> String {
    format!(
        "{events}\nupstreams: {{ shop: {{ url: 'http://{}', cache: on }} }}\nendpoints: {{ '/{{*path}}': 'shop /{{*path}}' }}\n",
        shop.address
    )
}

/// A database with items and their trigger, and what reads it.
fn items(database: &Database) -> (Session, Shop) {
    let session = database.connect();
    // Otherwise each update waits for the disk: for seconds, if other programs write much to it.
    session.run("set synchronous_commit = off").unwrap();
    session.run("create table items (id int primary key, value bigint not null)").unwrap();
    session.run(&format!("insert into items select i, 0 from generate_series(0, {}) i", ITEMS - 1)).unwrap();
    let command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).args(["events", "postgres", "items"]).output();
    session.run(&String::from_utf8(command.unwrap().stdout).unwrap()).unwrap();
    (session, Shop::of(&database.url()))
}

fn postgres(database: &Database) -> String {
    format!("events: [{{ postgres: '{}', channel: items, purge: '\"item:\\(.id)\"' }}]", database.url())
}

/// Clients that ask all the time. None is given what is older than what one was given before.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<u64>>,
    seen: Arc<Vec<AtomicU64>>,
}

impl Load {
    fn begin(scene: &Scene, clients: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen: Arc<Vec<AtomicU64>> = Arc::new((0..ITEMS).map(|_| AtomicU64::new(0)).collect());
        let begin = |number: u64| {
            let (stop, seen, mut client) = (stop.clone(), seen.clone(), scene.client());
            thread::spawn(move || {
                let mut dice = TestRng(0x9e37_79b9_7f4a_7c15 ^ (number + 1));
                let mut asked = 0;
                while !stop.load(Ordering::SeqCst) {
                    ask(&mut client, &seen, dice.below(ITEMS));
                    asked += 1;
                }
                asked
            })
        };
        let threads = (0..clients).map(begin).collect();
        Load { stop, threads, seen }
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

/// Asks for an item, whose value never goes back.
fn ask(client: &mut Client, seen: &[AtomicU64], id: usize) -> u64 {
    let floor = seen[id].load(Ordering::SeqCst);
    let reply = client.get(&format!("/items/{id}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let value = reply.body.parse().unwrap();
    assert!(value >= floor, "item {id} was {floor}, and is {value} again: {:?}", reply.field("cache-status"));
    seen[id].fetch_max(value, Ordering::SeqCst);
    value
}

/// Changes items one after the other; says how long each took to be seen. `change` makes the new value and gives it.
fn follow(scene: &Scene, load: &Load, number: usize, mut change: impl FnMut(usize) -> u64) -> Vec<Duration> {
    let mut client = scene.client();
    let mut times = Vec::new();
    for update in 0..number {
        let id = update % ITEMS;
        // It is kept when it changes.
        ask(&mut client, &load.seen, id);
        let value = change(id);
        let changed = Instant::now();
        while ask(&mut client, &load.seen, id) < value {
            assert!(changed.elapsed() < PATIENCE, "update {update} of item {id} was lost");
        }
        times.push(changed.elapsed());
    }
    times
}

/// Holds the times to what is promised if `EVENTS` sets the number of updates; otherwise other tests run beside.
fn judge(what: &str, mut times: Vec<Duration>, asked: u64, shop: &Shop) {
    times.sort();
    let (median, late, last) = (times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]);
    let calls = shop.asked.load(Ordering::SeqCst);
    println!(
        "{what}: {} updates, {asked} requests beside, {calls} calls; seen after {median:?} (median), {late:?} (p99), {last:?}",
        times.len()
    );
    if std::env::var_os("EVENTS").is_some() {
        assert!(median < Duration::from_millis(10) && late < Duration::from_millis(50));
    }
}

#[test]
fn an_update_in_postgresql_is_seen_by_the_next_request() {
    let Some(database) = Database::start() else { return };
    let (session, shop) = items(&database);
    let scene = Scene::new("updates", &config(&shop, &postgres(&database)));
    scene.listens(1);
    let load = Load::begin(&scene, 2);
    let update = |id| session.one(&format!("update items set value = value + 1 where id = {id} returning value"));
    let times = follow(&scene, &load, updates(), |id| update(id).unwrap().parse().unwrap());
    judge("postgres", times, load.end(), &shop);
}

#[test]
fn no_update_is_lost_when_connections_are_cut() {
    let Some(database) = Database::start() else { return };
    let (session, shop) = items(&database);
    let scene = Scene::new("cuts", &config(&shop, &postgres(&database)));
    scene.listens(1);
    let load = Load::begin(&scene, 2);
    const CUTS: usize = 20;
    let mut done = 0;
    let number = updates().max(5 * CUTS);
    let times = follow(&scene, &load, number, |id| {
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'crocodile-pear'";
        // Just before, so that the update comes while nobody listens.
        if done % (number / CUTS) == 0 {
            scene.listens(1);
            session.run(cut).unwrap();
        }
        done += 1;
        session
            .one(&format!("update items set value = value + 1 where id = {id} returning value"))
            .unwrap()
            .parse()
            .unwrap()
    });
    let lost = || scene.metric("crocodile_pear_events_connections_lost_total");
    until("each cut is noticed", || lost() >= CUTS as u64);
    println!("{} connections were lost; the slowest update was seen after {:?}", lost(), times.iter().max().unwrap());
    load.end();
}

#[test]
fn while_nobody_listens_nothing_with_tags_is_fresh() {
    let Some(database) = Database::start() else { return };
    let shop = Shop::new();
    let scene = Scene::new("nobody", &config(&shop, &postgres(&database)));
    scene.listens(1);
    let mut client = scene.client();
    let mut calls = |number: u64| {
        let before = shop.asked.load(Ordering::SeqCst);
        (0..number).for_each(|_| drop(client.get("/items/1")));
        shop.asked.load(Ordering::SeqCst) - before
    };
    assert_eq!(calls(5), 1);
    drop(database);
    until("it is lost", || scene.metric("crocodile_pear_events_up") == 0);
    assert_eq!(calls(5), 5);
}

#[test]
fn what_is_trusted_for_a_while_is_not_trusted_longer() {
    let Some(database) = Database::start() else { return };
    let shop = Shop::new();
    let events = postgres(&database).replace("channel:", "trust: 1s, channel:");
    let scene = Scene::new("trust", &config(&shop, &events));
    scene.listens(1);
    let mut client = scene.client();
    client.get("/items/1");
    let before = Instant::now();
    drop(database);
    until("it is lost", || scene.metric("crocodile_pear_events_up") == 0);
    let calls = || shop.asked.load(Ordering::SeqCst);
    client.get("/items/1");
    // On a busy machine the second may be over.
    let trust = Duration::from_secs(1);
    assert!(calls() == 1 || before.elapsed() >= trust);
    until("it is trusted no longer", || {
        scene.client().get("/items/1");
        calls() > 1
    });
    assert!(before.elapsed() >= trust);
}

#[test]
fn a_message_of_redis_purges() {
    let Some(redis) = Redis::start() else { return };
    let shop = Shop::new();
    let events = format!(
        "events: [{{ redis: 'redis://127.0.0.1:{}', channel: items, heartbeat: 200ms, purge: '\"item:\" + .' }}]",
        redis.port
    );
    let scene = Scene::new("redis", &config(&shop, &events));
    scene.listens(1);
    let load = Load::begin(&scene, 2);
    let mut publisher = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    publisher.set_nodelay(true).unwrap();
    let times = follow(&scene, &load, updates(), |id| {
        let value = shop.values[id].fetch_add(1, Ordering::SeqCst) + 1;
        // Text with a letter in front is no JSON: it is a text.
        let id = id.to_string();
        write!(publisher, "*3\r\n$7\r\nPUBLISH\r\n$5\r\nitems\r\n${}\r\n\"{id}\"\r\n", id.len() + 2).unwrap();
        value
    });
    judge("redis", times, load.end(), &shop);
    // One that says nothing any more is noticed, and what it said meanwhile is not missed.
    redis.signal("STOP");
    until("it is lost", || scene.metric("crocodile_pear_events_up") == 0);
    shop.values[1].fetch_add(1, Ordering::SeqCst);
    assert_eq!(scene.client().get("/items/1").body, shop.values[1].load(Ordering::SeqCst).to_string());
    redis.signal("CONT");
    scene.listens(1);
}

#[test]
fn a_purge_of_operators_is_seen_by_the_next_request() {
    let shop = Shop::new();
    let config = format!("purge: {{ from: [127.0.0.0/8] }}\n{}", config(&shop, ""));
    let scene = Scene::new("operators", &config);
    let load = Load::begin(&scene, 2);
    let mut turn = 0;
    let times = follow(&scene, &load, updates(), |id| {
        let value = shop.values[id].fetch_add(1, Ordering::SeqCst) + 1;
        turn += 1;
        match turn % 4 {
            0 => assert_eq!(scene.client().ask("PURGE", &format!("/items/{id}"), &[], "").status, 200),
            1 => drop(scene.purge(&format!("{{\"tag\": \"item:{id}\"}}"))),
            2 => drop(scene.purge(&format!("{{\"url\": \"http://{}/items/{id}\", \"mode\": \"hard\"}}", shop.address))),
            _ => drop(scene.purge(&format!("{{\"prefix\": \"/items/{id}\"}}"))),
        }
        value
    });
    judge("purge", times, load.end(), &shop);
}

#[test]
fn a_purge_says_how_many_it_was_about() {
    let shop = Shop::new();
    let scene = Scene::new("count", &config(&shop, ""));
    let mut client = scene.client();
    (0..7).for_each(|id| drop(client.get(&format!("/items/{id}"))));
    assert_eq!(scene.purge(r#"{"tag": "item:3"}"#), 1);
    assert_eq!(scene.purge(r#"{"tags": ["item:3", "item:4", "nothing"]}"#), 2);
    assert_eq!(scene.purge(r#"{"tag": "items", "mode": "hard"}"#), 7);
    assert_eq!(scene.purge(r#"{"all": true}"#), 0);
}
