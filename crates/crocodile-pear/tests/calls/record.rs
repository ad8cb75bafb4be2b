//! A request's record of its calls, over real sockets.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::cache::Store;
use crocodile_pear::unstable::config::carried_state::Carry;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Json, Node};
use crocodile_pear::unstable::error::Kind;
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::pipeline::plan::Plan;
use crocodile_pear::unstable::pipeline::step::{ByName, Known, KnownRoute};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::telemetry::request_record::{CacheResult, CallNote, CallRecord, CallingStep, Record};
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamCall, UpstreamEnvironment, UpstreamSpec};
use crocodile_pear_peers::absent::nobody;
use crocodile_pear_peers::asked::Asked;
use crocodile_pear_peers::served::Served;
use http::{HeaderMap, Method, StatusCode};
use indexmap::IndexMap;
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// The answer of a server.
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
const FRESH: &str = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 5\r\n\r\nfresh";
const SORRY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 5\r\n\r\nsorry";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nbegin";

/// A server that gives every request this answer; its address.
fn server(answer: &'static str) -> String {
    Served::begin(move |stream| serve(stream, answer)).stay().to_string()
}

async fn serve(stream: TcpStream, answer: &str) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        Asked::receive(&mut stream).await.ok()??;
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

fn upstream(name: &str, written: Json) -> Arc<ReadyUpstream> {
    let mut problems = Problems::default();
    let files = |_: &_| Err("no files".to_owned());
    let given = UpstreamEnvironment {
        files: &files,
        resolver: None,
        cache: Some(Arc::new(Store::new(1 << 20))),
        carry: Carry::default(),
    };
    let spec = UpstreamSpec::decode(&Node::from_json(&written), &mut problems).unwrap();
    spec.compile(name, Span::default(), &given, &mut problems).unwrap()
}

fn recorded() -> (Arc<Scope>, Arc<Record>) {
    let mut scope = Scope::new(Method::GET, Some("/".parse().unwrap()), HeaderMap::new(), AnswerBody::empty());
    scope.keep_record();
    let record = scope.record().unwrap().clone();
    (Arc::new(scope), record)
}

/// Runs a pipeline to the end of its answer.
async fn run(pipeline: Json, upstreams: &IndexMap<String, Arc<ReadyUpstream>>, scope: &Arc<Scope>) -> Answer {
    let mut problems = Problems::default();
    let written = Vec::decode(&Node::from_json(&pipeline), &mut problems).unwrap();
    let route = KnownRoute { method: Some(&Method::GET), ..KnownRoute::default() };
    let known = Known { upstreams: ByName::new(upstreams, &[]), route, ..Known::default() };
    let plan = Plan::compile(written, known, Span::default(), &mut problems);
    let plan = plan.unwrap_or_else(|| panic!("{problems:?}"));
    let answer = plan.answer(scope).await.unwrap().unwrap();
    let (status, headers) = (answer.status, answer.headers);
    Answer::new(status, headers, AnswerBody::Bytes(answer.body.collect(1 << 20).await.unwrap()))
}

/// Calls an upstream without a pipeline.
fn call(record: &Arc<Record>, target: &str) -> UpstreamCall {
    let step = Arc::new(CallingStep { index: 0, name: "request".into(), hidden: Default::default() });
    UpstreamCall { note: Some(CallNote::new(record, &step)), ..UpstreamCall::get(target.to_owned()) }
}

fn in_order(call: &CallRecord) -> bool {
    let moments = [Some(call.began), call.connected, call.head, call.ended];
    moments.iter().all(Option::is_some) && moments.is_sorted()
}

#[tokio::test]
async fn each_call_of_a_merge_is_there_with_its_server_and_its_moments() {
    let (mut upstreams, mut servers) = (IndexMap::new(), Vec::new());
    for name in ["users", "orders", "stock"] {
        let address = server(JSON);
        upstreams.insert(name.to_owned(), upstream(name, json!(format!("http://{address}/base"))));
        servers.push(format!("{address}/base"));
    }
    let requests = json!({"user": "users /1", "order": "orders /2", "stock": "stock /3"});
    let (scope, record) = recorded();
    run(json!([{"requests": requests}, {"merge": "{user: $user, order: $order, stock: $stock}"}]), &upstreams, &scope)
        .await;
    let mut calls = record.calls();
    calls.sort_by(|one, other| one.target.cmp(&other.target));
    assert_eq!((calls.len(), record.number()), (3, 3));
    for (at, call) in calls.iter().enumerate() {
        assert_eq!(call.server.as_deref(), Some(&*servers[at]));
        assert!(in_order(call), "{call:?}");
        assert_eq!((call.status, call.bytes, call.attempt), (Some(StatusCode::OK), 7, 1));
        assert_eq!((call.step.index, call.reused, call.dropped, call.error), (0, false, false, None));
        assert!(call.opening.as_ref().is_some_and(|opening| opening.tls.is_zero()));
    }
    let names: Vec<&str> = calls.iter().map(|call| &*call.step.name).collect();
    assert_eq!(names, ["requests.user", "requests.order", "requests.stock"]);
    assert_eq!(calls.iter().map(|call| &*call.upstream).collect::<Vec<_>>(), ["users", "orders", "stock"]);
    let slowest = record.summary().slowest.unwrap();
    assert_eq!(Some(slowest.time), calls.iter().filter_map(CallRecord::time).max());
    // The connections are kept.
    let (scope, record) = recorded();
    run(json!([{"request": "users /1"}]), &upstreams, &scope).await;
    assert!(record.calls()[0].reused && record.calls()[0].opening.is_none());
}

