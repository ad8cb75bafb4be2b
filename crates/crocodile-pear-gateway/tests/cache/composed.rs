//! An answer that is made of several: as fresh as its least fresh part, and for nobody for whom a part is not.

use std::io::Write;

use crate::stage::client::Client;
use crate::stage::front::{Answer, Scene, head};
use crate::stage::shop::{Gate, Shop};

const CONFIG: &str = r#"
upstreams:
  shop: { url: 'http://${SHOP}' }
  kept: { url: 'http://${SHOP}', cache: on }
endpoints:
  GET /plain/{one}/{two}/{three}:
    cache: on
    pipeline:
      - requests: { one: 'shop /{one}', two: 'shop /{two}', three: 'shop /{three}' }
      - merge: '{one: $one, two: $two, three: $three}'
  GET /parts/{one}/{two}/{three}:
    cache: on
    pipeline:
      - requests: { one: 'kept /{one}', two: 'kept /{two}', three: 'kept /{three}' }
      - merge: '{one: $one, two: $two, three: $three}'
  GET /fallback/{one}/{two}:
    cache: 30s
    pipeline:
      - requests: { one: 'shop /{one}', two: 'shop /{two}' }
      - merge: '[$one, $two]'
  GET /stream/{one}/{two}:
    cache: on
    pipeline:
      - requests: { one: 'shop /{one}', two: 'shop /{two}' }
      - concatenate: { body_only: true, order: request }
"#;

const HOST: &str = "host: test\r\n";

/// `/CONTROL` or `/CONTROL;AGE` is an answer that says so; `/slow…` waits for a gate.
fn shop() -> (Shop, Gate) {
    let gate = Gate::default();
    let opened = gate.clone();
    let shop = Shop::open(move |asked, stream| {
        let target = asked.target[1..].replace("%3D", "=").replace("%3B", ";").replace("%2C", ",");
        let (slow, target) = match target.strip_prefix("slow,") {
            Some(target) => (true, target),
            None => (false, &*target),
        };
        if slow {
            opened.wait();
        }
        let (control, age) = target.split_once(';').unwrap_or((target, "0"));
        let control = if control == "silent" { String::new() } else { format!("cache-control: {control}\r\n") };
        let body = format!("{target:?}");
        let fields = format!("{control}age: {age}\r\ncontent-type: application/json\r\n");
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
    });
    (shop, gate)
}

/// How much longer it says that it is fresh.
fn left(answer: &Answer) -> i64 {
    let control = answer.field("cache-control");
    let fresh = control.split(',').next().and_then(|first| first.strip_prefix("max-age="));
    let fresh: i64 = fresh.and_then(|age| age.parse().ok()).expect(control);
    fresh - answer.field("age").parse::<i64>().unwrap_or_default()
}

/// Seconds may pass while a test runs.
fn is_about(left: i64, wanted: i64) -> bool {
    (wanted - 3..=wanted).contains(&left)
}

#[test]
fn a_whole_is_as_fresh_as_its_least_fresh_part() {
    let (shop, _) = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    for place in ["plain", "parts"] {
        for (parts, wanted) in [
            ("max-age=600;10/max-age=100;80/max-age=300", 20),
            ("max-age=100;80/max-age=600;10/max-age=15", 15),
            ("max-age=40/s-maxage=30,max-age=900/max-age=90;70", 20),
        ] {
            let target = format!("/{place}/{parts}");
            let (miss, hit) = (scene.get(&target, HOST), scene.get(&target, HOST));
            assert!(miss.field("cache-status").contains("stored"), "{target}: {:?}", miss.head);
            assert!(hit.field("cache-status").starts_with("crocodile-pear; hit"), "{target}: {:?}", hit.head);
            assert!(is_about(left(&miss), wanted) && is_about(left(&hit), wanted), "{target}: {:?}", hit.head);
            assert_eq!(miss.body, hit.body);
        }
    }
    // Two parts of the second whole are those of the first one.
    assert_eq!(shop.calls(), 9 + 7);
}

