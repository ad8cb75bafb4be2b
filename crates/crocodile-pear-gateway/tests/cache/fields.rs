//! The fields under `cache`: each does what it says, at an upstream and at an endpoint.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stage::front::Scene;
use crate::stage::shop::Shop;
use crate::stage::until;

/// Where a cache may stand.
#[derive(Clone, Copy, Debug)]
enum Place {
    Upstream,
    Endpoint,
}

const PLACES: [Place; 2] = [Place::Upstream, Place::Endpoint];

const HOST: &str = "host: test\r\n";

/// A gateway that keeps what its shop answers, as `cache` says.
fn scene(place: Place, cache: &str, shop: &Shop) -> Scene {
    let (upstream, endpoint) = match place {
        Place::Upstream => (cache, "off"),
        Place::Endpoint => ("off", cache),
    };
    let config = format!(
        "upstreams: {{ shop: {{ url: 'http://${{SHOP}}', forward: [accept-language, if-none-match, cache-control, if-match, range], cache: {upstream} }} }}\n\
         endpoints: {{ '/{{*path}}': {{ cache: {endpoint}, pipeline: [request: 'shop /{{path}}?*'] }} }}\n"
    );
    Scene::new(&config, shop)
}

/// A shop whose answers are numbered: `head` is the status and the lines of fields of the one with this number.
fn numbered(head: impl Fn(usize) -> String + Send + Sync + 'static) -> Shop {
    let calls = AtomicUsize::new(0);
    Shop::open(move |_, stream| {
        let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
        write(stream, &head(number), number.to_string().as_bytes())
    })
}

fn write(stream: &mut TcpStream, head: &str, body: &[u8]) -> io::Result<()> {
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())
}

/// The answers to requests with these fields, one after the other.
fn bodies(scene: &mut Scene, fields: &[&str]) -> Vec<String> {
    fields.iter().map(|fields| scene.get("/item", &format!("{HOST}{fields}")).text().to_owned()).collect()
}

const SILENT: &str = "200 OK";
/// The head of an answer that is stale when it comes.
const STALE: &str = "200 OK\r\ncache-control: max-age=1\r\nage: 5";

#[test]
fn requests_with_another_key_share_nothing() {
    for place in PLACES {
        let shop = numbered(|_| SILENT.to_owned());
        let mut scene = scene(place, "{ for: 1h, key: '$headers[\"x-team\"]' }", &shop);
        let teams = ["x-team: a\r\n", "x-team: b\r\n", "x-team: a\r\n", "", "x-team: b\r\n", ""];
        assert_eq!(bodies(&mut scene, &teams), ["1", "2", "1", "3", "2", "3"], "{place:?}");
    }
}

#[test]
fn requests_that_differ_in_a_field_of_vary_share_nothing() {
    for place in PLACES {
        let shop = numbered(|_| SILENT.to_owned());
        let mut scene = scene(place, "{ for: 1h, vary: [accept-language] }", &shop);
        let languages =
            ["accept-language: en\r\n", "accept-language: sv\r\n", "accept-language: en\r\n", "", "x-other: 1\r\n"];
        assert_eq!(bodies(&mut scene, &languages), ["1", "2", "1", "3", "3"], "{place:?}");
    }
}

#[test]
fn errors_are_kept_as_long_as_negative_says() {
    for place in PLACES {
        let shop = numbered(|_| "404 Not Found".to_owned());
        let mut kept = scene(place, "{ for: 1h, negative: 1h }", &shop);
        assert_eq!(bodies(&mut kept, &["", "", ""]), ["1", "1", "1"], "{place:?}");
        let mut other = scene(place, "{ for: 1h }", &shop);
        assert_eq!(bodies(&mut other, &["", ""]), ["2", "3"], "{place:?}");
        let failing = numbered(|_| "500 Internal Server Error".to_owned());
        let mut never = scene(place, "{ for: 1h, negative: 1h }", &failing);
        assert_eq!(bodies(&mut never, &["", ""]), ["1", "2"], "{place:?}");
    }
}

#[test]
fn a_stale_answer_is_given_at_once_and_fetched_anew_behind_that() {
    for place in PLACES {
        let shop =
            numbered(|number| if number == 1 { STALE } else { "200 OK\r\ncache-control: max-age=60" }.to_owned());
        let mut scene = scene(place, "{ stale: 1h }", &shop);
        assert_eq!(bodies(&mut scene, &["", ""]), ["1", "1"], "{place:?}");
        until("it was fetched anew", || scene.get("/item", HOST).text() == "2");
        assert_eq!((bodies(&mut scene, &[""]), shop.calls()), (vec!["2".to_owned()], 2), "{place:?}");
    }
}

#[test]
fn without_stale_nobody_gets_a_stale_answer() {
    for place in PLACES {
        let shop = numbered(|_| STALE.to_owned());
        let mut scene = scene(place, "on", &shop);
        assert_eq!(bodies(&mut scene, &["", "", ""]), ["1", "2", "3"], "{place:?}");
    }
}

