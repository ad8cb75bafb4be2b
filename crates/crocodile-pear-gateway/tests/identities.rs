//! Clients with different `authorization` never share what was followed for one of them.

use std::io::Write;
use std::sync::Barrier;
use std::thread;

use crate::stage;

use stage::client::Client;
use stage::gateway::Gateway;
use stage::shop::Shop;

/// `ROUNDS=10000 cargo test --test gateway identities::` tries longer.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500)
}

const CONFIG: &str = r#"
listen: 127.0.0.1:0
threads: 1
upstreams: { shop: { url: 'http://${SHOP}', forward: [authorization] } }
endpoints:
  GET /mine:
    pipeline:
      - request: shop /list
      - each: .[]
      - follow: { link: '"/me"', as: me }
      - follow: { link: .id, as: batch, request: { to: shop, path: '/many?ids={join(",")}', batch: {} } }
      - transform: '[.me, .batch.of]'
      - concatenate: { body_only: true, order: request }
"#;

/// A shop that answers with the caller's identity.
fn shop() -> Shop {
    Shop::open(|asked, stream| {
        let who = asked.field("authorization");
        let body = match asked.target.split('?').next().unwrap_or_default() {
            "/list" => r#"[{"id":1},{"id":2},{"id":1}]"#.to_owned(),
            "/me" => format!("{who:?}"),
            _ => format!(r#"[{{"id":1,"of":{who:?}}},{{"id":2,"of":{who:?}}}]"#),
        };
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all([head, body].concat().as_bytes())
    })
}

#[test]
fn two_clients_at_once_never_share_an_answer() {
    let shop = shop();
    let gateway = Gateway::of(CONFIG.replace("${SHOP}", &shop.address.to_string()));
    let together = Barrier::new(2);
    let ask = &|who: &str| {
        let mut client = Client::connect(gateway.address).unwrap();
        let wanted = format!("[{}]", vec![format!("[{who:?},{who:?}]"); 3].join(","));
        let request = format!("GET /mine HTTP/1.1\r\nhost: test\r\nauthorization: {who}\r\n\r\n");
        together.wait();
        for round in 0..rounds() {
            client.ask("GET", request.as_bytes()).unwrap();
            assert_eq!(client.head().unwrap().status, 200);
            assert_eq!(client.rest().unwrap(), wanted.as_bytes(), "round {round}");
        }
    };
    thread::scope(|scope| ["anna", "bert"].map(|who| scope.spawn(move || ask(who))).map(|asked| asked.join().unwrap()));
}