#[test]
fn a_stale_part_of_a_merge_is_the_only_one_that_is_fetched() {
    let (shop, _) = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    for _ in 0..3 {
        scene.get("/parts/max-age=600/max-age=600;1/max-age=1;5", HOST);
    }
    assert_eq!(shop.calls(), 5);
}

#[test]
fn what_is_private_in_a_part_is_private_in_the_whole() {
    let (shop, _) = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    for place in ["plain", "parts"] {
        for (part, said) in [("private,max-age=60", "private"), ("no-store", "no-store")] {
            let target = format!("/{place}/max-age=60/{part}/max-age=90");
            for _ in 0..2 {
                let answer = scene.get(&target, HOST);
                let control = answer.field("cache-control").split(',').next();
                assert_eq!((control, answer.field("etag")), (Some(said), ""), "{target}");
                let detail = format!("detail={}", if said == "private" { "private" } else { "no-store" });
                assert!(answer.field("cache-status").contains(&detail), "{:?}", answer.head);
            }
        }
    }
}

#[test]
fn a_part_that_says_nothing_has_the_time_that_is_written() {
    let (shop, _) = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    let answers = [(); 2].map(|()| scene.get("/fallback/silent/max-age=60", HOST));
    assert!(answers.iter().all(|answer| is_about(left(answer), 30)), "{:?}", answers[1].head);
    let answers = [(); 2].map(|()| scene.get("/fallback/silent/max-age=10", HOST));
    assert!(answers.iter().all(|answer| is_about(left(answer), 10)), "{:?}", answers[1].head);
    assert_eq!(shop.calls(), 4);
    // Where nothing is written, the whole is not kept: the silent part may be another one in a moment.
    let answers = [(); 2].map(|()| scene.get("/plain/silent/max-age=60/max-age=60", HOST));
    assert!(answers.iter().all(|answer| answer.field("cache-control") == "max-age=0"), "{:?}", answers[1].head);
    assert_eq!(shop.calls(), 10);
}

#[test]
fn a_whole_has_a_tag_of_its_own_and_answers_304_head_and_ranges() {
    let (shop, _) = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    let target = "/plain/max-age=60/max-age=61/max-age=62";
    let miss = scene.get(target, HOST);
    let tag = miss.field("etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() > 10, "{tag}");
    let other = scene.get("/plain/max-age=60/max-age=61/max-age=63", HOST);
    assert_ne!(other.field("etag"), tag);
    assert_eq!(scene.get(target, HOST).field("etag"), tag);
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let confirmed = scene.get(target, &format!("{HOST}if-none-match: {known}\r\n"));
        let told = (confirmed.head.status, confirmed.field("etag"), confirmed.body.len());
        assert_eq!(told, (304, &*tag, 0), "{known}");
    }
    assert_eq!(scene.get(target, &format!("{HOST}if-none-match: \"x\"\r\n")).head.status, 200);
    let part = scene.get(target, &format!("{HOST}range: bytes=1-5\r\nif-range: {tag}\r\n"));
    let range = format!("bytes 1-5/{}", miss.body.len());
    assert_eq!((part.head.status, part.field("content-range"), &*part.body), (206, &*range, &miss.body[1..6]));
    let whole = scene.get(target, &format!("{HOST}range: bytes=1-5\r\nif-range: \"x\"\r\n"));
    assert_eq!((whole.head.status, &whole.body), (200, &miss.body));
    let outside = scene.get(target, &format!("{HOST}range: bytes=9999-\r\n"));
    assert_eq!(outside.head.status, 416);
    let mut client = Client::connect(scene.gateway.address).unwrap();
    let told = head(&mut client, target, HOST);
    let names = ["etag", "content-length", "content-type"].map(|name| told.field(name).map(str::to_owned));
    assert_eq!(told.status, 200);
    assert_eq!(names, [Some(tag), Some(miss.body.len().to_string()), Some("application/json".to_owned())]);
    assert_eq!(shop.calls(), 6);
}