/// A good answer, and then failures.
fn failing(first: &'static str) -> Shop {
    numbered(move |number| if number == 1 { first } else { "503 Service Unavailable" }.to_owned())
}

#[test]
fn a_stale_answer_is_given_if_the_upstream_fails_where_that_is_allowed() {
    for place in PLACES {
        let shop = failing(STALE);
        let mut kept = scene(place, "{ stale_if_error: 1h }", &shop);
        assert_eq!(bodies(&mut kept, &["", "", ""]), ["1", "1", "1"], "{place:?}");
        let answer = kept.get("/item", HOST);
        let status = answer.field("cache-status");
        assert!(status.contains("fwd=stale") && status.contains("fwd-status=503"), "{place:?}: {status}");
        let shop = failing(STALE);
        assert_eq!(bodies(&mut scene(place, "on", &shop), &["", "", ""]), ["1", "2", "3"], "{place:?}");
        let shop = failing("200 OK\r\ncache-control: max-age=1, must-revalidate\r\nage: 5");
        let mut refused = scene(place, "{ stale_if_error: 1h }", &shop);
        assert_eq!(bodies(&mut refused, &["", ""]), ["1", "2"], "{place:?}");
        let shop = failing("200 OK\r\ncache-control: max-age=1, stale-if-error=1\r\nage: 5");
        let mut late = scene(place, "{ stale_if_error: 1h }", &shop);
        assert_eq!(bodies(&mut late, &["", ""]), ["1", "2"], "{place:?}");
    }
}

#[test]
fn a_stale_answer_is_given_if_there_is_no_answer_unless_that_is_forbidden() {
    for place in PLACES {
        let calls = Arc::new(AtomicUsize::new(0));
        let shop = Shop::open(move |_, stream| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => write(stream, STALE, b"1"),
            _ => Err(io::Error::other("it is closed")),
        });
        let mut kept = scene(place, "on", &shop);
        assert_eq!(bodies(&mut kept, &["", "", ""]), ["1", "1", "1"], "{place:?}");
        let calls = Arc::new(AtomicUsize::new(0));
        let shop = Shop::open(move |_, stream| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => write(stream, STALE, b"1"),
            _ => Err(io::Error::other("it is closed")),
        });
        let mut never = scene(place, "{ stale_if_error: 0s }", &shop);
        assert_eq!(bodies(&mut never, &[""]), ["1"]);
        assert_eq!(never.get("/item", HOST).head.status, 502, "{place:?}");
    }
}

#[test]
fn force_overrules_what_answers_say_but_not_for_whom_they_are() {
    for place in PLACES {
        let forced = |head: &'static str| {
            let shop = numbered(move |_| head.to_owned());
            bodies(&mut scene(place, "{ force: 1h }", &shop), &["", "", ""]).join("")
        };
        assert_eq!(forced("200 OK\r\ncache-control: no-store"), "111", "{place:?}");
        assert_eq!(forced("200 OK\r\ncache-control: no-cache, max-age=0, must-revalidate"), "111", "{place:?}");
        assert_eq!(forced("200 OK\r\ncache-control: private"), "123", "{place:?}");
        assert_eq!(forced("200 OK\r\nset-cookie: a=b"), "123", "{place:?}");
        assert_eq!(forced("404 Not Found"), "123", "{place:?}");
    }
}

#[test]
fn a_body_larger_than_max_size_is_handed_on_and_not_kept() {
    for place in PLACES {
        // `/SIZE`, and `/SIZE/chunked` without a length.
        let shop = Shop::open(|asked, stream| {
            let (size, chunked) = asked.target[1..].split_once('/').unwrap_or((&asked.target[1..], ""));
            let body = "x".repeat(size.parse().unwrap());
            if chunked.is_empty() {
                return write(stream, "200 OK\r\ncache-control: max-age=60", body.as_bytes());
            }
            let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n";
            let (one, other) = body.split_at(body.len() / 2);
            stream.write_all(format!("{head}{:x}\r\n{one}\r\n", one.len()).as_bytes())?;
            stream.write_all(format!("{:x}\r\n{other}\r\n0\r\n\r\n", other.len()).as_bytes())
        });
        let mut scene = scene(place, "{ max_size: 64KiB }", &shop);
        let mut calls = 0;
        for (target, size, each) in [
            ("/65536", 65_536, 0),
            ("/65537", 65_537, 1),
            ("/65536/chunked", 65_536, 0),
            ("/65537/chunked", 65_537, 1),
            ("/3000000/chunked", 3_000_000, 1),
        ] {
            for _ in 0..3 {
                let body = scene.get(target, HOST).body;
                assert!(body.len() == size && body.iter().all(|byte| *byte == b'x'), "{place:?} {target}");
            }
            calls += 1 + 2 * each;
            assert_eq!(shop.calls(), calls, "{place:?} {target}");
        }
    }
}

