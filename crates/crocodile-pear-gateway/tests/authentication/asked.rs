//! Tokens that their issuer is asked about.

use std::io::{BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use crate::authentication::issuer::Issuer;
use crate::authentication::scene::{bearer, gateway};
use crate::authentication::tokens::now;
use crate::stage::accept::Accepting;
use crate::stage::asked::Asked;
use crate::stage::gateway::Gateway;
use crate::stage::shop::{Gate, answer};

fn config(issuer: &Issuer, more: &str) -> String {
    let url = format!("http://{}/introspect", issuer.address);
    format!(
        "authenticate:
  - introspection: {{ url: '{url}', client_id: 'gate way', client_secret: 's3cret:%', timeout: 2s{more} }}
endpoints:
  GET /who: {{ pipeline: [respond: {{ body: '$claims.sub' }}] }}
"
    )
}

fn active(exp: i64) -> String {
    json!({ "active": true, "sub": "ada", "exp": exp }).to_string()
}

#[test]
fn the_issuer_is_asked_once_for_a_token() {
    let issuer = Issuer::start(active(now() + 3600));
    let gateway = gateway("introspection", &config(&issuer, ""));
    thread::scope(|scope| {
        let ask = || bearer(&gateway, "GET /who", "opaque-1").status;
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for answer in asked {
            assert_eq!(answer.join().unwrap(), 200);
        }
    });
    assert_eq!(issuer.asked(), 1);
    let asked = issuer.last();
    assert!(asked.starts_with("POST /introspect HTTP/1.1\r\n"), "{asked}");
    // `gate%20way:s3cret%3A%25`
    assert!(asked.contains("authorization: Basic Z2F0ZSUyMHdheTpzM2NyZXQlM0ElMjU="), "{asked}");
    assert!(asked.ends_with("token=opaque-1&token_type_hint=access_token"), "{asked}");
    assert_eq!(bearer(&gateway, "GET /who", "opaque-1").body, "\"ada\"");
    assert_eq!(bearer(&gateway, "GET /who", "opaque-2").status, 200);
    assert_eq!(issuer.asked(), 2);
}

#[test]
fn a_refusal_is_remembered_too() {
    let issuer = Issuer::start(r#"{"active":false}"#);
    let gateway = gateway("refused", &config(&issuer, ""));
    for _ in 0..5 {
        let answer = bearer(&gateway, "GET /who", "opaque");
        assert_eq!(answer.status, 401);
        assert!(answer.head.contains("error=\"invalid_token\""), "{}", answer.head);
    }
    assert_eq!(issuer.asked(), 1);
    // What is no token is not asked about.
    for token in ["", "a b", "a\u{e9}", "{}", "a,b"] {
        assert_eq!(bearer(&gateway, "GET /who", token).status, 401, "{token}");
    }
    assert_eq!(issuer.asked(), 1);
    // The issuer calls it active, and it is not.
    issuer.answers(200, active(now() - 1));
    assert_eq!(bearer(&gateway, "GET /who", "expired").status, 401);
}

#[test]
fn an_answer_holds_no_longer_than_its_token() {
    let issuer = Issuer::start(active(now() + 2));
    let gateway = gateway("short", &config(&issuer, ""));
    assert_eq!(bearer(&gateway, "GET /who", "short").status, 200);
    issuer.answers(200, r#"{"active":false}"#);
    crate::authentication::scene::until(|| bearer(&gateway, "GET /who", "short").status == 401);
    assert_eq!(issuer.asked(), 2);
}

#[test]
fn an_issuer_that_gives_no_answer_lets_nobody_in() {
    let issuer = Issuer::start("");
    let gateway = gateway("away", &config(&issuer, ""));
    for (number, (status, body)) in
        [(0, ""), (500, ""), (401, r#"{"active":true}"#), (200, "ok"), (200, "{}"), (200, r#"{"active":"true"}"#)]
            .iter()
            .enumerate()
    {
        issuer.answers(*status, *body);
        let answer = bearer(&gateway, "GET /who", &format!("token-{number}"));
        assert_eq!(answer.status, 503, "{status} {body}");
        assert!(
            answer.body.contains("its issuer gives no answer") && answer.head.contains("retry-after"),
            "{answer:?}"
        );
    }
    gateway.logged("*WARN*cannot check a token*requests are answered with 503*").unwrap();
    issuer.answers(200, active(now() + 60));
    crate::authentication::scene::until(|| bearer(&gateway, "GET /who", "token-0").status == 200);
}

#[test]
fn a_token_for_another_audience_is_refused() {
    let issuer = Issuer::start("");
    let gateway = gateway("audience", &config(&issuer, ", audience: [shop, api]"));
    let of = |aud: serde_json::Value| json!({ "active": true, "sub": "ada", "aud": aud }).to_string();
    let tokens = [
        (json!("shop"), 200),
        (json!(["mail", "api"]), 200),
        (json!("mail"), 401),
        (json!(["mail"]), 401),
        (json!([]), 401),
        (json!(null), 401),
        (json!("sho"), 401),
        (json!("shop api"), 401),
        (json!("any"), 401),
        (json!({ "shop": true }), 401),
        (json!([["shop"]]), 401),
    ];
    for (at, (aud, status)) in tokens.into_iter().enumerate() {
        issuer.answers(200, of(aud.clone()));
        assert_eq!(bearer(&gateway, "GET /who", &format!("token-{at}")).status, status, "{aud}");
    }
    issuer.answers(200, json!({ "active": true, "sub": "ada" }).to_string());
    assert_eq!(bearer(&gateway, "GET /who", "without").status, 401);
}

/// A gateway that asks this issuer.
fn asking(name: &str, issuer: &Accepting, timeout: &str) -> Gateway {
    let url = format!("http://{}/introspect", issuer.address);
    gateway(
        name,
        &format!(
            "threads: 1\n\
             authenticate: [ {{ introspection: {{ url: '{url}', client_id: a, client_secret: b, timeout: {timeout} }} }} ]\n\
             endpoints:\n  GET /who: {{ pipeline: [respond: {{ body: '$claims.sub' }}] }}\n"
        ),
    )
}

#[test]
fn a_flood_of_new_tokens_waits_here_and_not_at_the_issuer() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gate, now_open, most_open) = (Gate::default(), open.clone(), most.clone());
    let waits = gate.clone();
    let issuer = Accepting::begin(move |stream| {
        most_open.fetch_max(now_open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let mut stream = BufReader::new(stream);
        while Asked::read(&mut stream)?.is_some() {
            waits.wait();
            let body = active(now() + 60);
            stream.get_mut().write_all(&answer(200, "content-type: application/json\r\n", &body))?;
        }
        Ok(())
    });
    let gateway = asking("flood", &issuer, "60s");
    thread::scope(|scope| {
        let gateway = &gateway;
        let ask = |number: usize| move || bearer(gateway, "GET /who", &format!("token-{number}")).status;
        let asked: Vec<_> = (0..200).map(|number| scope.spawn(ask(number))).collect();
        crate::authentication::scene::until(|| open.load(Ordering::SeqCst) >= 64);
        gate.open();
        asked.into_iter().for_each(|answer| assert_eq!(answer.join().unwrap(), 200));
    });
    // Some more than 64: the issuer notices late that one was closed.
    assert!(most.load(Ordering::SeqCst) < 100, "{most:?}");
}

#[test]
fn an_issuer_that_hangs_is_left_alone_after_some_tokens() {
    // It reads what it is sent, and says nothing.
    let issuer = Accepting::begin(|mut stream| std::io::copy(&mut stream, &mut std::io::sink()).map(drop));
    let gateway = asking("hangs", &issuer, "100ms");
    for number in 0..5 {
        assert_eq!(bearer(&gateway, "GET /who", &format!("token-{number}")).status, 503);
    }
    // The next ones are answered without it, but for a probe each five seconds.
    let reached = issuer.connections();
    for number in 5..100 {
        assert_eq!(bearer(&gateway, "GET /who", &format!("token-{number}")).status, 503);
    }
    assert!(issuer.connections() <= reached + 5, "{reached}, {}", issuer.connections());
}
