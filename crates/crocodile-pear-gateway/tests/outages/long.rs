//! Long work beside short requests: documents and expressions that would hold a core for seconds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use crate::outages::scene::{Scene, get};
use crate::stage::within;

/// Longer than the work of a debug build on a busy machine takes.
const LONG: Duration = Duration::from_secs(100);

fn config(pool: &str) -> String {
    let endpoint = |name: &str, body: &str| {
        format!("  POST /{name}: {{ max_body: 16MiB, timeout: 120s, pipeline: [respond: {{ body: '{body}' }}] }}\n")
    };
    let endpoints = [
        endpoint("group", "$body | group_by(.k) | map({k: .[0].k, n: length})"),
        endpoint("walk", "$body | walk(.) | length"),
        endpoint("xml", "$body | keys"),
        endpoint("range", "[range(300000)] | map(. % 7) | add"),
        endpoint("small", "$body.a"),
    ];
    format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 1\n{pool}endpoints:\n{}", endpoints.concat())
}

fn post(gateway: SocketAddr, path: &str, media: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(gateway).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: {media}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn begin(gateway: SocketAddr, path: &'static str, media: &'static str, body: Vec<u8>) -> JoinHandle<String> {
    spawn(move || post(gateway, path, media, &body))
}

/// A list of so many items.
fn list(items: usize) -> Vec<u8> {
    let item = |at: usize| format!(r#"{{"k":{},"name":"item {at}"}}"#, at % 10);
    format!("[{}]", (0..items).map(item).collect::<Vec<_>>().join(",")).into_bytes()
}

fn xml(items: usize) -> Vec<u8> {
    let item = |at: usize| format!("<item id='{at}'><name>thing</name></item>");
    format!("<list>{}</list>", (0..items).map(item).collect::<String>()).into_bytes()
}

#[test]
fn long_work_leaves_the_core_to_short_requests() {
    let scene = Scene::with("long", &config(""));
    let gateway = scene.address();
    assert!(post(gateway, "/small", "application/json", b"{\"a\": 1}").ends_with("\r\n\r\n1"));
    let memory = || scene.gateway.resident() >> 20;
    let rest = memory();
    let works = (0..2).flat_map(|_| {
        [
            begin(gateway, "/group", "application/json", list(20_000)),
            begin(gateway, "/walk", "application/json", list(10_000)),
            begin(gateway, "/xml", "application/xml", xml(20_000)),
            begin(gateway, "/range", "application/json", b"{}".to_vec()),
        ]
    });
    let works: Vec<_> = works.collect();
    // Were they done by the one core, one request would be answered between two of them.
    let mut answered = 0;
    while !works.iter().all(JoinHandle::is_finished) {
        assert!(post(gateway, "/small", "application/json", b"{\"a\": 1}").ends_with("\r\n\r\n1"));
        answered += 1;
    }
    assert!(answered > 50, "{answered}");
    for work in works {
        let text = work.join().unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }
    let given = within(LONG, || (memory() <= rest + 30).then_some(()));
    assert!(given.is_some(), "{} MiB, and {rest} MiB before", memory());
}

#[test]
fn more_long_work_than_may_wait_is_told() {
    let scene = Scene::with("queue", &config("thread_pool: { threads: 1, queue: 1 }\n"));
    let gateway = scene.address();
    let works: Vec<_> = (0..8).map(|_| begin(gateway, "/range", "application/json", b"{}".to_vec())).collect();
    let told: Vec<String> = works.into_iter().map(|work| work.join().unwrap()).collect();
    let refused: Vec<&String> = told.iter().filter(|told| told.starts_with("HTTP/1.1 503 ")).collect();
    assert!((1..8).contains(&refused.len()), "{told:#?}");
    assert!(told.iter().all(|told| told.starts_with("HTTP/1.1 503 ") || told.ends_with("\r\n\r\n899997")), "{told:?}");
    for told in refused {
        assert!(told.contains("retry-after: 1\r\n") && told.contains(r#""kind":"overloaded""#), "{told}");
    }
    assert!(scene.metric("crocodile_pear_responses_total", "5xx") > 0);
    assert!(post(gateway, "/range", "application/json", b"{}").ends_with("\r\n\r\n899997"));
    assert!(get(gateway, "/nothing").starts_with("HTTP/1.1 404 "));
}

#[test]
fn all_items_of_one_request_have_their_turn_at_the_helper_threads() {
    let lists = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nendpoints:\n  GET /list: { pipeline: [respond: { body: '[range(60)]' }] }\n";
    let server = Scene::with("lists", lists);
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 1\nthread_pool: {{ threads: 2, queue: 2 }}\nupstreams: {{ lists: \
         'http://{}' }}\nendpoints:\n  GET /list: {{ timeout: 120s, pipeline: [request: lists /list, each: '.[]', transform: 'reduce \
         range(20000) as $i (.; . + 1)', concatenate: {{ body_only: true, order: request }}] }}\n",
        server.address()
    );
    let scene = Scene::with("lines", &config);
    let told = get(scene.address(), "/list");
    let missing: Vec<u32> = (20_000..20_060).filter(|number| !told.contains(&number.to_string())).collect();
    assert!(missing.is_empty(), "{missing:?}: {told}");
}

#[test]
fn work_waits_for_memory_and_what_needs_too_much_is_told() {
    let scene = Scene::with("memory", &config("thread_pool: { threads: 4, memory: 12MiB }\n"));
    let gateway = scene.address();
    // Each needs most of it, so that they follow each other.
    let works: Vec<_> = (0..4).map(|_| begin(gateway, "/group", "application/json", list(15_000))).collect();
    for work in works {
        let told = work.join().unwrap();
        assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    }
    let told = post(gateway, "/group", "application/json", &list(100_000));
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("thread_pool.memory"), "{told}");
    assert!(post(gateway, "/group", "application/json", &list(15_000)).starts_with("HTTP/1.1 200 "));
}
