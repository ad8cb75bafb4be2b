//! An answer that was made for one client is never given to another.

use std::io::Write;
use std::thread;

use crate::stage::client::Client;
use crate::stage::front::{self, Scene};
use crate::stage::shop::Shop;

const CONFIG: &str = r#"
upstreams:
  shop: { url: 'http://${SHOP}', forward: [authorization] }
  kept: { url: 'http://${SHOP}', forward: all, host: keep, cache: on }
endpoints:
  GET /mine/{id}: { cache: { for: 1h, private: { by: $headers.authorization } }, pipeline: [request: 'shop /mine/{id}'] }
  GET /guarded/{id}: { cache: { for: 1h }, pipeline: [request: 'shop /guarded/{id}'] }
  GET /host/{id}: kept /host/{id}
"#;

/// `ROUNDS=100000 cargo test --test gateway cache::` tries longer.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500)
}

/// A shop that says what it was asked for, and by whom or at which host.
fn shop() -> Shop {
    Shop::open(|asked, stream| {
        let host = asked.target.starts_with("/host");
        let body = format!("{} {}", asked.target, asked.field(if host { "host" } else { "authorization" }));
        let kept = if host { "cache-control: max-age=60\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\n{kept}content-length: {}\r\n\r\n", body.len());
        stream.write_all([head, body].concat().as_bytes())
    })
}

/// Two who differ in one field ask for the same keys: each gets only what was made for it.
fn apart(target: &str, fields: [&str; 2], at_most: Option<usize>) {
    let shop = shop();
    let scene = Scene::new(CONFIG, &shop);
    thread::scope(|scope| {
        for field in fields {
            let address = scene.gateway.address;
            scope.spawn(move || {
                let mut client = Client::connect(address).unwrap();
                let (_, value) = field.trim().rsplit_once(' ').unwrap();
                for round in 0..rounds() {
                    let target = format!("{target}/{}", round % 50);
                    let answer = front::get(&mut client, &target, field);
                    assert_eq!(answer.text(), format!("{target} {value}"), "round {round}");
                }
            });
        }
    });
    assert!(at_most.is_none_or(|most| shop.calls() <= most), "{} calls", shop.calls());
}

#[test]
fn what_is_kept_for_one_identity_is_never_given_to_another() {
    let fields = ["host: test\r\nauthorization: anna\r\n", "host: test\r\nauthorization: bert\r\n"];
    apart("/mine", fields, Some(100));
}

#[test]
fn what_was_made_for_credentials_is_not_kept_without_a_key_that_says_for_whom() {
    let fields = ["host: test\r\nauthorization: anna\r\n", "host: test\r\nauthorization: bert\r\n"];
    apart("/guarded", fields, None);
}

#[test]
fn the_same_path_on_two_hosts_is_two_answers() {
    apart("/host", ["host: one.test\r\n", "host: two.test\r\n"], Some(100));
}