#[test]
fn what_became_of_requests_is_counted_for_each_cache() {
    for (place, labels) in [
        (Place::Upstream, "upstream_cache_requests_total{upstream=\"shop\""),
        (Place::Endpoint, "endpoint_cache_requests_total{route=\"/{*path}\""),
    ] {
        let shop = Shop::open(|asked, stream| match &*asked.target {
            "/checked" if !asked.field("if-none-match").is_empty() => {
                stream.write_all(b"HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n")
            }
            "/checked" => write(stream, "200 OK\r\ncache-control: no-cache\r\netag: \"x\"", b"1"),
            "/stale" => write(stream, STALE, b"1"),
            _ => write(stream, "200 OK\r\ncache-control: max-age=60", b"1"),
        });
        let mut scene = scene(place, "on", &shop);
        let count = |scene: &Scene, result: &str| {
            let name = format!("crocodile_pear_{labels},result=\"{result}\"}}");
            scene.metric(&name)
        };
        for (target, fields) in [
            ("/fresh", ""),
            ("/fresh", ""),
            ("/fresh", ""),
            ("/fresh", "cache-control: no-store\r\n"),
            ("/fresh", "if-match: \"x\"\r\n"),
            ("/stale", ""),
            ("/stale", "cache-control: max-stale\r\n"),
            ("/checked", ""),
            ("/checked", ""),
            ("/none", "cache-control: only-if-cached\r\n"),
        ] {
            scene.get(target, &format!("{HOST}{fields}"));
        }
        let counted =
            ["hit", "miss", "stale", "revalidated", "collapsed", "bypass"].map(|result| count(&scene, result));
        assert_eq!(counted, [2, 4, 1, 1, 0, 2], "{place:?}");
    }
}

/// A shop whose answers are numbered and say how they were asked for.
fn echo(control: &'static str) -> Shop {
    let calls = AtomicUsize::new(0);
    Shop::open(move |asked, stream| {
        let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
        let conditional = if asked.field("if-none-match").is_empty() { "" } else { " on a condition" };
        let body = format!("{number} {} {}{conditional}", asked.method, String::from_utf8_lossy(&asked.body));
        write(stream, &format!("200 OK\r\netag: \"{number}\"\r\n{control}"), body.as_bytes())
    })
}

#[test]
fn what_is_asked_with_a_body_is_kept_for_that_body_where_that_is_written() {
    for place in PLACES {
        for method in ["POST", "QUERY"] {
            let shop = echo("cache-control: max-age=60");
            let mut kept = scene(place, &format!("{{ methods: [GET, HEAD, {method}] }}"), &shop);
            let mut ask = |fields: &str, body: &str| {
                let answer = kept.send(&format!("{method} /search"), &format!("{HOST}{fields}"), body);
                answer.text().to_owned()
            };
            let one = format!("1 {method} a");
            assert_eq!([ask("", "a"), ask("", "a")], [one.clone(), one.clone()], "{place:?}");
            assert_eq!(ask("", "b"), format!("2 {method} b"));
            assert_eq!(ask("content-type: text/csv\r\n", "a"), format!("3 {method} a"));
            assert_eq!(ask("", ""), format!("4 {method} "));
            assert_eq!([ask("", "a"), ask("", "b")], [one, format!("2 {method} b")]);
            // Conditions and ranges are for the upstream.
            assert!(ask("range: bytes=0-0\r\n", "a").starts_with("5 "));
            // GET has its own.
            assert!(kept.get("/search", HOST).text().starts_with("6 GET"));
            // The connection ends with it.
            let large = kept.send(&format!("{method} /search"), HOST, &"x".repeat(3 << 20));
            assert_eq!(large.head.status, 413, "{place:?}");
            assert_eq!(shop.calls(), 6);
        }
    }
}

#[test]
fn what_is_asked_with_a_body_is_asked_again_with_it_when_it_is_stale() {
    for place in PLACES {
        let shop = echo("cache-control: max-age=1\r\nage: 5");
        let mut kept = scene(place, "{ methods: [GET, POST], stale: 1h }", &shop);
        let mut ask = || kept.send("POST /search", HOST, "a").text().to_owned();
        assert_eq!([ask(), ask()], ["1 POST a", "1 POST a"], "{place:?}");
        until("it was fetched anew, without a condition", || ask().ends_with(" POST a") && ask() != "1 POST a");
        let shop = echo("cache-control: no-cache");
        let mut kept = scene(place, "{ methods: [GET, POST] }", &shop);
        let mut ask = || kept.send("POST /search", HOST, "a").text().to_owned();
        assert_eq!([ask(), ask()], ["1 POST a", "2 POST a"], "{place:?}");
    }
}

#[test]
fn methods_that_are_not_written_are_not_kept() {
    for place in PLACES {
        let shop = echo("cache-control: max-age=60");
        let mut kept = scene(place, "on", &shop);
        let mut ask = |call: &str| kept.send(call, HOST, "a").text().to_owned();
        assert_eq!([ask("POST /a"), ask("POST /a")], ["1 POST a", "2 POST a"], "{place:?}");
        let mut only = scene(place, "{ methods: [POST] }", &shop);
        assert_eq!([(); 2].map(|()| only.get("/b", HOST).text().to_owned()), ["3 GET ", "4 GET "], "{place:?}");
    }
}
