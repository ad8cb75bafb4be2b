//! Access tokens for upstreams.

use std::thread;

use crate::authentication::issuer::Issuer;
use crate::authentication::scene::{Answer, gateway, send};
use crate::stage::gateway::Gateway;

fn start(name: &str, issuer: &Issuer, shop: &Issuer) -> Gateway {
    let config = format!(
        "
upstreams:
  shop:
    url: 'http://{}'
    forward: all
    credentials:
      oauth2:
        token_url: 'http://{}/token'
        client_id: gateway
        client_secret: cl1ent-s3cret
        scope: 'read write'
        parameters: {{ audience: shop }}
endpoints:
  /api/{{*path}}: shop /{{*path}}
",
        shop.address, issuer.address
    );
    gateway(name, &config)
}

fn token(token: &str, expires: u32) -> String {
    format!(r#"{{"access_token":"{token}","token_type":"bearer","expires_in":{expires}}}"#)
}

fn get(gateway: &Gateway) -> Answer {
    send(gateway, "GET /api/a", &["authorization: Bearer of-the-client".to_owned()])
}

#[test]
fn a_token_is_fetched_once_for_all_calls() {
    let (issuer, shop) = (Issuer::start(token("first", 3600)), Issuer::start("{}"));
    let gateway = start("oauth2", &issuer, &shop);
    thread::scope(|scope| {
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(|| get(&gateway).status)).collect();
        for call in calls {
            assert_eq!(call.join().unwrap(), 200);
        }
    });
    assert_eq!((issuer.asked(), shop.asked()), (1, 16));
    let asked = issuer.last();
    assert!(asked.starts_with("POST /token HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Basic Z2F0ZXdheTpjbDFlbnQtczNjcmV0"), "{asked}");
    assert!(asked.ends_with("grant_type=client_credentials&scope=read%20write&audience=shop"), "{asked}");
    assert!(shop.last().contains("authorization: Bearer first\r\n"), "{}", shop.last());
    assert!(!shop.last().contains("of-the-client"), "{}", shop.last());
}

#[test]
fn a_token_that_expires_is_renewed() {
    let (issuer, shop) = (Issuer::start(token("first", 2)), Issuer::start("{}"));
    let gateway = start("expires", &issuer, &shop);
    assert_eq!(get(&gateway).status, 200);
    issuer.answers(200, token("second", 3600));
    crate::authentication::scene::until(|| {
        get(&gateway).status == 200 && shop.last().contains("authorization: Bearer second")
    });
    assert_eq!(issuer.asked(), 2);
}

#[test]
fn a_401_of_the_upstream_renews_the_token_once() {
    let (issuer, shop) = (Issuer::start(token("first", 3600)), Issuer::start("{}"));
    let gateway = start("renewed", &issuer, &shop);
    assert_eq!(get(&gateway).status, 200);
    // The upstream takes the next token alone.
    issuer.answers(200, token("second", 3600));
    shop.needs("Bearer second");
    assert_eq!(get(&gateway).status, 200);
    assert_eq!((issuer.asked(), shop.asked()), (2, 3));
    // Where a new one does not help, the client is told, and the issuer is not asked for each call.
    shop.needs("Bearer third");
    for _ in 0..5 {
        assert_eq!(get(&gateway).status, 401);
    }
    assert_eq!(issuer.asked(), 3);
    // A body that is at hand no more is not sent twice.
    let body = ["content-length: 4".to_owned(), "\r\nbody".to_owned()];
    assert_eq!(send(&gateway, "POST /api/a", &body).status, 401);
}

#[test]
fn without_a_token_no_call_is_made() {
    let (issuer, shop) = (Issuer::start(""), Issuer::start("{}"));
    let gateway = start("no-token", &issuer, &shop);
    for (answer, status, told) in [
        ((401, r#"{"error":"invalid_client"}"#), 502, "the token endpoint answered 401 (invalid_client)"),
        ((200, "{}"), 502, "the token endpoint's answer has none"),
        ((503, ""), 503, "the token endpoint answered 503"),
        ((0, ""), 503, "the token endpoint gives no answer"),
    ] {
        issuer.answers(answer.0, answer.1);
        crate::authentication::scene::until(|| get(&gateway).body.contains(told));
        let answer = get(&gateway);
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body.contains(r#""upstream":"shop""#) && !answer.body.contains("127.0.0.1"), "{}", answer.body);
    }
    assert_eq!(shop.asked(), 0);
    issuer.answers(200, token("first", 3600));
    crate::authentication::scene::until(|| get(&gateway).status == 200);
}
