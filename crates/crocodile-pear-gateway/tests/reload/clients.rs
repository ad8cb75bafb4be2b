//! The state of clients: their tokens, their limits.

use std::io::Write;

use crate::reload::Kept;
use crate::stage::shop::{Gate, Shop, answer};

const FIELDS: [(&str, &str); 1] = [("authorization", "Bearer abc")];

fn json(body: &'static str) -> Shop {
    Shop::open(move |_, stream| stream.write_all(&answer(200, "content-type: application/json\r\n", body)))
}

fn endpoint(settings: &str) -> String {
    format!("endpoints:\n  GET /a:\n    {settings}\n    pipeline: [respond: {{ body: '1' }}]\n")
}

impl Kept {
    fn ask(&mut self) -> u16 {
        self.client.ask("GET", "/a", &FIELDS, "").status
    }
}

#[test]
fn a_token_that_was_introspected_is_known() {
    let issuer = json(r#"{"active":true,"sub":"ada"}"#);
    let method = format!(
        "authenticate: [ {{ introspection: {{ url: 'http://{}/i', client_id: me, client_secret: hush }} }} ]",
        issuer.address
    );
    let mut kept = Kept::new("introspection", &endpoint(&method));
    assert_eq!((kept.ask(), issuer.calls()), (200, 1));
    kept.reload();
    assert_eq!((kept.ask(), issuer.calls()), (200, 1));
    kept.change("client_id: me", "client_id: you");
    assert_eq!((kept.ask(), issuer.calls()), (200, 2));
}

#[test]
fn a_decision_of_a_service_is_known_as_long_as_the_service_is_the_same() {
    let service = json("{}");
    let config = format!(
        "upstreams:\n  auth: {{ url: 'http://{}', timeout: 20s }}\n{}",
        service.address,
        endpoint("authenticate: [ { forward: { to: auth, cache: { for: 1h, by: '$headers.authorization' } } } ]")
    );
    let mut kept = Kept::new("forward", &config);
    assert_eq!((kept.ask(), kept.ask(), service.calls()), (200, 200, 1));
    kept.reload();
    assert_eq!((kept.ask(), service.calls()), (200, 1));
    kept.change("timeout: 20s", "timeout: 30s");
    assert_eq!((kept.ask(), service.calls()), (200, 2));
}

#[test]
fn the_keys_of_an_issuer_are_not_fetched_again() {
    let issuer = json(r#"{"keys":[{"kty":"oct","k":"aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8","alg":"HS256"}]}"#);
    let method = format!(
        "authenticate: [ {{ jwt: {{ issuer: i, audience: any, keys: 'http://{}/k', algorithms: [HS256], refresh: 1h }} }} ]",
        issuer.address
    );
    let mut kept = Kept::new("keys", &endpoint(&method));
    kept.scene.until("they are fetched", || issuer.calls() == 1);
    for _ in 0..3 {
        kept.reload();
    }
    // A token that is none waits for no keys; the next fetch would have come by now.
    assert_eq!((kept.ask(), issuer.calls()), (401, 1));
    kept.change("refresh: 1h", "refresh: 2h");
    kept.scene.until("they are fetched", || issuer.calls() == 2);
}

#[test]
fn a_rate_limit_counts_on() {
    let mut kept = Kept::new("rate", &endpoint("rate_limit: { rate: 2/1h }"));
    assert_eq!([kept.ask(), kept.ask(), kept.ask()], [200, 200, 429]);
    kept.reload();
    assert_eq!(kept.ask(), 429);
    kept.change("2/1h", "3/1h");
    assert_eq!(kept.ask(), 200);
}

#[test]
fn requests_in_flight_are_counted_on() {
    let gate = Gate::default();
    let waits = gate.clone();
    let shop = Shop::open(move |_, stream| {
        waits.wait();
        stream.write_all(&answer(200, "", "ok"))
    });
    let config = format!(
        "upstreams:\n  shop: 'http://{}'\nin_flight: 1\nendpoints:\n  GET /a: shop /a\n  \
         GET /b:\n    pipeline: [respond: {{ body: '1' }}]\n",
        shop.address
    );
    let mut kept = Kept::new("requests", &config);
    std::thread::scope(|scope| {
        let mut slow = kept.scene.client();
        let slow = scope.spawn(move || slow.get("/a").status);
        kept.scene.until("it is there", || shop.calls() == 1);
        // The other endpoint is refused too, before and after.
        assert_eq!(kept.status("/b"), 429);
        kept.config = kept.config.replace("endpoints:", "# again\nendpoints:");
        kept.scene.reload(&kept.config);
        assert_eq!(kept.status("/b"), 429);
        kept.scene.reload(&kept.config.replace("in_flight: 1", "in_flight: 2"));
        assert_eq!(kept.status("/b"), 200);
        gate.open();
        assert_eq!(slow.join().unwrap(), 200);
    });
}
