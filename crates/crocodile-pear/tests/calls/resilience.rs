//! Upstreams that fail, over real sockets: what clients see of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use crocodile_pear::unstable::config::carried_state::Carry;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Json, Located, Node};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamCall, UpstreamEnvironment, UpstreamSpec};
use crocodile_pear_peers::absent::nobody;
use crocodile_pear_peers::moody::Server;
use futures_util::future::join_all;
use http::Method;
use serde_json::json;

/// An upstream as it would be written.
fn upstream(written: Json) -> Arc<ReadyUpstream> {
    let mut problems = Problems::default();
    let spec = UpstreamSpec::decode(&Node::from_json(&written), &mut problems);
    let none = |_: &Located<String>| Err("there are no files".to_owned());
    let upstream = spec.and_then(|spec| {
        let given = UpstreamEnvironment { files: &none, resolver: None, cache: None, carry: Carry::default() };
        spec.compile("shop", Span::default(), &given, &mut problems)
    });
    upstream.unwrap_or_else(|| panic!("{:?}", problems.into_sorted()))
}

async fn ask(upstream: &Arc<ReadyUpstream>, method: Method) -> Result<u16, Error> {
    let body = (method == Method::POST).then(|| AnswerBody::Bytes(Bytes::from_static(b"once")));
    let answer = upstream.call(UpstreamCall { method, body, ..UpstreamCall::get("/".to_owned()) }).await?;
    assert_eq!(answer.body.collect(100).await?, "ok");
    Ok(answer.status.as_u16())
}

/// So many requests, so many at a time; how many were not answered with 200.
async fn load(upstream: &Arc<ReadyUpstream>, requests: usize, at_once: usize) -> usize {
    let one = |share: usize| async move {
        let mut failed = 0;
        for _ in 0..share {
            failed += usize::from(!matches!(ask(upstream, Method::GET).await, Ok(200)));
        }
        failed
    };
    join_all((0..at_once).map(|_| one(requests / at_once))).await.iter().sum()
}

fn three(servers: &[Server; 3], more: Json) -> Arc<ReadyUpstream> {
    let mut written = json!({"urls": servers.each_ref().map(Server::url)});
    written.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    upstream(written)
}

fn servers() -> [Server; 3] {
    [Server::new(), Server::new(), Server::new()]
}

fn asked(servers: &[Server; 3]) -> [u64; 3] {
    servers.each_ref().map(|server| server.mood.asked())
}

#[tokio::test]
async fn a_server_that_closes_its_connections_is_never_noticed() {
    for closes in [1, 7, 1_000] {
        let server = Server::new();
        server.mood.closes.store(closes, Ordering::SeqCst);
        let upstream = upstream(json!({"url": server.url()}));
        assert_eq!(load(&upstream, 6_400, 16).await, 0, "{closes}");
        assert_eq!(server.mood.asked(), 6_400);
    }
}

#[tokio::test]
async fn a_post_arrives_at_most_once() {
    let server = Server::new();
    server.mood.closes.store(7, Ordering::SeqCst);
    let upstream = upstream(json!({"url": server.url(), "retry": {"attempts": 5, "on": ["connect", "reset", 503]}}));
    for _ in 0..1_000 {
        // Whether it arrived is known to nobody when a connection breaks: an error may be told, a second one not sent.
        let _ = ask(&upstream, Method::POST).await;
    }
    assert!(server.mood.asked() <= 1_000);
    server.mood.set(|mood| &mood.hangs_up, true);
    let before = server.mood.asked();
    assert_eq!(ask(&upstream, Method::POST).await.unwrap_err().kind(), Kind::Reset);
    assert_eq!(server.mood.asked(), before + 1);
}

#[tokio::test]
async fn a_get_that_broke_is_sent_again_as_often_as_is_written() {
    let server = Server::new();
    server.mood.set(|mood| &mood.hangs_up, true);
    let backoff = json!({"first": "1ms", "most": "1ms"});
    let upstream = upstream(json!({"url": server.url(), "retry": {"attempts": 3, "backoff": backoff}}));
    assert_eq!(ask(&upstream, Method::GET).await.unwrap_err().kind(), Kind::Reset);
    assert_eq!((server.mood.asked(), upstream.retries()), (3, (2, 0)));
}

