//! Upstreams that lead to others: rules, canaries, clients that keep their server, copies.

// What a test has found it prints.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use crate::stage;
use stage::gateway::Gateway;
use stage::scene::{Client, Reply};
use stage::shop::{Shop, answer};

fn gateway(config: &str) -> Gateway {
    Gateway::of(format!("listen: 127.0.0.1:0\n{config}"))
}

/// A server that says its name, the method, the path and the length of the body.
fn named(name: &'static str) -> Shop {
    Shop::open(move |asked, stream| {
        let said = format!("{name} {} {} {}", asked.method, asked.target, asked.body.len());
        stream.write_all(&answer(if asked.target.contains("teapot") { 418 } else { 200 }, "", said))
    })
}

/// Sends a request for each user before it reads the answers. Returns for each whether the new side answered.
fn pipeline(client: &mut Client, users: &[usize]) -> Vec<bool> {
    let request = |user: &usize| format!("GET /shop HTTP/1.1\r\nhost: h\r\nx-user: {user}\r\n\r\n");
    users.iter().for_each(|user| client.write(&request(user)));
    let side = |said: Reply| match said.body.split(' ').next() {
        Some("new") => true,
        Some("old") => false,
        _ => panic!("neither server answered: {} {:?} {}", said.status, said.fields, said.body),
    };
    users.iter().map(|_| side(client.read())).collect()
}