#[test]
fn what_is_not_known_yet_of_a_whole_that_streams_is_told_from_the_next_request_on() {
    let (shop, gate) = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    let target = "/stream/max-age=60/slow,max-age=20;5";
    let mut client = Client::connect(scene.gateway.address).unwrap();
    crate::stage::front::ask(&mut client, target, HOST);
    // The second part may be for one client alone, for all that is known.
    let head = client.head().unwrap();
    assert_eq!((head.field("cache-control"), head.field("etag")), (Some("private, no-cache"), None), "{head:?}");
    gate.open();
    let miss = client.rest().unwrap();
    let hit = scene.get(target, HOST);
    assert!(is_about(left(&hit), 15) && hit.field("etag").starts_with('"'), "{:?}", hit.head);
    assert_eq!((hit.body, shop.calls()), (miss, 2));
    // What is private comes late, and is not kept.
    let target = "/stream/max-age=60/private";
    for _ in 0..2 {
        let answer = scene.get(target, HOST);
        assert_eq!(answer.field("cache-control"), "private, no-cache", "{:?}", answer.head);
    }
    assert_eq!(shop.calls(), 6);
}

#[test]
fn what_an_upstream_keeps_to_validate_it_leaves_the_time_of_the_endpoint() {
    const MODIFIED: &str = "last-modified: Sat, 01 Jan 2000 00:00:00 GMT\r\n";
    for (upstream, fields, kept) in [
        ("on", "etag: \"x\"\r\n".to_owned(), true),
        ("on", "etag: W/\"x\"\r\n".to_owned(), true),
        ("on", format!("etag: \"x\"\r\n{MODIFIED}"), true),
        ("on", MODIFIED.to_owned(), true),
        ("on", String::new(), true),
        ("off", "etag: \"x\"\r\n".to_owned(), true),
        ("off", MODIFIED.to_owned(), true),
        ("1h", "etag: \"x\"\r\n".to_owned(), true),
        // What declares that it is stale is stale.
        ("on", "etag: \"x\"\r\ncache-control: no-cache\r\n".to_owned(), false),
        ("on", "etag: \"x\"\r\ncache-control: max-age=0\r\n".to_owned(), false),
        ("on", format!("expires: 0\r\n{MODIFIED}"), false),
    ] {
        let shop = Shop::open({
            let fields = fields.clone();
            move |asked, stream| {
                let (status, body) = if asked.find("if-none-match").is_some() { (304, "") } else { (200, "1") };
                let head = format!("HTTP/1.1 {status} Said\r\n{fields}content-type: application/json\r\n");
                let length = if status == 304 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
                stream.write_all(format!("{head}{length}\r\n{body}").as_bytes())
            }
        });
        let config = format!(
            "upstreams: {{ shop: {{ url: 'http://${{SHOP}}', cache: {upstream} }} }}\n\
             endpoints:\n\
             \x20 GET /whole: {{ cache: 1m, pipeline: [ requests: {{ one: shop /1, two: shop /2 }}, merge: '[$one, $two]' ] }}\n\
             \x20 GET /changed: {{ cache: 1m, pipeline: [ request: shop /1, transform: '[., .]' ] }}\n\
             \x20 GET /stream: {{ cache: 1m, pipeline: [ requests: {{ one: shop /1, two: shop /2 }}, concatenate: {{ body_only: true }} ] }}\n\
             \x20 GET /proxied: {{ cache: 1m, pipeline: [ request: shop /1 ] }}\n"
        );
        for target in ["/whole", "/changed", "/stream", "/proxied"] {
            let mut scene = Scene::new(&config, &shop);
            let first = scene.get(target, HOST);
            let calls = shop.calls();
            for _ in 0..3 {
                let answer = scene.get(target, HOST);
                assert_eq!(answer.body, first.body);
                let hit = answer.field("cache-status").contains("crocodile-pear; hit");
                // A proxied answer can be validated, and is kept for that.
                let status = answer.field("cache-status");
                assert_eq!(hit, kept, "{target} {upstream} {fields}: {status}");
            }
            assert!(!kept || shop.calls() == calls, "{target} {upstream} {fields}");
        }
    }
}

