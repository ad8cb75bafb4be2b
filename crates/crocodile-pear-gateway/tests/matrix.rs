//! Bodies are never lost in silence: each method, without a body, with a small one and with a large one, in each kind of pipeline. If a
//! client gets a status of 2xx, each call that says so has got its method and its whole body; otherwise the client is told.
//!
//! 3 MB are larger than all buffers. `MATRIX=all` sends 200 MB with each method, and not with two of them; with a release build, that
//! takes minutes.

// What a test skips, and what it has tried, it prints.
#![allow(clippy::print_stdout)]

mod client;
mod server;
mod unread;

use std::cell::RefCell;

use crate::stage;
use stage::database::Database;
use stage::gateway::Gateway;

use client::send;
use server::{Call, Server};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "REPORT"];

const LARGE: u64 = 200_000_000;

/// More than sockets and the gateway hold on the way.
const BEYOND: u64 = 3_000_000;

/// The most memory that the gateway may ever have had, with bodies of 200 MB: it does not hold them.
const PEAK: u64 = 150 << 20;

/// A kind of pipeline.
struct Shape {
    path: &'static str,
    /// The text that follows the path in the configuration.
    written: &'static str,
    kind: Kind,
    /// The calls that have to come with the client's method and body: upstream and target.
    calls: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The method and the body go through as they come.
    Proxy,
    /// Likewise, but HEAD is served as GET.
    Streams,
    /// The body is read whole, within a MiB, and sent on as copies.
    Copies,
    /// Likewise. The answer is a list that is written while calls are made: HEAD, which has no body, ends them.
    Lists,
    /// No call takes the body, nor the method: requests with them are refused.
    Refuses,
    /// An expression reads the body. The call is a POST, so that other methods are refused.
    Reads,
}

const SHAPES: [Shape; 16] = [
    Shape { path: "/proxy", written: "one /proxy", kind: Kind::Proxy, calls: &[("one", "/proxy")] },
    Shape {
        path: "/request",
        written: "{ pipeline: [ request: one /request, transform: . ] }",
        kind: Kind::Streams,
        calls: &[("one", "/request")],
    },
    Shape {
        path: "/requests",
        written: "{ pipeline: [ { requests: { a: { to: one, path: /a, body: client }, b: { to: two, path: /b, body: client } } }, merge: '[$a, $b]' ] }",
        kind: Kind::Copies,
        calls: &[("one", "/a"), ("two", "/b")],
    },
    Shape {
        path: "/values",
        written: "{ pipeline: [ request: { to: one, path: '/values/{.}', for_each: '1, 2', body: client }, concatenate: { body_only: true } ] }",
        kind: Kind::Lists,
        calls: &[("one", "/values/1"), ("one", "/values/2")],
    },
    Shape {
        path: "/twice",
        written: "{ pipeline: [ request: one /first, request: { to: two, path: /second, body: client } ] }",
        kind: Kind::Copies,
        calls: &[("one", "/first"), ("two", "/second")],
    },
    Shape {
        path: "/each",
        written: "{ pipeline: [ request: { to: plain, path: /list, method: GET }, each: '.[]', request: { to: one, path: '/each/{.}', body: client }, concatenate: { body_only: true } ] }",
        kind: Kind::Lists,
        calls: &[("one", "/each/7"), ("one", "/each/8")],
    },
    Shape {
        path: "/follow",
        written: "{ pipeline: [ request: { to: plain, path: /item, method: GET }, follow: { link: .id, as: other, request: { to: one, path: '/follow/{.}', body: client } } ] }",
        kind: Kind::Copies,
        calls: &[("one", "/follow/7")],
    },
    Shape {
        path: "/guarded",
        written: "{ authenticate: [ { forward: { to: plain, path: /may } } ], pipeline: [ request: one /guarded ] }",
        kind: Kind::Proxy,
        calls: &[("one", "/guarded")],
    },
    Shape { path: "/mirrored", written: "mirrored /mirrored", kind: Kind::Proxy, calls: &[("one", "/mirrored")] },
    Shape { path: "/retried", written: "retried /retried", kind: Kind::Proxy, calls: &[("one", "/retried")] },
    Shape {
        path: "/cached",
        written: "{ cache: 1h, pipeline: [ request: one /cached ] }",
        kind: Kind::Proxy,
        calls: &[("one", "/cached")],
    },
    Shape { path: "/chosen", written: "chosen /chosen", kind: Kind::Proxy, calls: &[("two", "/chosen")] },
    Shape {
        path: "/detached",
        written: "{ pipeline: [ request: { to: one, path: /detached, body: client, detach: on }, respond: { status: 202 } ] }",
        kind: Kind::Copies,
        calls: &[("one", "/detached")],
    },
    Shape {
        path: "/lost",
        written: "{ pipeline: [ { requests: { a: one /lost } }, merge: $a ] }",
        kind: Kind::Refuses,
        calls: &[("one", "/lost")],
    },
    Shape {
        path: "/read",
        written: "{ pipeline: [ request: { to: one, path: /read, body: $body } ] }",
        kind: Kind::Reads,
        calls: &[("one", "/read")],
    },
    Shape {
        path: "/checked",
        written: "{ pipeline: [ reject: { when: '$body == \"never\"', status: 422 }, { requests: { a: { to: one, path: /checked, body: $body } } }, merge: $a ] }",
        kind: Kind::Reads,
        calls: &[("one", "/checked")],
    },
];

