//! Kept answers in codings.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::stage::front::{Answer, Scene};
use crate::stage::shop::{Asked, Shop};

const CONFIG: &str = r#"
compress: { codings: [gzip, br, zstd] }
upstreams:
  shop: { url: 'http://${SHOP}', forward: [if-none-match] }
  kept: { url: 'http://${SHOP}', forward: [if-none-match, range], cache: on }
endpoints:
  GET /whole/{kind}/{size}: { cache: on, pipeline: [request: 'shop /{kind}/{size}'] }
  GET /proxy/{kind}/{size}: kept /{kind}/{size}
  GET /merged:
    pipeline:
      - requests: { a: kept /fresh/2000, b: kept /fresh/3000 }
      - merge: '[$a, $b]'
"#;

const MADE: &str = "crocodile_pear_cache_copies_made_total";
const USED: &str = "crocodile_pear_cache_copies_used_total";

/// `/KIND/SIZE`: so many bytes of JSON, `fresh` for a minute or to be validated at each use.
fn answer(asked: &Asked, stream: &mut TcpStream) -> io::Result<()> {
    let (kind, size) = asked.target[1..].split_once('/').unwrap();
    let control = if kind == "fresh" { "max-age=60" } else { "no-cache" };
    let fields = format!("cache-control: {control}\r\netag: \"{size}\"\r\n");
    if !asked.field("if-none-match").is_empty() {
        return stream.write_all(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").as_bytes());
    }
    let body = body(size.parse().unwrap());
    let fields = format!("{fields}content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    stream.write_all([format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), body].concat().as_bytes())
}

/// JSON of so many bytes that a coding finds something in.
fn body(size: usize) -> String {
    let mut items = (0..).map(|number: u32| format!("{{\"id\":{number}}},"));
    let mut text = "[".to_owned();
    while text.len() < size - 20 {
        text += &items.next().unwrap();
    }
    format!("{text}\"{}\"]", "x".repeat(size - text.len() - 3))
}

fn decode(answer: &Answer) -> Vec<u8> {
    let (mut plain, coded) = (Vec::new(), &answer.body[..]);
    match answer.field("content-encoding") {
        "gzip" => flate2::read::GzDecoder::new(coded).read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(coded, 4096).read_to_end(&mut plain),
        "zstd" => zstd::stream::read::Decoder::new(coded).unwrap().read_to_end(&mut plain),
        other => panic!("it is in {other:?}"),
    }
    .unwrap();
    plain
}

/// Asks `times` times in this coding; all answers are good, and the last two are the same bytes.
fn ask(scene: &mut Scene, target: &str, coding: &str, times: usize) {
    let size = target.rsplit('/').next().unwrap();
    let answers: Vec<Answer> =
        (0..times).map(|_| scene.get(target, &format!("host: test\r\naccept-encoding: {coding}\r\n"))).collect();
    for answer in &answers {
        let fields = ["content-encoding", "etag", "vary"].map(|name| answer.field(name));
        assert_eq!(fields, [coding, &format!("W/\"{size}\""), "accept-encoding"], "{target}");
        assert!(decode(answer) == body(size.parse().unwrap()).as_bytes(), "{target} in {coding}");
    }
    let [.., one, other] = &answers[..] else { panic!("at least two") };
    assert!(one.body == other.body);
    assert_eq!(other.field("content-length"), other.body.len().to_string());
}

/// Each coding is made once, and given from then on. What streams while it is first fetched is copied with the next answer.
fn once(target: &str) {
    let mut scene = Scene::new(CONFIG, &Shop::open(answer));
    for coding in ["gzip", "br", "zstd"] {
        ask(&mut scene, target, coding, 4);
    }
    assert_eq!(scene.metric(MADE), 3);
    assert!(scene.metric(USED) >= 8, "{}", scene.metric(USED));
    let plain = scene.get(target, "host: test\r\n");
    assert_eq!((plain.field("etag").starts_with('"'), plain.field("content-encoding")), (true, ""));
    let known = plain.field("etag").to_owned();
    let confirmed = scene.get(target, &format!("host: test\r\naccept-encoding: gzip\r\nif-none-match: W/{known}\r\n"));
    assert_eq!((confirmed.head.status, confirmed.field("etag")), (304, &*format!("W/{known}")));
    let part = scene.get(target, "host: test\r\naccept-encoding: gzip\r\nrange: bytes=0-9\r\n");
    assert_eq!((part.head.status, &*part.body), (206, &plain.body[..10]));
}

#[test]
fn a_coding_of_what_an_endpoint_keeps_is_made_once() {
    once("/whole/fresh/2000");
}

#[test]
fn a_coding_of_a_large_body_that_an_endpoint_keeps_is_made_once() {
    once("/whole/fresh/300000");
}

#[test]
fn a_coding_of_what_an_upstream_keeps_is_made_once_for_a_proxy() {
    once("/proxy/fresh/2000");
}

#[test]
fn a_coding_of_a_large_body_that_an_upstream_keeps_is_made_once_for_a_proxy() {
    once("/proxy/fresh/300000");
}

#[test]
fn an_answer_that_is_confirmed_keeps_its_copies() {
    for target in ["/whole/checked/2000", "/proxy/checked/300000"] {
        let shop = Shop::open(answer);
        let mut scene = Scene::new(CONFIG, &shop);
        ask(&mut scene, target, "gzip", 5);
        assert_eq!((shop.calls(), scene.metric(MADE)), (5, 1), "{target}");
        assert!(scene.metric(USED) >= 3);
    }
}

#[test]
fn copies_of_parts_are_not_given_for_the_whole() {
    let mut scene = Scene::new(CONFIG, &Shop::open(answer));
    for _ in 0..3 {
        let merged = scene.get("/merged", "host: test\r\naccept-encoding: gzip\r\n");
        let wanted = format!("[{},{}]", body(2000), body(3000));
        assert_eq!(decode(&merged), wanted.as_bytes());
    }
    assert_eq!(scene.metric(USED), 0);
}

#[test]
fn many_clients_at_once_in_several_codings_get_the_whole_body() {
    let shop = Shop::open(answer);
    let mut scene = Scene::new(CONFIG, &shop);
    let address = scene.gateway.address;
    scene.get("/whole/fresh/300000", "host: test\r\n");
    std::thread::scope(|scope| {
        for number in 0..40 {
            let coding = ["gzip", "br", "zstd"][number % 3];
            scope.spawn(move || {
                let mut client = crate::stage::client::Client::connect(address).unwrap();
                let fields = format!("host: test\r\naccept-encoding: {coding}\r\n");
                let answer = crate::stage::front::get(&mut client, "/whole/fresh/300000", &fields);
                assert!(decode(&answer) == body(300_000).as_bytes());
            });
        }
    });
    assert_eq!((scene.metric(MADE), shop.calls()), (3, 1));
}