#[test]
fn a_rule_sends_the_whole_request_to_another_upstream() {
    let (old, new) = (named("old"), named("new"));
    let gateway = gateway(&format!(
        "
upstreams:
  old: 'http://{}'
  new: 'http://{}'
  shop:
    choose:
      - {{ when: '$headers[\"x-beta\"] == \"1\"', to: new }}
      - {{ when: '$query.side == \"none\"', to: lost }}
      - {{ when: '$cookies.side != \"none\"', to: old }}
  lost: {{ choose: [ {{ when: 'false', to: old }} ] }}
endpoints:
  /shop/{{*path}}: shop /{{*path}}?*
  GET /both:
    pipeline:
      - requests: {{ one: shop /one, two: shop /two }}
      - merge: '{{one: $one, two: $two}}'
",
        old.address, new.address
    ));
    let mut client = Client::connect(gateway.address);
    let said = client.call("POST /shop/a?b=c", "x-beta: 1\r\n", "12345");
    assert_eq!((said.status, &*said.body), (200, "new POST /a?b=c 5"));
    assert_eq!(client.call("DELETE /shop/a", "", "").body, "old DELETE /a 0");
    assert_eq!(client.call("GET /shop/teapot", "x-beta: 1\r\n", "").status, 418);
    assert_eq!(client.call("GET /shop/a?side=none", "", "").status, 404);
    assert_eq!(client.call("GET /shop/a", "cookie: a=b; side=none\r\n", "").status, 404);
    let both = client.call("GET /both", "x-beta: 1\r\n", "");
    assert_eq!(both.body, r#"{"one":"new GET /one 0","two":"new GET /two 0"}"#, "{:?}", both.fields);
}

#[test]
fn a_client_has_the_same_side_at_every_gateway_and_after_a_reload() {
    let (old, new) = (named("old"), named("new"));
    let config = |share: &str| {
        format!(
            "
upstreams:
  old: 'http://{}'
  new: 'http://{}'
  shop: {{ choose: [ {{ share: {share}, by: '$headers[\"x-user\"]', to: new }}, {{ to: old }} ] }}
endpoints: {{ GET /shop: shop / }}
",
            old.address, new.address
        )
    };
    let sides = |gateway: &Gateway, clients: usize| -> Vec<bool> {
        let mut client = Client::connect(gateway.address);
        // Several at once: a round trip for each would take longer than the answers.
        let users: Vec<usize> = (0..clients).collect();
        users.chunks(50).flat_map(|users| pipeline(&mut client, users)).collect()
    };
    let gateways = [(); 3].map(|()| gateway(&config("5%")));
    // Three standard deviations of 14 on either side. The choice's own test counts 20,000 clients.
    let first = sides(&gateways[0], 4_000);
    let number = first.iter().filter(|new| **new).count();
    println!("{number} of 4,000 clients are on the new side");
    assert!((158..=242).contains(&number), "{number}");
    // Gateways that do not agree differ on a tenth of the clients.
    let some = &first[..1_000];
    assert!(gateways[1..].iter().all(|gateway| sides(gateway, some.len()) == some));
    gateways[0].signal("HUP").unwrap();
    gateways[0].logged("*configuration reloaded*").unwrap();
    assert_eq!(sides(&gateways[0], some.len()), some);
    // With a larger share, those who were in it stay.
    let more = sides(&gateway(&config("20%")), some.len());
    assert!(first.iter().zip(&more).all(|(before, now)| !before || *now));
}

/// Which server each of these clients has.
fn servers(gateway: &Gateway, clients: usize) -> HashMap<usize, String> {
    let mut client = Client::connect(gateway.address);
    let mut of = |user: usize| client.call("GET /shop", &format!("cookie: cart={user}\r\n"), "").body;
    (0..clients).map(|user| (user, of(user))).collect()
}

#[test]
fn only_the_clients_of_a_server_that_leaves_move() {
    let shops = [named("a"), named("b"), named("c"), named("d")];
    only_its_clients_move(&shops, "hash", "");
    only_its_clients_move(&shops, "bounded", ", bound: 125%");
}

fn only_its_clients_move(shops: &[Shop], name: &str, bound: &str) {
    let config = |shops: &[Shop]| {
        let urls: Vec<String> = shops.iter().map(|shop| format!("'http://{}'", shop.address)).collect();
        let urls = urls.join(", ");
        format!(
            "
upstreams: {{ shop: {{ servers: [{urls}], balance: {{ by: hash, key: $cookies.cart{bound} }} }} }}
endpoints: {{ GET /shop: shop / }}
"
        )
    };
    let all = servers(&gateway(&config(shops)), 1_000);
    assert_eq!(all, servers(&gateway(&config(shops)), 1_000));
    let left = servers(&gateway(&config(&shops[1..])), 1_000);
    let moved = all.iter().filter(|(user, server)| left[user] != **server).count();
    let own = all.values().filter(|server| server.starts_with('a')).count();
    println!("{name}: {own} of 1,000 clients had the server that left, {moved} moved");
    assert_eq!(moved, own);
    assert!((150..350).contains(&own), "{own}");
}

#[test]
fn a_cookie_keeps_a_client_at_its_server() {
    let shops = [named("a"), named("b"), named("c")];
    let urls: Vec<String> = shops.iter().map(|shop| format!("'http://{}'", shop.address)).collect();
    let gateway = gateway(&format!(
        "
upstreams: {{ shop: {{ servers: [{}], balance: {{ by: cookie, cookie: side }} }} }}
endpoints: {{ GET /shop: shop / }}
",
        urls.join(", ")
    ));
    let mut client = Client::connect(gateway.address);
    for _ in 0..20 {
        let first = client.call("GET /shop", "", "");
        let cookie = first.field("set-cookie").unwrap();
        assert!(cookie.starts_with("side=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        for _ in 0..5 {
            let said = client.call("GET /shop", &format!("cookie: a=b; {cookie}\r\n"), "");
            assert_eq!(said.body, first.body);
            assert_eq!(said.field("set-cookie"), None);
        }
    }
}

#[test]
fn a_mirror_gets_a_copy_with_the_body() {
    let (shop, seen) = (named("shop"), Arc::new(Mutex::new(Vec::new())));
    let kept = seen.clone();
    let mirror = Shop::open(move |asked, stream| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        kept.lock().unwrap().push(format!("{} {} {body}", asked.method, asked.target));
        stream.write_all(&answer(500, "", "an answer that nobody reads"))
    });
    let gateway = gateway(&format!(
        "
upstreams:
  copy: 'http://{}'
  shop: {{ url: 'http://{}', mirror: {{ to: copy, max_body: 10B }} }}
endpoints: {{ '/shop/{{*path}}': 'shop /{{*path}}' }}
",
        mirror.address, shop.address
    ));
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.call("POST /shop/a", "", "12345").body, "shop POST /a 5");
    assert_eq!(client.call("POST /shop/large", "", "1234567890a").body, "shop POST /large 11");
    assert_eq!(client.call("GET /shop/b", "", "").body, "shop GET /b 0");
    stage::until("the copies do not come", || seen.lock().unwrap().len() == 2);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["GET /b ", "POST /a 12345"]);
}

#[test]
fn a_mirror_that_hangs_holds_nobody_up() {
    let shop = named("shop");
    // Accepts and never answers.
    let hangs = Shop::open(|_, stream| stream.read(&mut [0; 1]).map(drop));
    let gateway = gateway(&format!(
        "
admin: 127.0.0.1:0
upstreams:
  copy: 'http://{}'
  shop: {{ url: 'http://{}', mirror: {{ to: copy, in_flight: 3 }} }}
endpoints: {{ GET /shop: shop / }}
",
        hangs.address, shop.address
    ));
    let mut client = Client::connect(gateway.address);
    for _ in 0..50 {
        assert_eq!(client.call("GET /shop", "", "").body, "shop GET / 0");
    }
    stage::until("the copies do not come", || hangs.calls() == 3);
    assert_eq!(shop.calls(), 50);
}