struct Scene {
    one: Server,
    two: Server,
    copy: Server,
    gateway: Gateway,
}

impl Scene {
    fn set() -> Self {
        let (one, two, copy, plain) = (Server::begin(), Server::begin(), Server::begin(), Server::begin());
        let (nobody, refused) = stage::absent::nobody().unwrap();
        std::mem::forget(nobody);
        let upstreams = format!(
            "upstreams:\n  one: 'http://{one}'\n  two: 'http://{two}'\n  plain: 'http://{plain}'\n  copy: 'http://{copy}'\n  \
             mirrored: {{ url: 'http://{one}', mirror: copy }}\n  \
             retried: {{ servers: ['http://{refused}', 'http://{one}'], retry: {{ attempts: 3 }} }}\n  \
             chosen: {{ choose: [ {{ when: 'false', to: one }}, {{ to: two }} ] }}\n",
            one = one.address(),
            two = two.address(),
            plain = plain.address(),
            copy = copy.address(),
        );
        let shapes: String = SHAPES.iter().map(|shape| format!("  {}: {}\n", shape.path, shape.written)).collect();
        let gateway = Gateway::of(format!("listen: 127.0.0.1:0\n{upstreams}endpoints:\n{shapes}"));
        Scene { one, two, copy, gateway }
    }

    /// The calls with the client's request that have come since the last look, once as many are there.
    fn calls(&self, number: usize, told: &str) -> Vec<(&'static str, Call)> {
        let found = RefCell::new(Vec::new());
        let come = || {
            for (name, server) in [("one", &self.one), ("two", &self.two)] {
                found.borrow_mut().extend(server.take().into_iter().map(|call| (name, call)));
            }
            (found.borrow().len() >= number).then_some(())
        };
        stage::found(come, || format!("{told}: of {number} calls these came: {:?}", found.borrow()));
        let mut found = found.into_inner();
        found.sort_by(|one, other| one.1.target.cmp(&other.1.target));
        found
    }
}

/// The calls that must have come, or the status of a refusal.
fn expected(shape: &Shape, method: &str, body: u64) -> Result<String, u16> {
    match shape.kind {
        Kind::Copies | Kind::Lists if body > 1 << 20 => Err(413),
        Kind::Refuses if !["GET", "HEAD"].contains(&method) => Err(405),
        Kind::Refuses if body > 0 => Err(413),
        Kind::Reads if method != "POST" => Err(405),
        Kind::Reads if body > 1 << 20 => Err(413),
        // Digits are JSON if there is one.
        Kind::Reads if body > 1 => Err(400),
        Kind::Proxy => Ok(method.to_owned()),
        Kind::Streams | Kind::Copies | Kind::Lists | Kind::Refuses | Kind::Reads => {
            Ok(if method == "HEAD" { "GET" } else { method }.to_owned())
        }
    }
}

