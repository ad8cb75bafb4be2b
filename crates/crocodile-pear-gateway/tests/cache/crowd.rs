//! Many clients at once ask for what is not kept yet.

use std::io::{self, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stage::client::{Client, Piece};
use crate::stage::front::{self, Scene};
use crate::stage::shop::{Gate, Shop};
use crate::stage::until;

const CONFIG: &str = r#"
upstreams:
  shop: { url: 'http://${SHOP}' }
  kept: { url: 'http://${SHOP}', forward: all, host: keep, cache: on }
  failing: { url: 'http://${SHOP}', cache: { stale_if_error: 1h } }
endpoints:
  GET /slow: { cache: on, pipeline: [request: shop /slow] }
  GET /slow/{id}: kept /slow/{id}
  GET /failing: { cache: { stale_if_error: 1h }, pipeline: [request: shop /failing] }
  GET /failing/{id}: failing /failing/{id}
"#;

const FIELDS: &str = "host: test\r\n";

const HALF: usize = 10_000;

const CROWD: usize = 1000;

/// Raises the limit of open files as far as it goes, for the gateway as well: the usual one is 1024.
fn open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A shop that sends the second half of its answers when the second gate is open, and opens the first one when it is asked.
fn halves() -> (Shop, Gate, Gate) {
    let (asked, gate) = (Gate::default(), Gate::default());
    let gates = (asked.clone(), gate.clone());
    let shop = Shop::open(move |_, stream| {
        gates.0.open();
        let length = 2 * HALF;
        let head = format!("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all([head, "a".repeat(HALF)].concat().as_bytes())?;
        gates.1.wait();
        stream.write_all("b".repeat(HALF).as_bytes())
    });
    (shop, asked, gate)
}

fn clients(scene: &Scene, count: usize, target: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(scene.gateway.address).unwrap()).collect();
    clients.iter_mut().for_each(|client| front::ask(client, target, FIELDS));
    clients
}

/// Reads so many bytes of a body.
fn read(client: &mut Client, length: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < length {
        let Piece::Data(data) = client.piece().unwrap() else { panic!("it ended after {} bytes", body.len()) };
        body.extend(data);
    }
    body
}

/// All get the first half before the upstream has sent the second.
fn all_at_once(target: &str) {
    open_files();
    let (shop, _, gate) = halves();
    let scene = Scene::new(CONFIG, &shop);
    let mut clients = clients(&scene, CROWD, target);
    for client in &mut clients {
        assert_eq!(client.head().unwrap().status, 200);
        assert!(read(client, HALF) == vec![b'a'; HALF]);
    }
    gate.open();
    clients.iter_mut().for_each(|client| assert!(client.rest().unwrap() == vec![b'b'; HALF]));
    assert_eq!(shop.calls(), 1);
    let counted = ["miss", "collapsed"].map(|result| scene.count(result));
    assert_eq!(counted, [1, CROWD as u64 - 1]);
}

#[test]
fn one_call_is_made_for_many_at_an_endpoint_and_all_read_while_it_arrives() {
    all_at_once("/slow");
}

#[test]
fn one_call_is_made_for_many_at_an_upstream_and_all_read_while_it_arrives() {
    all_at_once("/slow/1");
}

#[test]
fn those_who_wait_are_answered_when_the_first_one_leaves() {
    let (shop, asked, gate) = halves();
    let scene = Scene::new(CONFIG, &shop);
    let first = clients(&scene, 1, "/slow");
    asked.wait();
    let mut others = clients(&scene, 20, "/slow");
    others.iter_mut().for_each(|client| assert_eq!(client.head().unwrap().status, 200));
    drop(first);
    gate.open();
    others.iter_mut().for_each(|client| assert!(client.rest().unwrap()[HALF..] == vec![b'b'; HALF]));
    assert_eq!(shop.calls(), 1);
}

/// How the shop fails.
#[derive(Clone, Copy, PartialEq)]
enum Failure {
    Status,
    Closed,
}

/// All ask before the upstream fails, which it does after a good answer that is stale, or at once. All get this status.
fn all_fail(target: &str, failure: Failure, before: bool, wanted: u16) {
    open_files();
    let (good, gate) = (Gate::default(), Gate::default());
    let (first, opened) = (good.clone(), gate.clone());
    let shop = Shop::open(move |_, stream| {
        if !first.is_open() {
            first.open();
            // A call on a connection that was used before and is closed is sent again, which is no second attempt.
            let fields = "cache-control: max-age=1\r\nage: 5\r\nconnection: close\r\ncontent-length: 4";
            return stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\ngood").as_bytes());
        }
        opened.wait();
        match failure {
            Failure::Status => stream.write_all(b"HTTP/1.1 500 Failed\r\ncontent-length: 3\r\n\r\nbad"),
            Failure::Closed => Err(io::Error::other("it is closed")),
        }
    });
    let mut scene = Scene::new(CONFIG, &shop);
    if before {
        assert_eq!(scene.get(target, FIELDS).text(), "good");
    } else {
        good.open();
    }
    let calls = shop.calls();
    let lookups = || scene.metric("crocodile_pear_cache_lookups_");
    let asked = lookups();
    let mut clients = clients(&scene, CROWD, target);
    until("all wait", || lookups() == asked + CROWD as u64);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.head().unwrap().status, wanted);
        let body = client.rest().unwrap();
        assert!(wanted != 200 || body == b"good");
    }
    assert_eq!(shop.calls(), calls + 1);
}

#[test]
fn an_upstream_that_answers_with_500_is_asked_once_for_many() {
    all_fail("/failing", Failure::Status, false, 500);
    all_fail("/failing/1", Failure::Status, false, 500);
}

#[test]
fn an_upstream_that_closes_is_asked_once_for_many() {
    all_fail("/failing", Failure::Closed, false, 502);
    all_fail("/failing/1", Failure::Closed, false, 502);
}

#[test]
fn many_get_the_stale_answer_of_an_upstream_that_fails_and_it_is_asked_once() {
    for failure in [Failure::Status, Failure::Closed] {
        all_fail("/failing", failure, true, 200);
        all_fail("/failing/1", failure, true, 200);
    }
}