#[tokio::test]
async fn what_failed_at_one_goes_to_another() {
    let servers = servers();
    servers[0].mood.set(|mood| &mood.fails, true);
    let upstream = three(&servers, json!({"retry": {"on": [500]}, "balance": "round_robin"}));
    assert_eq!(load(&upstream, 3_000, 10).await, 0);
    let [bad, good, other] = asked(&servers);
    assert!(bad < 30 && good > 1_300 && other > 1_300, "{bad} {good} {other}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_left_out_and_comes_back() {
    let servers = servers();
    // Bound, so that nobody else gets the port; not listening, so that it refuses.
    let (socket, address) = nobody().unwrap();
    let gone = format!("http://{address}");
    let urls = json!([servers[0].url(), servers[1].url(), gone]);
    let upstream = upstream(json!({"urls": urls, "balance": {"eject": {"first": "1ms", "most": "1ms"}}}));
    assert_eq!(load(&upstream, 3_000, 10).await, 0);
    let places: Vec<bool> = upstream.servers().map(|state| state.up).collect();
    assert_eq!(places, [true, true, false]);

    socket.listen(64).unwrap();
    let back = Server::of(socket.into());
    while upstream.servers().any(|state| !state.up) {
        assert_eq!(load(&upstream, 100, 10).await, 0);
    }
    assert_eq!(load(&upstream, 3_000, 10).await, 0);
    assert!(back.mood.asked() > 500, "{}", back.mood.asked());
}

#[tokio::test]
async fn a_server_that_stalls_holds_few_calls() {
    let servers = servers();
    servers[2].mood.set(|mood| &mood.mute, true);
    let more = json!({"timeout": {"first_byte": "100ms"}, "retry": {"on": ["timeout"]}});
    let upstream = three(&servers, more);
    assert_eq!(load(&upstream, 3_000, 10).await, 0);
    assert!(asked(&servers)[2] <= 30, "{:?}", asked(&servers));
}

#[tokio::test]
async fn an_open_breaker_answers_at_once_and_closes_when_probes_are_good() {
    let server = Server::new();
    server.mood.set(|mood| &mood.fails, true);
    let upstream = upstream(json!({"url": server.url(), "breaker": {"failures": 3, "open": "1ms", "probes": 2}}));
    for _ in 0..3 {
        assert_eq!(ask(&upstream, Method::GET).await.unwrap(), 500);
    }
    let state = upstream.servers().next().unwrap();
    assert!(state.open && state.opened == 1);
    // Its time is so short that a probe may be let through; it is one of those that fail.
    let refused = |outcome: Result<u16, Error>| outcome.is_err_and(|error| error.kind() == Kind::Busy);
    let mut refusals = 0;
    while refusals == 0 {
        refusals += u64::from(refused(ask(&upstream, Method::GET).await));
    }
    server.mood.set(|mood| &mood.fails, false);
    while upstream.servers().any(|state| state.open) {
        refusals += u64::from(refused(ask(&upstream, Method::GET).await));
    }
    assert_eq!(ask(&upstream, Method::GET).await.unwrap(), 200);
    assert_eq!(upstream.counters().refused, refusals);
}

#[tokio::test]
async fn a_server_whose_checks_fail_is_not_called() {
    let servers = servers();
    servers[1].mood.set(|mood| &mood.fails, true);
    let health = json!({"path": "/health", "interval": "1ms", "unhealthy": 2, "healthy": 2});
    let upstream = three(&servers, json!({"health": health}));
    let checks = tokio::spawn(upstream.watch().unwrap());
    let up = || upstream.servers().map(|state| state.up).collect::<Vec<_>>();
    while up() != [true, false, true] {
        tokio::task::yield_now().await;
    }
    servers[1].mood.set(|mood| &mood.fails, false);
    while up() != [true, true, true] {
        tokio::task::yield_now().await;
    }
    checks.abort();
}

#[tokio::test]
async fn the_budget_bounds_what_a_dead_upstream_is_asked() {
    let server = Server::new();
    server.mood.set(|mood| &mood.hangs_up, true);
    let backoff = json!({"first": "0s"});
    let upstream =
        upstream(json!({"url": server.url(), "retry": {"attempts": 10, "budget": "10%", "backoff": backoff}}));
    assert_eq!(load(&upstream, 2_000, 10).await, 2_000);
    let (sent, withheld) = upstream.retries();
    // A store of 100 at the beginning, and a tenth of the calls.
    assert_eq!((sent, server.mood.asked()), (300, 2_300));
    assert!(withheld > 0);
}

#[tokio::test]
async fn calls_in_flight_are_given_back_however_they_end() {
    let servers = servers();
    servers[0].mood.set(|mood| &mood.fails, true);
    servers[1].mood.set(|mood| &mood.hangs_up, true);
    let more = json!({"in_flight": 4, "retry": {"attempts": 3, "on": ["reset", 500]}, "balance": {"eject": "never"}});
    let upstream = three(&servers, more);
    assert_eq!(load(&upstream, 400, 8).await, upstream.retries().1 as usize);
    assert_eq!(upstream.counters().in_flight, 0);
}
