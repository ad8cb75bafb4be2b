//! Links that servers write to lead a gateway elsewhere: none is dialled, however it comes, and none is passed off as the gateway's.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::Client;
use super::stage::front::{self, Scene};
use super::stage::shop::{self, Shop};

/// The address that must not be dialled, in the forms that parsers disagree about.
fn addresses(port: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7F.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.01",
        "127.000.000.001",
        "0",
        "0.0.0.0",
        "localhost",
        "LOCALHOST.",
        "127.0.0.1.",
        "127.0.0.2",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[::1%25lo]",
        "%31%32%37.0.0.1",
        "127.0.0.1%2e",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "ⓛocalhost",
        "evil.test",
        "shop.test.evil.test",
    ];
    hosts.map(|host| format!("{host}:{port}")).into()
}

/// Every link, with the address of the server that wrote it for `shop`.
fn links(shop: &str, port: u16) -> Vec<String> {
    let mut all = Vec::new();
    for at in addresses(port) {
        all.extend([format!("http://{at}/base/x"), format!("//{at}/base/x"), format!("http://{shop}@{at}/base/x")]);
        all.extend([format!("https://api.example.org@{at}/x"), format!("HTTP:\\\\{at}\\base\\x")]);
    }
    let evil = format!("127.0.0.1:{port}");
    for form in [
        "http:///E/x",
        "http:E/x",
        "http:/E/x",
        "///E/x",
        "////E/x",
        "\\\\E/x",
        "/\\E/x",
        "\\/E/x",
        "http:\\/\\/E/x",
        "http://S\\@E/x",
        "http://S%40E/x",
        "http://S#@E/x\u{0}",
        "http://E?@S/base/x",
        "http://E#@S/base/x",
        "http://E\\.S/base/x",
        "http://user:secret@E/x",
        "http://user@S/base/x",
        "http://:@S/base/x",
        "//@S/base/x",
        "http://@S/base/x",
        "http://S:/base/x",
        "http://S0/base/x",
        "http://S:80/base/x",
        "https://S/base/x",
        "ht\ttp://E/x",
        "http://E\u{0}/x",
        "http://S\r\nHost: E/x",
        "http://[S]/base/x",
        "http://S]/base/x",
        "http://[::1/base/x",
        "http://S/base/../../admin",
        "http://S/base/..%2fadmin",
        "http://S/admin",
        "/admin",
        "/base/../admin",
        "/base/./../admin",
        "../../admin",
        "/base/%2e%2e/admin",
        "/base/%2e./admin",
        "/base/..%2fadmin",
        "/base/..%5cadmin",
        "/base/..\\admin",
        "/base/..;/admin",
        "/base/%252e%252e/admin",
        "/base/%252e%252e%252fadmin",
        "/base/%c0%ae%c0%ae/admin",
        "/base/..%c0%afadmin",
        "/base/..%c0%af",
        "/base/..%c1%9cadmin",
        "/base/%e0%80%ae%e0%80%ae/admin",
        "/base/..%e0%80%afadmin",
        "/base/%e0%80%ae./admin",
        "/base/%f0%80%80%ae%f0%80%80%ae/admin",
        "/base/..%f0%80%80%af",
        "/base/%f8%80%80%80%ae./admin",
        "/base/%fc%80%80%80%80%ae./admin",
        "/base/%25c0%25ae%25c0%25ae/admin",
        "/base/..%25c0%25afadmin",
        "/base/..%e0%80%bbx/admin",
        "/base/..%ff/admin",
        "/base/.%fe./admin",
        "/base/..%c0/admin",
        "/base/..%e0%80/admin",
        "/base/..%80/admin",
        "/base/..%ed%a0%80/admin",
        "/base/..%f4%90%80%80/admin",
        "/base/..%ef%bc%8fadmin",
        "/base/\u{ff0e}\u{ff0e}/admin",
        "/base/..\u{ff0f}admin",
        "/base/\u{2025}/admin",
        "/base/..\u{200b}/admin",
        "/base/x%c0%80",
        "/base/..%c0%80/admin",
        "http://S/base/..%c0%afadmin",
        "http://S/base/%e0%80%ae%e0%80%ae/admin",
        "..%c0%af..%c0%afadmin",
        "%e0%80%ae%e0%80%ae/%e0%80%ae%e0%80%ae/admin",
        "https://api.example.org/..%c0%afadmin",
        "https://api.example.org/%f0%80%80%ae%f0%80%80%ae/admin",
        "/base/.%00./admin",
        "/base/%00",
        "/base/x%",
        "/base/x%2",
        "/basement/x",
        "/base;/../admin",
        "/%62ase/x",
        "//base/x",
        "http://S//base/x",
        "file:///etc/passwd",
        "file://E/x",
        "ftp://E/x",
        "gopher://E/_x",
        "dict://E/x",
        "ldap://E/x",
        "ws://E/x",
        "wss://E/x",
        "unix:/run/x.sock",
        "http+unix://%2frun%2fx.sock/x",
        "jar:http://E/x!/",
        "data:application/json,{}",
        "javascript:alert(1)",
        "mailto:a@b",
        "urn:isbn:1",
        "blob:http://E/x",
        "about:blank",
        "view-source:http://E/x",
        "http+srv://_x._tcp.evil.test/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://metadata.google.internal/",
        "http://100.100.100.200/latest/meta-data/",
        "http://2852039166/latest/meta-data/",
        "http://0xa9fea9fe/",
        "http://[fe80::1]/",
        "http://10.0.0.1/",
        "http://192.168.0.1/",
        "http://172.16.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "https://api.example.org:444/x",
        "http://api.example.org/x",
        "https://api.example.org.evil.test/x",
        "https://api.example.orgx/x",
        "https://xapi.example.org/x",
        "https://api.example.org\\@E/x",
        "https://api.example.org%2f@E/x",
        "https://api.example.org:x/",
        "https://api.example.org/..%2fadmin",
        "https://api.example.org/..;/admin",
        "https://api。example。org/x",
        "https://user@api.example.org/x",
        "https://[api.example.org]/x",
        "http://client.test@E/x",
        "http://client.test:1@E/x",
    ] {
        all.push(form.replace('E', &evil).replace('S', shop));
    }
    all
}

