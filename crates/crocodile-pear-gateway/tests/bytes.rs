//! Requests through a proxied prefix arrive as they were sent, byte for byte, and never outside of the upstream's path.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::stage;

use stage::client::{exchange, status};
use stage::gateway::Gateway;
use stage::shop::Shop;
use stage::test_rng::TestRng;

const CONFIG: &str = r#"
listen: 127.0.0.1:0
threads: 1
upstreams: { shop: 'http://${SHOP}/base' }
endpoints:
  /api/{*path}: shop /{*path}?*
  /one/{id}: shop /{id}
  /made/{*path}: { pipeline: [request: { to: shop, path: '/{*($path.path)}' }] }
"#;

/// The requests that came to the upstream: `METHOD target`, and the body.
type Arrived = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

struct Scene {
    gateway: Gateway,
    arrived: Arrived,
}

impl Scene {
    fn new() -> Self {
        let arrived = Arrived::default();
        let notes = arrived.clone();
        let shop = Shop::open(move |asked, stream| {
            notes.lock().unwrap().push((asked.call(), asked.body.clone()));
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        });
        let gateway = Gateway::of(CONFIG.replace("${SHOP}", &shop.address.to_string()));
        Scene { gateway, arrived }
    }

    fn arrived(&self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.arrived.lock().unwrap())
    }
}

/// The status of the answer to a request that is sent as it is, on a connection of its own.
fn send(address: SocketAddr, method: &str, target: &str, body: &Sent) -> u16 {
    let mut request = format!("{method} {target} HTTP/1.1\r\nhost: gateway.test\r\nconnection: close\r\n").into_bytes();
    match body {
        Sent::Nothing => request.extend(b"\r\n"),
        Sent::Sized(bytes) => {
            request.extend(format!("content-length: {}\r\n\r\n", bytes.len()).into_bytes());
            request.extend(bytes);
        }
        Sent::Chunks(bytes) => {
            request.extend(b"transfer-encoding: chunked\r\n\r\n");
            for chunk in bytes.chunks(7) {
                request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                request.extend(chunk);
                request.extend(b"\r\n");
            }
            request.extend(b"0\r\n\r\n");
        }
    }
    status(&exchange(address, request))
}

enum Sent {
    Nothing,
    Sized(Vec<u8>),
    Chunks(Vec<u8>),
}

const METHODS: [&str; 14] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "PROPFIND",
    "PURGE",
    "QUERY",
    "M-SEARCH",
    "get",
    "MKCOL",
    "x!#$%&'*+-.^_`|~1",
];

/// The characters of a path: pchar (RFC 3986, 3.3), and those that clients send all the same.
const IN_PATH: &str = "abzAZ019-_~!$&'()*+,;=:@[]{}|";
const IN_QUERY: &str = "abzAZ019-._~!$&'()*+,;=:@[]{}|/?\\^";

const ODD: [&str; 30] = [
    "",
    "/",
    "//",
    "///a",
    "/a//b//",
    "/items:batchGet",
    "/;@,+",
    "/a%2fb",
    "/a%2Fb",
    "/%41",
    "/%2541",
    "/a%5cb",
    "/.well-known/x",
    "/...",
    "/a..b/..c",
    "/c..",
    "/%c3%a4",
    "/100%25",
    "/~u/(x)!*'",
    "/a=b&c=d",
    "/[x]",
    "/{x}|y",
    "/;v=1/x;a=../b",
    "/:80",
    "/@evil.test",
    "//evil.test/x",
    "/http://evil.test/",
    "/a+b%20c",
    "/%c3%a9",
    "/-",
];

fn path(dice: &mut TestRng) -> String {
    let mut path = String::new();
    for _ in 0..=dice.below(4) {
        // No segment begins with a dot: those are the next test's.
        path.push_str("/x");
        for _ in 0..dice.below(12) {
            match dice.below(4) {
                // A character, encoded: paths are UTF-8.
                0 => {
                    let sign = char::from_u32(1 + u32::try_from(dice.below(0x7fe)).unwrap()).unwrap();
                    sign.to_string().bytes().for_each(|byte| path.push_str(&format!("%{byte:02x}")));
                }
                _ => path.push(char::from(dice.of(IN_PATH.as_bytes()))),
            }
        }
    }
    path
}

fn query(dice: &mut TestRng) -> String {
    match dice.below(4) {
        0 => String::new(),
        1 => dice.of(&["?", "??", "?a=1", "?a=%2f&&b=", "?a=b?c/d", "?=", "?%zz", "?a%00b", "?%2e%2e/"]).to_owned(),
        _ => {
            let sign = |dice: &mut TestRng| char::from(dice.of(IN_QUERY.as_bytes()));
            std::iter::once('?').chain((0..dice.below(30)).map(|_| sign(dice))).collect()
        }
    }
}

#[test]
fn what_is_sent_arrives_byte_for_byte() {
    let (scene, mut dice) = (Scene::new(), TestRng(7));
    for at in 0..360 {
        let method = if at < 2 * METHODS.len() { METHODS[at % METHODS.len()] } else { dice.of(&METHODS) };
        let path = ODD.get(at).map_or_else(|| path(&mut dice), |odd| (*odd).to_owned());
        let query = query(&mut dice);
        let bytes: Vec<u8> = (0..dice.below(300)).map(|_| dice.below(256) as u8).collect();
        let (body, wanted) = match dice.below(3) {
            0 => (Sent::Nothing, Vec::new()),
            1 => (Sent::Sized(bytes.clone()), bytes),
            _ => (Sent::Chunks(bytes.clone()), bytes),
        };
        let target = format!("/api{path}{query}");
        assert_eq!(send(scene.gateway.address, method, &target, &body), 204, "{method} {target}");
        let arrived = scene.arrived();
        assert_eq!(arrived, [(format!("{method} /base{path}{query}"), wanted)], "{method} {target}");
    }
}

