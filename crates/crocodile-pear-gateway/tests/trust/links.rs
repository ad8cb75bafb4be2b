//! Where links in answers lead, and what goes along.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::get;
use super::stage::front::{Answer, Scene};
use super::stage::shop::{self, Asked, Shop};

/// The calls that came to each path: the fields of each that say something of the gateway or of its client.
type Calls = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// A server of several upstreams. `/shop/…` is not trusted: its documents link to whatever their path says after `/to`.
fn server() -> (Shop, Calls) {
    let calls = Calls::default();
    let notes = calls.clone();
    let shop = Shop::open(move |asked, stream: &mut TcpStream| {
        let said = ["authorization", "cookie", "x-key", "x-user", "x-forwarded-host", "x-client"];
        let said = said
            .iter()
            .filter(|name| !asked.field(name).is_empty())
            .map(|name| format!("{name}={}", asked.field(name)));
        let mut said = said.collect::<Vec<_>>();
        said.extend((asked.field("host") == "client.test").then(|| "host=client.test".to_owned()));
        notes.lock().unwrap().entry(asked.target.clone()).or_default().push(said.join(" "));
        let (fields, body) = document(asked);
        stream.write_all(&shop::answer(200, &format!("content-type: application/json\r\n{fields}"), body))
    });
    (shop, calls)
}

