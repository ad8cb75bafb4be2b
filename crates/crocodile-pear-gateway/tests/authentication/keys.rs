//! Keys that come from a URL or a file, and change.

use std::thread;

use serde_json::{Value, json};

use crate::authentication::issuer::Issuer;
use crate::authentication::scene::{bearer, folder, gateway, until};
use crate::authentication::tokens::{Ec, claims, token, with};

fn set(keys: &[(&str, &Ec)]) -> String {
    let keys: Vec<Value> = keys.iter().map(|(kid, key)| with(key.jwk(), &json!({ "kid": kid }))).collect();
    json!({ "keys": keys }).to_string()
}

fn signed(kid: &str, key: &Ec) -> String {
    let header = json!({ "alg": "ES256", "kid": kid });
    token(&header.to_string(), &claims().to_string(), |text| key.sign(text))
}

fn config(keys: &str, more: &str) -> String {
    format!(
        "authenticate:
  - jwt: {{ issuer: 'https://id.example', audience: shop, keys: '{keys}', algorithms: [ES256]{more} }}
endpoints:
  GET /who: {{ pipeline: [respond: {{ body: '$claims.sub' }}] }}
"
    )
}

#[test]
fn a_new_key_is_fetched_once_however_often_it_is_asked_for() {
    let (old, new) = (Ec::new(), Ec::new());
    let issuer = Issuer::start(set(&[("old", &old)]));
    let gateway = gateway("rotation", &config(&issuer.url(), ""));
    assert_eq!(bearer(&gateway, "GET /who", &signed("old", &old)).status, 200);
    assert_eq!(issuer.asked(), 1);
    assert!(issuer.last().starts_with("GET /keys?tenant=1 HTTP/1.1\r\n"), "{}", issuer.last());
    // A new key, which the first token that names it makes known.
    issuer.answers(200, set(&[("old", &old), ("new", &new)]));
    let token = signed("new", &new);
    thread::scope(|scope| {
        let ask = || bearer(&gateway, "GET /who", &token).status;
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for answer in asked {
            assert_eq!(answer.join().unwrap(), 200);
        }
    });
    assert_eq!(issuer.asked(), 2);
    // Names that nobody knows do not make the issuer be asked each time.
    for number in 0..50 {
        assert_eq!(bearer(&gateway, "GET /who", &signed(&format!("unknown-{number}"), &new)).status, 401);
    }
    assert_eq!(issuer.asked(), 2);
    assert_eq!(bearer(&gateway, "GET /who", &signed("old", &old)).status, 200);
}

#[test]
fn old_keys_stay_while_the_issuer_is_down() {
    let key = Ec::new();
    let issuer = Issuer::start(set(&[("key", &key)]));
    let gateway = gateway("down", &config(&issuer.url(), ", refresh: 100ms"));
    let token = signed("key", &key);
    assert_eq!(bearer(&gateway, "GET /who", &token).status, 200);
    for (status, body) in [(0, ""), (500, ""), (200, "not JSON"), (200, "{\"keys\":[]}"), (302, "")] {
        issuer.answers(status, body);
        let before = issuer.asked();
        until(|| issuer.asked() > before + 1);
        assert_eq!(bearer(&gateway, "GET /who", &signed("key", &key)).status, 200, "{status} {body}");
    }
    gateway.logged("*WARN*cannot fetch the keys of `https://id.example`*the old keys stay in use*").unwrap();
    // A reload keeps them too.
    gateway.signal("HUP").unwrap();
    gateway.logged("*configuration reloaded*").unwrap();
    assert_eq!(bearer(&gateway, "GET /who", &signed("key", &key)).status, 200);
    assert_eq!(bearer(&gateway, "GET /who", &token).status, 200);
    // A key that is gone is not believed any more, also where it was remembered.
    let new = Ec::new();
    issuer.answers(200, set(&[("new", &new)]));
    gateway.logged("*keys of `https://id.example` fetched again*").unwrap();
    assert_eq!(bearer(&gateway, "GET /who", &signed("new", &new)).status, 200);
    assert_eq!(bearer(&gateway, "GET /who", &token).status, 401);
}

#[test]
fn without_keys_nobody_is_let_in_and_nobody_is_called_a_forger() {
    let key = Ec::new();
    let issuer = Issuer::start("");
    issuer.answers(503, "");
    let gateway = gateway("none", &config(&issuer.url(), ""));
    let answer = bearer(&gateway, "GET /who", &signed("key", &key));
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("retry-after: 1") && answer.body.contains("the keys of its issuer"), "{answer:?}");
    assert!(!answer.body.contains("127.0.0.1"), "{answer:?}");
    // A token that is none needs no keys.
    assert_eq!(bearer(&gateway, "GET /who", "forged").status, 401);
    issuer.answers(200, set(&[("key", &key)]));
    until(|| bearer(&gateway, "GET /who", &signed("key", &key)).status == 200);
}

#[test]
fn a_file_of_keys_is_watched() {
    let (old, new) = (Ec::new(), Ec::new());
    let file = folder("file").join("jwks.json");
    std::fs::write(&file, set(&[("key", &old)])).unwrap();
    let gateway = gateway("file", &config("jwks.json", ""));
    assert_eq!(bearer(&gateway, "GET /who", &signed("key", &old)).status, 200);
    std::fs::write(&file, set(&[("key", &new)])).unwrap();
    gateway.logged("*`jwks.json` has changed and was read again*").unwrap();
    assert_eq!(bearer(&gateway, "GET /who", &signed("key", &new)).status, 200);
    assert_eq!(bearer(&gateway, "GET /who", &signed("key", &old)).status, 401);
    std::fs::write(&file, "{\"keys\":").unwrap();
    gateway.logged("*ERROR*cannot use the new `jwks.json`*the old one stays in use*").unwrap();
    assert_eq!(bearer(&gateway, "GET /who", &signed("key", &new)).status, 200);
}