/// A server whose documents have the link of their number; `/base/moved/N` redirects there.
fn server(links: Arc<Mutex<Vec<String>>>, calls: Arc<Mutex<Vec<String>>>) -> Shop {
    Shop::open(move |asked, stream: &mut TcpStream| {
        calls.lock().unwrap().push(asked.target.clone());
        let number = asked.target.rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
        let link = number.and_then(|number| links.lock().unwrap().get(number).cloned()).unwrap_or_default();
        let json = "content-type: application/json\r\n";
        let told = match asked.target.as_str() {
            moved if moved.starts_with("/base/moved/") => {
                shop::answer(302, &format!("{json}location: {link}\r\n"), "{}")
            }
            via if via.starts_with("/base/via/") => {
                shop::answer(200, json, format!(r#"{{"link":"/base/moved/{}"}}"#, number.unwrap_or_default()))
            }
            document if document.starts_with("/base/doc/") => {
                shop::answer(200, json, serde_json::json!({ "link": link, "href": link }).to_string())
            }
            _ => shop::answer(200, json, r#"{"reached":true}"#),
        };
        stream.write_all(&told)
    })
}

#[test]
fn no_hostile_link_is_dialled_or_mapped() {
    let evil = Shop::open(|_, stream: &mut TcpStream| stream.write_all(&shop::answer(200, "", "{}")));
    let (all, calls) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let shop = server(all.clone(), calls.clone());
    let hostile = links(&shop.address.to_string(), evil.address.port());
    assert!(hostile.len() >= 200, "{}", hostile.len());
    *all.lock().unwrap() = hostile.clone();
    let config = "upstreams:\n\
                  \x20 shop: { url: 'http://${SHOP}/base', origins: ['https://api.example.org'], host: keep, forwarded: x }\n\
                  \x20 open: { url: 'http://${SHOP}/base', origins: ['https://api.example.org'], host: keep, links: public }\n\
                  endpoints:\n\
                  \x20 GET /follow/{n}: { pipeline: [ { request: 'shop /doc/{n}' }, { follow: .link } ] }\n\
                  \x20 GET /moved/{n}: { pipeline: [ { request: 'shop /via/{n}' }, { follow: .link } ] }\n\
                  \x20 GET /open/{*path}: open /{*path}\n";
    let scene = Scene::new(config, &shop);
    let mut client = Client::connect(scene.gateway.address).unwrap();
    let mut ask = |target: String| front::get(&mut client, &target, "host: client.test\r\n");
    for (number, link) in hostile.iter().enumerate() {
        let ways: &[&str] = match link.bytes().any(|byte| byte < b' ') {
            true => &["follow"],
            false => &["follow", "moved"],
        };
        for way in ways {
            let answer = ask(format!("/{way}/{number}"));
            assert_eq!(answer.head.status, 502, "{way} {link:?}: {}", answer.text());
            assert!(
                answer.text().contains("unusable") || answer.text().contains("malformed"),
                "{link:?}: {}",
                answer.text()
            );
        }
        // A link that is mapped leads to the endpoint, below its path; any other stays as it is.
        let answer = ask(format!("/open/doc/{number}"));
        let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        for name in ["link", "href"] {
            let mapped = document[name].as_str().unwrap();
            let here = mapped.strip_prefix("http://client.test").or_else(|| mapped.strip_prefix("//client.test"));
            let inside =
                here.unwrap_or(mapped).starts_with("/open/") && !mapped.contains("..") && !mapped.contains('\\');
            assert!(mapped == link || inside, "{link:?} became {mapped:?}");
        }
    }
    assert_eq!(evil.connections(), 0);
    let outside: Vec<String> =
        calls.lock().unwrap().iter().filter(|target| !target.starts_with("/base/")).cloned().collect();
    assert_eq!(outside, Vec::<String>::new());
    let reached: Vec<String> = calls
        .lock()
        .unwrap()
        .iter()
        .filter(|target| !["/base/doc/", "/base/moved/", "/base/via/"].iter().any(|known| target.starts_with(known)))
        .cloned()
        .collect();
    assert_eq!(reached, Vec::<String>::new());
}

/// A value that a client writes into the variables of a link stays a value.
#[test]
fn values_of_templates_do_not_climb() {
    let (all, calls) = (Arc::default(), Arc::new(Mutex::new(Vec::new())));
    let shop = server(all, calls.clone());
    let config = "upstreams: { shop: 'http://${SHOP}/base' }\n\
                  endpoints:\n\
                  \x20 GET /simple: { pipeline: [ { request: shop /doc/x }, { follow: { link: '\"/base/items/{id}\"', with: { id: $query.id } } } ] }\n\
                  \x20 GET /path: { pipeline: [ { request: shop /doc/x }, { follow: { link: '\"/base/items{/id}\"', with: { id: $query.id } } } ] }\n\
                  \x20 GET /open: { pipeline: [ { request: shop /doc/x }, { follow: { link: '\"/base/items/{+id}\"', with: { id: $query.id } } } ] }\n\
                  \x20 GET /host: { pipeline: [ { request: shop /doc/x }, { follow: { link: '\"{+id}/x\"', with: { id: $query.id } } } ] }\n";
    let scene = Scene::new(config, &shop);
    let mut client = Client::connect(scene.gateway.address).unwrap();
    for value in [
        "..",
        ".",
        "../admin",
        "../../admin",
        "x/../../../admin",
        "%2e%2e",
        "%2e%2e%2fadmin",
        "..%2fadmin",
        "..;/admin",
        "..%5cadmin",
        "..\\admin",
        "%252e%252e%252fadmin",
        "//evil.test/",
        "http://evil.test/",
        "http://127.0.0.2",
        "//127.0.0.2:1",
        "@evil.test",
        "x?a=../..",
        "x#/../..",
        "%00",
        "..%00/admin",
        "..%c0%afadmin",
        "..%c0%af..%c0%afadmin",
        "%c0%ae%c0%ae/admin",
        "%e0%80%ae%e0%80%ae/admin",
        "..%e0%80%afadmin",
        "%f0%80%80%ae%f0%80%80%ae/admin",
        "%f8%80%80%80%ae./admin",
        "..%ff/admin",
        ".%fe.",
        "..%c0",
        "%25c0%25ae%25c0%25ae/admin",
        "..%e2%80%8b/admin",
        "\u{ff0e}\u{ff0e}/admin",
        "..\u{ff0f}admin",
        "x/..%c0%af../admin",
    ] {
        let encoded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for way in ["simple", "path", "open", "host"] {
            let answer = front::get(&mut client, &format!("/{way}?id={encoded}"), "host: client.test\r\n");
            assert!(matches!(answer.head.status, 200 | 400 | 502), "{way} {value}: {}", answer.text());
        }
    }
    let calls = calls.lock().unwrap();
    for target in calls.iter() {
        let path = target.split('?').next().unwrap_or_default();
        let below = path.strip_prefix("/base/").unwrap_or_else(|| panic!("{target}"));
        let read = carelessly(below);
        assert!(read.split('/').all(|segment| segment != ".." && segment != "."), "{target}: {read}");
    }
}

/// Bytes of what is included, in resources that all are named by the one that the document is about.
const INCLUDED: usize = 100 << 20;

/// A document of JSON:API whose `included` has a hundred megabytes, by `plain` and by `follow`.
#[test]
fn a_hundred_megabytes_of_included_are_refused_within_bounds() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let shop = Shop::open(move |_, stream: &mut TcpStream| {
        let begin = "{\"data\":{\"type\":\"a\",\"id\":\"1\",\"relationships\":{\"b\":{\"data\":{\"type\":\"b\",\"id\":\"7\"}}}},\"included\":[";
        let one = format!("{{\"type\":\"b\",\"id\":\"x\",\"attributes\":{{\"t\":\"{}\"}}}},", "t".repeat(1 << 20));
        let end = "{\"type\":\"b\",\"id\":\"7\"}]}";
        let length = begin.len() + end.len() + INCLUDED / one.len() * one.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/vnd.api+json\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(begin.as_bytes())?;
        for _ in 0..INCLUDED / one.len() {
            stream.write_all(one.as_bytes())?;
            counted.fetch_add(one.len(), Ordering::SeqCst);
        }
        stream.write_all(end.as_bytes())
    });
    let config = "upstreams: { shop: 'http://${SHOP}' }\n\
                  endpoints:\n\
                  \x20 GET /plain: { pipeline: [ { request: shop /a }, { plain: json_api } ] }\n\
                  \x20 GET /follow: { pipeline: [ { request: shop /a }, { follow: { json_api: b, as: b } } ] }\n\
                  \x20 GET /tree: { pipeline: [ { request: shop /a }, { follow: { json_api: [b, c] } } ] }\n";
    let scene = Scene::new(config, &shop);
    let mut client = Client::connect(scene.gateway.address).unwrap();
    let before = scene.gateway.peak();
    for target in ["/plain", "/follow", "/tree"] {
        sent.store(0, Ordering::SeqCst);
        let answer = front::get(&mut client, target, "host: client.test\r\n");
        assert_eq!(answer.head.status, 502, "{target}: {}", answer.text());
        assert!(answer.text().contains("\"kind\":\"oversized\""), "{target}: {}", answer.text());
        assert!(answer.text().contains("16777216"), "the bound is named: {}", answer.text());
        let read = sent.load(Ordering::SeqCst);
        assert!(read < INCLUDED / 2, "{target}: {read} bytes were sent");
    }
    let more = scene.gateway.peak() - before;
    assert!(more < 3 * (16 << 20) + (8 << 20), "{more} bytes");
}

/// A path as careless servers read it: decoded until nothing is left to decode, overlong forms as the characters that they
/// stand for, and without what is no text.
fn carelessly(path: &str) -> String {
    let mut bytes = path.as_bytes().to_vec();
    loop {
        let mut decoded = Vec::new();
        let mut rest = &*bytes;
        while let [first, more @ ..] = rest {
            let pair = more.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
            match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| *first == b'%') {
                Some(byte) => (decoded.push(byte), rest = &more[2..]).1,
                None => (decoded.push(*first), rest = more).1,
            }
        }
        if decoded == bytes {
            break;
        }
        bytes = decoded;
    }
    let (mut read, mut rest) = (String::new(), &*bytes);
    while let [first, more @ ..] = rest {
        let length = first.leading_ones() as usize;
        let tail = more.iter().take(length.saturating_sub(1)).take_while(|byte| **byte & 0xc0 == 0x80).count();
        rest = &more[tail..];
        let bits = if length == 0 { *first } else { first & (0x7f_u8 >> length.min(7)) };
        let whole = length != 1 && tail == length.saturating_sub(1);
        let value = more[..tail].iter().fold(u32::from(bits), |value, byte| value << 6 | u32::from(byte & 0x3f));
        match char::from_u32(value).filter(|_| whole) {
            Some('\\' | '\u{ff0f}') => read.push('/'),
            Some('\u{ff0e}') => read.push('.'),
            Some(c) if !c.is_control() && c != '\u{200b}' && !c.is_whitespace() => read.push(c),
            _ => {}
        }
    }
    read
}