/// The characters that browsers and programs send raw, and the one form in which each arrives (URL standard; RFC 3986).
const RAW: [(&str, &str); 12] = [
    ("/a?q=`x`", "/a?q=%60x%60"),
    ("/a^b", "/a%5Eb"),
    ("/caf\u{e9}", "/caf%C3%A9"),
    ("/\u{1f40a}?\u{540d}=\u{5024}", "/%F0%9F%90%8A?%E5%90%8D=%E5%80%A4"),
    ("/\"a\"", "/%22a%22"),
    ("/<b>?<c>", "/%3Cb%3E?%3Cc%3E"),
    ("/a`b", "/a%60b"),
    ("/a?x=\"y\"", "/a?x=%22y%22"),
    ("/{a}|b?{c}|d", "/{a}|b?{c}|d"),
    ("/a?b[]=c^d", "/a?b[]=c^d"),
    ("/\u{ff0e}x", "/%EF%BC%8Ex"),
    ("/'a'?'b'", "/'a'?'b'"),
];

#[test]
fn what_is_sent_raw_arrives_in_one_encoded_form() {
    let scene = Scene::new();
    for (raw, form) in RAW {
        let target = format!("/api{raw}");
        assert_eq!(send(scene.gateway.address, "GET", &target, &Sent::Nothing), 204, "{target}");
        assert_eq!(scene.arrived(), [(format!("GET /base{form}"), Vec::new())], "{target}");
    }
    // Raw or encoded, dots are decided on the one form.
    for target in ["/api/\u{ff0e}\u{ff0e}/x", "/api/..\u{a0}/x", "/one/..\u{3000}"] {
        assert_eq!(send(scene.gateway.address, "GET", target, &Sent::Nothing), 400, "{target}");
    }
}

const ATTACKS: [&str; 56] = [
    "/..",
    "/../",
    "/.",
    "/./x",
    "/../x",
    "/a/../x",
    "/a/../../x",
    "//..",
    "//../x",
    "/..//x",
    "/%2e%2e",
    "/%2e%2e/x",
    "/%2E%2E/x",
    "/.%2e/x",
    "/%2e./x",
    "/%2e",
    "/a%2f..",
    "/a%2f..%2fx",
    "/..%2fx",
    "/%2e%2e%2fx",
    "/..%2Fx",
    "/a%2f..%2f..%2fx",
    "/..%5cx",
    "/..%5Cx",
    "/a%5c..%5cx",
    "/%2e%2e%5cx",
    "/%252e%252e/x",
    "/%252e%252e%252fx",
    "/..%252fx",
    "/..%255cx",
    "/%25252e%25252e/x",
    "/..;/x",
    "/..;a=b/x",
    "/.;/x",
    "/..%3b/x",
    "/..%3f",
    "/..%23",
    "/%c0%ae%c0%ae/x",
    "/..%c0%afx",
    "/..%c1%9cx",
    "/x%00",
    "/..%00/x",
    "/%zz",
    "/%u002e%u002e/x",
    "/%e0%80%ae%e0%80%ae/x",
    "/..%e0%80%afx",
    "/%f0%80%80%ae%f0%80%80%ae/x",
    "/%f8%80%80%80%ae./x",
    "/..%e0%81%9cx",
    "/%25e0%2580%25ae./x",
    "/..%20",
    "/..%20/x",
    "/.%20./x",
    "/..%ff/x",
    "/%ef%bc%8e%ef%bc%8e/x",
    "/..%e2%80%8b/x",
];

#[test]
fn no_path_leaves_the_upstream_s_own() {
    let scene = Scene::new();
    let address = scene.gateway.address;
    for attack in ATTACKS {
        for prefix in ["/api", "/api/a", "/made"] {
            for method in ["GET", "PURGE"] {
                let target = format!("{prefix}{attack}");
                // An expression's text may have a `%` that encodes nothing: it is encoded itself.
                let text = prefix == "/made" && (attack.contains("%z") || attack.contains("%u"));
                let wanted = if text { 204 } else { 400 };
                assert_eq!(send(address, method, &target, &Sent::Nothing), wanted, "{method} {target}");
            }
        }
        // As one segment it is encoded once more, is refused, or is no path of an endpoint.
        let target = format!("/one{attack}");
        let status = send(address, "GET", &target, &Sent::Nothing);
        assert!(matches!(status, 204 | 400 | 404), "{target}: {status}");
    }
    for target in ["/api\\..\\x", "/api/..\\x", "/api/x#/../y", "/api/x y", "../x", "api/x"] {
        assert_eq!(send(address, "GET", target, &Sent::Nothing), 400, "{target}");
    }
    for (call, _) in scene.arrived() {
        let target = call.split(' ').nth(1).unwrap();
        let inner = target.strip_prefix("/base/").unwrap_or_else(|| panic!("{target} is outside"));
        let decoded = inner.replace("%25", "%").to_ascii_lowercase().replace("%2e", ".");
        assert!(!decoded.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")), "{target}");
    }
}