#[test]
fn a_private_part_is_as_fresh_as_it_says_where_the_key_says_for_whom() {
    let (shop, _) = shop();
    let config = "upstreams: { shop: { url: 'http://${SHOP}' } }\n\
        endpoints:\n\
        \x20 GET /of/{one}/{two}:\n\
        \x20   cache: { for: 1h, private: { by: '$headers[\"x-user\"]' } }\n\
        \x20   pipeline: [ requests: { one: 'shop /{one}', two: 'shop /{two}' }, merge: '[$one, $two]' ]\n";
    let mut scene = Scene::new(config, &shop);
    let anna = format!("{HOST}x-user: anna\r\n");
    for (target, wanted) in [("/of/max-age=60/private,max-age=20;5", 15), ("/of/private,max-age=20;5/max-age=60", 15)] {
        let answers = [(); 2].map(|()| scene.get(target, &anna));
        assert!(answers[1].field("cache-status").contains("; hit"), "{target}: {:?}", answers[1].head);
        let ttl = answers[1].field("cache-status").rsplit("ttl=").next().and_then(|ttl| ttl.parse().ok());
        assert!(is_about(ttl.unwrap(), wanted), "{target}: {:?}", answers[1].head);
    }
    // One that must not be kept at all is not hidden by one that is private.
    for target in ["/of/private,max-age=60/no-store", "/of/no-store/private,max-age=60"] {
        let calls = shop.calls();
        let _ = [(); 2].map(|()| scene.get(target, &anna));
        assert_eq!(shop.calls(), calls + 4, "{target}");
    }
}

/// A cache in front must not give Bob, who sends the field, what Ada got, who did not.
#[test]
fn a_field_that_calls_send_is_in_vary_although_this_client_did_not_send_it() {
    let shop = Shop::open(|asked, stream| {
        let who = asked.find("x-who").unwrap_or("nobody").to_owned();
        let fields = "cache-control: public, max-age=60, s-maxage=60\r\ncontent-type: application/json\r\n";
        stream.write_all(&crate::stage::shop::answer(200, fields, format!("{{\"who\":\"{who}\",\"next\":\"/2\"}}")))
    });
    let config = "upstreams:\n\
        \x20 shop: { url: 'http://${SHOP}', forward: [x-who, accept-language, traceparent] }\n\
        \x20 all: { url: 'http://${SHOP}', forward: all }\n\
        endpoints:\n\
        \x20 GET /merged: { pipeline: [ requests: { one: shop /1, two: shop /2 }, merge: '[$one, $two]' ] }\n\
        \x20 GET /changed: { pipeline: [ request: shop /1, transform: '[.]' ] }\n\
        \x20 GET /followed: { pipeline: [ request: shop /1, follow: { link: .next, as: next } ] }\n\
        \x20 GET /kept: { cache: on, pipeline: [ requests: { one: shop /1, two: shop /2 }, merge: '[$one, $two]' ] }\n\
        \x20 GET /all: { pipeline: [ requests: { one: all /1, two: all /2 }, merge: '[$one, $two]' ] }\n\
        \x20 GET /proxied: { pipeline: [ request: shop /1 ] }\n";
    let mut scene = Scene::new(config, &shop);
    for target in ["/merged", "/changed", "/followed", "/kept"] {
        // The second time, the cache of the gateway answers.
        for _ in 0..2 {
            let ada = scene.get(target, HOST);
            let mut names: Vec<&str> = ada.field("vary").split(", ").collect();
            names.sort_unstable();
            assert_eq!(names, ["accept-language", "x-who"], "{target}: {:?}", ada.head);
            assert!(ada.field("cache-control").starts_with("public"), "{target}: {:?}", ada.head);
            // What a part does not name, and the client has sent, is this client's alone.
            let bob = scene.get(target, &format!("{HOST}x-who: bob\r\n"));
            assert!(bob.field("cache-control").starts_with("private"), "{target}: {:?}", bob.head);
            assert!(bob.text().contains("bob") && !ada.text().contains("bob"), "{target}: {}", bob.text());
        }
    }
    // Nobody can name the fields that might come.
    let all = scene.get("/all", HOST);
    assert!(all.field("cache-control").starts_with("private"), "{:?}", all.head);
    // An answer that is passed on says itself what it depends on.
    assert_eq!(scene.get("/proxied", HOST).field("vary"), "");
}