#[tokio::test]
async fn a_retry_is_a_call_of_its_own() {
    let (bad, good) = (server(SORRY), server(JSON));
    let written =
        json!({"servers": [format!("http://{bad}"), format!("http://{good}")], "balance": {"by": "round_robin"}});
    let shop = upstream("shop", written);
    let mut calls = Vec::new();
    // In turn, one of two calls begins at the bad server.
    while calls.len() < 2 {
        let (_, record) = recorded();
        drop(shop.call(call(&record, "/items")).await.unwrap());
        calls = record.calls();
    }
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(calls.iter().map(|call| call.server.as_deref()).collect::<Vec<_>>(), [Some(&*bad), Some(&*good)]);
    assert_eq!(calls.iter().map(|call| call.status.unwrap().as_u16()).collect::<Vec<_>>(), [503, 200]);
    assert!(calls.iter().all(in_order));
    assert!(calls[0].ended <= Some(calls[1].began));
}

#[tokio::test]
async fn a_call_that_nobody_wants_to_its_end_is_dropped() {
    let shop = upstream("shop", json!(format!("http://{}", server(ENDLESS))));
    let (_, record) = recorded();
    let answer = shop.call(call(&record, "/film")).await.unwrap();
    let before = record.calls().remove(0);
    assert_eq!((before.status, before.ended, before.dropped), (Some(StatusCode::OK), None, false));
    assert!(before.head.is_some());
    drop(answer);
    let after = record.calls().remove(0);
    assert!(after.dropped && in_order(&after) && after.error.is_none());
    assert!(after.bytes <= 5);
}

#[tokio::test]
async fn what_the_cache_of_an_upstream_answers_is_a_call_without_a_server() {
    let shop = upstream("shop", json!({"url": format!("http://{}", server(FRESH)), "cache": "on"}));
    let upstreams = IndexMap::from([("shop".to_owned(), shop)]);
    let mut calls = Vec::new();
    for _ in 0..2 {
        let (scope, record) = recorded();
        run(json!([{"request": "shop /items"}]), &upstreams, &scope).await;
        calls.extend(record.calls());
    }
    let results = calls.iter().map(|call| (call.cache, call.server.is_some(), call.bytes)).collect::<Vec<_>>();
    assert_eq!(results, [(Some(CacheResult::Miss), true, 5), (Some(CacheResult::Hit), false, 5)]);
    assert!(calls.iter().all(|call| call.ended.is_some() && call.status == Some(StatusCode::OK)));
}

#[tokio::test]
async fn a_call_without_an_answer_says_why() {
    let (_held, closed) = nobody().unwrap();
    let shop = upstream("shop", json!(format!("http://{closed}")));
    let (_, record) = recorded();
    assert!(shop.call(call(&record, "/items")).await.is_err());
    let call = record.calls().remove(0);
    assert_eq!((call.error, call.connected, call.head, call.dropped), (Some(Kind::Unreachable), None, None, false));
    assert!(call.ended.unwrap() >= call.began);
}

#[tokio::test]
async fn of_eleven_hundred_calls_all_are_counted() {
    let shop = upstream("shop", json!(format!("http://{}", server(JSON))));
    let (scope, record) = recorded();
    let upstreams = IndexMap::from([("shop".to_owned(), shop)]);
    let pipeline = json!([
        {"request": {"to": "shop", "path": "/{.}", "for_each": "range(1100)", "limit": 2000, "concurrency": 8}},
        {"concatenate": {"as": "json"}},
    ]);
    run(pipeline, &upstreams, &scope).await;
    assert_eq!((record.number(), record.calls().len()), (1_100, 1_024));
    assert!(record.calls().iter().all(|call| in_order(call) && &*call.step.name == "request"));
}

#[tokio::test]
async fn an_answer_that_takes_long_is_the_slowest() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let slow = upstream("slow", json!(format!("http://{}", listener.local_addr().unwrap())));
    let fast = upstream("fast", json!(format!("http://{}", server(JSON))));
    let (_, record) = recorded();
    let begun = Instant::now();
    let calling = tokio::spawn(slow.call(call(&record, "/")));
    let (stream, _) = listener.accept().await.unwrap();
    drop(fast.call(call(&record, "/")).await.unwrap());
    tokio::spawn(serve(stream, JSON));
    drop(calling.await.unwrap().unwrap());
    let slowest = record.summary().slowest.unwrap();
    assert_eq!(&*slowest.upstream, "slow");
    assert!(slowest.time > Duration::ZERO && slowest.time <= begun.elapsed());
}