fn try_one(scene: &Scene, shape: &Shape, method: &str, body: u64) {
    // The server of a cache is asked each time.
    let target = format!("{}?{method}{body}", shape.path);
    let status = send(scene.gateway.address, method, &target, body);
    let told = format!("{method} {} with {body} bytes", shape.path);
    match expected(shape, method, body) {
        Err(refused) => {
            assert_eq!(status, refused, "{told}");
            assert_eq!(scene.calls(0, &told), [], "{told}");
        }
        Ok(method) => {
            assert!((200..300).contains(&status), "{told}: {status}");
            let came = scene.calls(shape.calls.len(), &told);
            // No body is null.
            let (length, whole) = if shape.kind == Kind::Reads && body == 0 { (4, false) } else { (body, true) };
            let wanted = shape.calls.iter().map(|(upstream, target)| {
                (*upstream, Call { method: method.clone(), target: (*target).to_owned(), body: length, whole })
            });
            assert_eq!(came, wanted.collect::<Vec<_>>(), "{told}");
        }
    }
    if shape.path == "/mirrored" && body <= 64 << 10 {
        let copied = stage::found(|| scene.copy.take().pop(), || format!("{told}: no copy"));
        assert_eq!((&*copied.method, copied.body, copied.whole), (method, body, true), "{told}");
    }
}

#[test]
fn small_bodies_and_all_methods_reach_their_calls() {
    let scene = Scene::set();
    let mut tried = 0;
    for shape in &SHAPES {
        for method in METHODS.into_iter().filter(|method| *method != "HEAD" || shape.kind != Kind::Lists) {
            for body in [0, 1, 100_000, BEYOND] {
                try_one(&scene, shape, method, body);
                tried += 1;
            }
        }
    }
    println!("{tried} requests, none lost in silence");
}

#[test]
fn the_calls_of_a_list_that_begin_for_head_have_the_whole_body() {
    for shape in SHAPES.iter().filter(|shape| shape.kind == Kind::Lists) {
        let scene = Scene::set();
        for body in [0, 1, 100_000] {
            assert_eq!(send(scene.gateway.address, "HEAD", shape.path, body), 200, "{}", shape.path);
        }
        // Each makes the first call at least.
        for (_, call) in scene.calls(3, shape.path) {
            assert!(call.method == "GET" && call.whole && [0, 1, 100_000].contains(&call.body), "{call:?}");
        }
    }
}

#[test]
fn two_hundred_megabytes_reach_their_calls_or_are_refused() {
    let scene = Scene::set();
    let all = std::env::var_os("MATRIX").is_some();
    let methods: &[&str] = if all { &METHODS } else { &["GET", "POST"] };
    for shape in &SHAPES {
        for method in methods {
            try_one(&scene, shape, method, LARGE);
        }
    }
    let peak = scene.gateway.peak();
    assert!(peak < PEAK, "the gateway has had {} MiB", peak >> 20);
    println!("the gateway has had {} MiB at most", peak >> 20);
    println!("{} requests of 200 MB, none lost in silence", SHAPES.len() * methods.len());
}

#[test]
fn a_statement_has_the_body_that_its_expressions_read() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    session.run("create table written(body jsonb)").unwrap();
    let gateway = Gateway::of(format!(
        "listen: 127.0.0.1:0\ndatabases: {{ items: {{ url: '{}' }} }}\nendpoints:\n  /sql: {{ pipeline: [ {{ sql: {{ to: items, \
         query: 'insert into written(body) values ($1) returning body', values: [$body], one: true }} }} ] }}\n",
        database.url()
    ));
    let mut wanted = 0;
    for method in METHODS {
        for body in [0, 1, LARGE] {
            let status = send(gateway.address, method, "/sql", body);
            // A digit is JSON, and its own length.
            wanted += usize::from(body <= 1);
            assert_eq!(status, if body <= 1 { 200 } else { 413 }, "{method} with {body} bytes");
        }
    }
    let rows = session.one("select count(*)::text from written where body is null or body = '0'");
    assert_eq!(rows, Some(wanted.to_string()));
}
