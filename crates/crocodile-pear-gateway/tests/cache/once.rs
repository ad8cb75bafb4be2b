//! A field that is no list leaves once, whichever way an answer takes through caches.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use crate::stage::client::Client;
use crate::stage::front::{Answer, Scene, head};
use crate::stage::shop::Shop;

/// Fields that may come several times (RFC 9110, 5.3, and the specifications of each).
const LISTS: [&str; 5] = ["cache-status", "cache-control", "vary", "set-cookie", "link"];

const BODY: &str = "\"0123456789\"";

/// A shop whose paths say how it answers: `/range/etag/…`.
fn shop() -> Shop {
    Shop::open(|asked, stream| {
        let words: BTreeSet<&str> = asked.target.split('/').collect();
        let mut fields = String::new();
        let mut add = |field: &str| write!(fields, "{field}\r\n").unwrap();
        for (word, field) in [
            ("etag", "etag: \"x\""),
            ("modified", "last-modified: Sat, 01 Jan 2000 00:00:00 GMT"),
            ("fresh", "cache-control: max-age=60"),
            ("aged", "age: 5"),
            ("stale", "cache-control: max-age=1\r\nage: 5"),
            (
                "apart",
                "cache-control: max-age=60, private=\"x-own, etag, age, content-length, content-range\", no-cache=\"x-own\"\r\nx-own: 1",
            ),
            ("dated", "date: Sat, 01 Jan 2000 00:00:00 GMT\r\nexpires: Fri, 01 Jan 2100 00:00:00 GMT"),
            ("json", "content-type: application/json\r\ncontent-language: en\r\naccept-ranges: bytes"),
        ] {
            if words.contains(word) {
                add(field);
            }
        }
        let known = words.contains("etag") && asked.field("if-none-match").contains("\"x\"");
        let range = asked.field("range").strip_prefix("bytes=").filter(|_| words.contains("range"));
        let (status, body) = match range.and_then(|range| range.split_once('-')) {
            _ if known => (304, ""),
            Some((first, _)) if first.parse::<usize>().is_ok_and(|first| first >= BODY.len()) => {
                add(&format!("content-range: bytes */{}", BODY.len()));
                (416, "")
            }
            Some((first, last)) => {
                let first = first.parse().unwrap_or(BODY.len() - 2);
                let last = last.parse().unwrap_or(BODY.len() - 1).min(BODY.len() - 1);
                add(&format!("content-range: bytes {first}-{last}/{}", BODY.len()));
                (206, &BODY[first..=last])
            }
            None => (200, BODY),
        };
        let length = if status == 304 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let body = if asked.method == "HEAD" { "" } else { body };
        stream.write_all(format!("HTTP/1.1 {status} Said\r\n{fields}{length}\r\n{body}").as_bytes())
    })
}

const CONFIG: &str = r#"
upstreams:
  plain: { url: 'http://${SHOP}', forward: [range, if-range, if-none-match, if-modified-since] }
  kept: { url: 'http://${SHOP}', forward: [range, if-range, if-none-match, if-modified-since], cache: on }
endpoints:
  GET /plain/{*path}: plain /{*path}
  GET /upstream/{*path}: kept /{*path}
  GET /endpoint/{*path}: { cache: 1m, pipeline: [request: 'plain /{*path}'] }
  GET /both/{*path}: { cache: 1m, pipeline: [request: 'kept /{*path}'] }
  GET /whole/{*path}: { cache: 1m, pipeline: [request: 'plain /{*path}', transform: '[.]'] }
  GET /merged/{*path}: { cache: on, pipeline: [requests: { a: 'kept /{*path}', b: 'kept /{*path}' }, merge: '[$a, $b]'] }
  GET /streamed/{*path}: { cache: on, pipeline: [requests: { a: 'kept /{*path}', b: 'plain /{*path}' }, concatenate: { body_only: true }] }
  GET /said/{*path}: { cache: 1m, pipeline: [request: 'plain /{*path}', respond: { headers: { etag: '"y"', age: '7', content-language: sv } }] }
"#;

fn check(fields: &[(String, String)], what: &str) {
    let names: BTreeSet<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    for name in names.into_iter().filter(|name| !LISTS.contains(name)) {
        let values: Vec<&String> = fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value).collect();
        assert_eq!(values.len(), 1, "{what}: {name} {values:?}");
    }
}

#[test]
fn no_field_that_is_no_list_leaves_twice() {
    let shop = shop();
    let mut scene = Scene::new(CONFIG, &shop);
    let places = ["plain", "upstream", "endpoint", "both", "whole", "merged", "streamed", "said"];
    let answers = [
        "json/range/etag/fresh",
        "json/range/etag",
        "json/range/modified",
        "json/range/fresh/aged",
        "json/range/etag/stale",
        "json/range",
        "json/etag/fresh",
        "json/etag/modified/dated",
        "json/stale/etag",
        "json/apart/etag/aged",
        "json/range/apart/etag/aged",
        "json/fresh/aged",
        "json",
    ];
    let asks = [
        "",
        "range: bytes=0-3\r\n",
        "range: bytes=-2\r\n",
        "range: bytes=4-\r\n",
        "range: bytes=99-\r\n",
        "range: bytes=0-3\r\nif-range: \"x\"\r\n",
        "range: bytes=0-3\r\nif-range: \"z\"\r\n",
        "if-none-match: \"x\"\r\n",
        "if-none-match: \"z\"\r\n",
        "if-modified-since: Sat, 01 Jan 2050 00:00:00 GMT\r\n",
        "cache-control: no-cache\r\n",
        "cache-control: no-cache\r\nrange: bytes=1-2\r\n",
        "if-none-match: \"x\"\r\nrange: bytes=1-2\r\n",
    ];
    for place in places {
        for answer in answers {
            // Each way to ask meets a cold cache first, then a warm one; then all in a row meet each other.
            for (cold, ask) in asks.iter().enumerate() {
                let target = format!("/{place}/{cold}/{answer}");
                for turn in 0..3 {
                    let Answer { head, body } = scene.get(&target, &format!("host: test\r\n{ask}"));
                    let what = format!("{target} {ask:?} turn {turn}");
                    check(&head.fields, &what);
                    let length = head.field("content-length").map(|length| length.parse::<usize>().unwrap());
                    assert!(head.status == 304 || length.is_none_or(|length| length == body.len()), "{what}");
                }
                let mut client = Client::connect(scene.gateway.address).unwrap();
                check(
                    &head(&mut client, &target, &format!("host: test\r\n{ask}")).fields,
                    &format!("HEAD {target} {ask:?}"),
                );
            }
            let target = format!("/{place}/row/{answer}");
            for ask in asks.iter().chain(asks.iter().rev()) {
                check(&scene.get(&target, &format!("host: test\r\n{ask}")).head.fields, &format!("{target} {ask:?}"));
            }
        }
    }
}