fn document(asked: &Asked) -> (&'static str, String) {
    let here = asked.field("host");
    match asked.target.split_once("/to") {
        _ if asked.target == "/auth/" => ("x-user: anna\r\n", "{}".to_owned()),
        _ if asked.target == "/token" => {
            ("", r#"{"access_token":"of-the-gateway","token_type":"bearer","expires_in":3600}"#.to_owned())
        }
        Some((_, link)) if link.starts_with('=') => ("", format!(r#"{{"link":"{}"}}"#, &link[1..])),
        Some((_, link)) => ("", format!(r#"{{"link":"http://{here}{link}"}}"#)),
        None => ("cache-control: max-age=60\r\n", format!(r#"{{"was":"{}"}}"#, asked.target)),
    }
}

fn scene(endpoints: &str) -> (Scene, Calls, Shop) {
    let (shop, calls) = server();
    let config = format!(
        "upstreams:\n\
         \x20 auth: 'http://${{SHOP}}/auth'\n\
         \x20 shop: 'http://${{SHOP}}/shop'\n\
         \x20 plain: 'http://${{SHOP}}/plain'\n\
         \x20 vault:\n\
         \x20   url: 'http://${{SHOP}}/vault'\n\
         \x20   forward: [authorization, cookie]\n\
         \x20   headers: {{ x-key: s3cret, x-client: '{{$headers.cookie}}' }}\n\
         \x20   forwarded: x\n\
         \x20 keep: {{ url: 'http://${{SHOP}}/keep', forward: all, host: keep }}\n\
         \x20 bank:\n\
         \x20   url: 'http://${{SHOP}}/bank'\n\
         \x20   credentials: {{ oauth2: {{ token_url: 'http://${{SHOP}}/token', client_id: gateway, client_secret: s }} }}\n\
         \x20 cached:\n\
         \x20   url: 'http://${{SHOP}}/cached'\n\
         \x20   cache: on\n\
         \x20   credentials: {{ oauth2: {{ token_url: 'http://${{SHOP}}/token', client_id: gateway, client_secret: s }} }}\n\
         \x20 choice: {{ choose: [ {{ share: 50%, to: vault }}, {{ to: bank }} ] }}\n\
         endpoints:\n{endpoints}"
    );
    (Scene::new(&config, &shop), calls, shop)
}

fn ask(scene: &Scene, target: &str) -> Answer {
    let mut client = super::Client::connect(scene.gateway.address).unwrap();
    let fields = "host: client.test\r\nauthorization: Bearer of-the-client\r\ncookie: s=1\r\n";
    super::front::get(&mut client, target, fields)
}

/// The values that a path received, by each call.
fn told(calls: &Calls, path: &str) -> Vec<String> {
    calls.lock().unwrap().get(path).cloned().unwrap_or_default()
}

const FOLLOW: &str =
    "  GET /a/{*path}: { pipeline: [ { request: 'shop /{*path}' }, { follow: { link: .link, as: x } } ] }\n";

#[test]
fn a_link_of_one_upstream_has_nothing_of_another() {
    let (scene, calls, _shop) = scene(FOLLOW);
    for path in ["/vault/keys", "/keep/a", "/bank/accounts", "/plain/a", "/vault/%2561?x=1", "/vault"] {
        let answer = ask(&scene, &format!("/a/to{}", path.replace('?', "%3f")));
        assert_eq!(answer.head.status, 200, "{path}: {}", answer.text());
    }
    for path in ["/vault/keys", "/keep/a", "/bank/accounts", "/plain/a"] {
        assert_eq!(told(&calls, path), [""], "{path}");
    }
    assert!(told(&calls, "/token").is_empty());
}

#[test]
fn an_upstream_that_is_named_gets_all() {
    let (scene, calls, _shop) = scene(
        "  GET /a/{*path}: { pipeline: [ { request: 'shop /{*path}' }, { follow: { link: .link, to: vault } } ] }\n\
         \x20 GET /b/{*path}: { pipeline: [ { request: 'shop /{*path}' }, { follow: { link: .link, to: [choice, keep] } } ] }\n",
    );
    let all = "authorization=Bearer of-the-client cookie=s=1 x-key=s3cret x-forwarded-host=client.test x-client=s=1";
    assert_eq!(ask(&scene, "/a/to/vault/a").head.status, 200);
    assert_eq!(ask(&scene, "/a/to/bank/a").head.status, 200);
    for path in ["/vault/b", "/bank/b", "/keep/b"] {
        assert_eq!(ask(&scene, &format!("/b/to{path}")).head.status, 200);
    }
    assert_eq!(told(&calls, "/vault/a"), [all]);
    assert_eq!(told(&calls, "/bank/a"), [""]);
    assert_eq!(told(&calls, "/vault/b"), [all]);
    assert_eq!(told(&calls, "/bank/b"), ["authorization=Bearer of-the-gateway"]);
    assert_eq!(
        told(&calls, "/keep/b"),
        ["authorization=Bearer of-the-client cookie=s=1 x-forwarded-host=client.test host=client.test"]
    );
}

#[test]
fn an_upstream_gets_its_own_for_its_own_links() {
    let (scene, calls, _shop) = scene(
        "  GET /a/{*path}: { pipeline: [ { request: 'bank /{*path}' }, { follow: .link } ] }\n\
         \x20 GET /pages/{*path}: { pipeline: [ { request: 'bank /{*path}' }, { follow: { next: .link } }, { concatenate: { as: json } } ] }\n",
    );
    for path in ["/a/to/bank/a", "/a/to=b", "/pages/to/bank/c"] {
        assert_eq!(ask(&scene, path).head.status, 200, "{path}");
    }
    for path in ["/bank/a", "/bank/b", "/bank/c"] {
        assert_eq!(told(&calls, path), ["authorization=Bearer of-the-gateway"], "{path}");
    }
    // And no others.
    assert_eq!(ask(&scene, "/a/to/vault/a").head.status, 200);
    assert_eq!(ask(&scene, "/pages/to/vault/b").head.status, 200);
    assert_eq!((told(&calls, "/vault/a"), told(&calls, "/vault/b")), (vec![String::new()], vec![String::new()]));
}

#[test]
fn no_link_leaves_the_path_of_its_upstream() {
    let (scene, calls, _shop) = scene(FOLLOW);
    let before = calls.lock().unwrap().len();
    for link in [
        "/admin",
        "/vaults/x",
        "/vault/../admin",
        "/vault/%252e%252e/admin",
        "/vault/..%252fadmin",
        "/vault/..%253b/admin",
        "/vault/%25c0%25ae%25c0%25ae/admin",
        "/vault/..%255cadmin",
        "/",
        "",
    ] {
        let target = format!("/a/to{link}");
        let answer = ask(&scene, &target);
        assert_ne!(answer.head.status, 200, "{link}: {}", answer.text());
    }
    let calls = calls.lock().unwrap();
    let other = |path: &&String| !path.starts_with("/shop/");
    assert_eq!(calls.keys().filter(other).collect::<Vec<_>>(), [""; 0], "{before}");
}

/// An expression that reads documents of several upstreams: nobody knows whose link it is.
#[test]
fn a_link_of_unknown_origin_has_nothing_of_anybody() {
    let (scene, calls, _shop) = scene(
        "  GET /own: { pipeline: [ { request: 'bank /to/shop/to/bank/own' }, { follow: { link: .link, as: evil } },\n\
         \x20   { follow: { link: '.evil.link // .link', as: x } } ] }\n\
         \x20 GET /all: { pipeline: [ { request: 'bank /to/shop/to/bank/all' }, { follow: { link: .link, as: evil } },\n\
         \x20   { follow: { link: '[.[].link?][0]', as: x } } ] }\n\
         \x20 GET /made: { pipeline: [ { request: 'bank /to/shop/to/bank/made' }, { follow: { link: .link, as: evil } },\n\
         \x20   { transform: '{href: .evil.link, evil: {}}' }, { follow: '.href | .' } ] }\n\
         \x20 GET /named: { pipeline: [ { requests: { a: bank /to, b: shop /to/bank/named } },\n\
         \x20   { merge: '{a: $a.link, b: $b.link}' }, { follow: '.b | .' } ] }\n",
    );
    for path in ["/own", "/all", "/made", "/named"] {
        let answer = ask(&scene, path);
        assert_eq!(told(&calls, &format!("/bank{path}")), [""], "{path}: {}", answer.text());
    }
}

#[test]
fn what_is_kept_for_calls_with_credentials_is_not_for_those_without() {
    let (scene, calls, _shop) = scene(
        "  GET /own: cached /a\n\
         \x20 GET /link: { pipeline: [ { request: 'shop /to/cached/a' }, { follow: .link } ] }\n\
         \x20 GET /both: { pipeline: [ { requests: { a: cached /to/cached/b, b: shop /to/cached/b } },\n\
         \x20   { merge: '[$a, $b]' }, { each: { in: '.[]' } }, { follow: { link: .link } }, { concatenate: { as: json } } ] }\n",
    );
    for _ in 0..2 {
        assert_eq!(ask(&scene, "/own").head.status, 200);
        assert_eq!(ask(&scene, "/link").head.status, 200);
    }
    assert_eq!(told(&calls, "/cached/a"), ["authorization=Bearer of-the-gateway", ""]);
    assert_eq!(ask(&scene, "/both").head.status, 200);
    assert!(told(&calls, "/cached/b").iter().all(String::is_empty), "{:?}", told(&calls, "/cached/b"));
}

#[test]
fn who_the_client_is_goes_along_with_no_foreign_link() {
    let (scene, calls, _shop) = scene(
        "  GET /a/{*path}:\n\
         \x20   authenticate: [ { forward: { to: auth, path: /, keep: [x-user] } } ]\n\
         \x20   pipeline: [ { request: 'shop /{*path}' }, { follow: .link } ]\n",
    );
    // An upstream that adds nothing by itself would still be told the user.
    assert_eq!(get(&scene, "/a/to/plain/a", "").head.status, 200);
    assert_eq!(told(&calls, "/plain/a"), [""]);
    assert_eq!(told(&calls, "/shop/to/plain/a"), ["x-user=anna"]);
}
