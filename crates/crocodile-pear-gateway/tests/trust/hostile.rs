//! Links that servers write to lead a gateway elsewhere: none is dialled, however it comes, and none is passed off as the gateway's.

use std::io::Write;
use std::net::TcpStream;
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
        assert!(below.split('/').all(|segment| segment != ".." && segment != "."), "{target}");
    }
}
