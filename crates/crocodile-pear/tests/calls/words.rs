//! The words of the library over scripted servers: closures where a configuration has expressions.

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use crocodile_pear::steps::{Each, Form, Plain, PlainFormat};
use crocodile_pear::{Client, Parts, Pipeline, Whole, jq, select};
use crocodile_pear_peers::served::Served;
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize, Serialize)]
struct Item {
    id: u64,
    kind: String,
    href: Option<String>,
}

type Json = ([(&'static str, &'static str); 1], String);

fn json_of(value: Value) -> Json {
    ([("content-type", "application/json")], value.to_string())
}

async fn list() -> Json {
    let item = |id: u64, kind: &str, href: Value| json!({"id": id, "kind": kind, "href": href, "surplus": "x"});
    let items = [item(1, "a", "/detail/1".into()), item(2, "b", Value::Null), item(3, "a", "http://127.0.0.9/".into())];
    json_of(json!({ "items": items }))
}

async fn detail(Path(id): Path<u64>) -> Json {
    json_of(json!({"id": id, "text": format!("detail {id}")}))
}

/// A document as Spring Data REST sends it.
async fn hal() -> Json {
    let order = |id: u64| json!({"id": id, "_links": {"self": {"href": format!("/orders/{id}")}}});
    json_of(json!({"_embedded": {"orders": [order(1), order(2)]}, "_links": {}}))
}

/// The root of a small API.
fn api() -> String {
    let router = Router::new().route("/list", get(list)).route("/detail/{id}", get(detail)).route("/hal", get(hal));
    format!("http://{}", Served::run(|listener| axum::serve(listener, router).into_future()).stay())
}

async fn answer(pipeline: Pipeline) -> (u16, String, String) {
    let answer = pipeline.into_response().await;
    let status = answer.status().as_u16();
    let media = answer.headers()["content-type"].to_str().unwrap().to_owned();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, media, String::from_utf8(body.to_vec()).unwrap())
}

async fn list_of(pipeline: Pipeline) -> Vec<Value> {
    let (status, media, body) = answer(pipeline.concatenate_json(Parts::BodyOnly)).await;
    assert_eq!((status, media.as_str()), (200, "application/json"));
    let mut items: Vec<Value> = serde_json::from_str(&body).unwrap();
    items.sort_by_key(Value::to_string);
    items
}

#[tokio::test]
async fn items_are_mapped_by_closures_and_by_jq() {
    let (client, api) = (Client::new(), api());
    let start = || client.request([format!("{api}/list")]);
    let closures = start().each(|list: List| list.items).map(|item: Item| json!([item.id, item.kind]));
    assert_eq!(list_of(closures).await, [json!([1, "a"]), json!([2, "b"]), json!([3, "a"])]);
    let expressions = start().each(jq(".items[]").unwrap()).map(jq("[.id, .kind]").unwrap());
    assert_eq!(list_of(expressions).await, [json!([1, "a"]), json!([2, "b"]), json!([3, "a"])]);
    let shapes = start().each(jq(".items[]").unwrap()).select(json!({"id": true, "of": ".kind"}));
    assert_eq!(list_of(shapes).await[1], json!({"id": 2, "of": "b"}));
}

#[tokio::test]
async fn a_shape_is_compiled_once_for_many_pipelines() {
    let (client, api) = (Client::new(), api());
    let short = select(json!({"id": true, "of": ".kind"})).unwrap();
    let begin = || client.request([format!("{api}/list")]);
    assert_eq!(
        list_of(begin().each(|list: List| list.items).select(short.clone())).await[1],
        json!({"id": 2, "of": "b"})
    );
    let lists = begin().map(|list: List| list.items).select(short.clone()).each(|items: Vec<Value>| items);
    assert_eq!(list_of(lists).await[2], json!({"id": 3, "of": "a"}));
    assert_eq!(select(json!({"a[]": true})).unwrap_err().problems().len(), 1);
    // Together with the object's own brackets it would be an expression.
    assert!(select(json!({"a": "1), b: (2"})).is_err());
    let unknown = select(json!({"a": "$nobody"})).unwrap();
    let told = client.request(["http://127.0.0.1:9/"]).select(unknown).check().unwrap_err();
    assert!(told.to_string().contains("no variable is named `$nobody` here"), "{told}");
}

/// Prints what a pipeline costs that is compiled for each request.
#[test]
#[ignore = "it measures"]
fn what_a_kept_shape_saves() {
    let client = Client::new();
    let shape = json!({"id": true, "title": ".name", "due": ".dueOn[:10]", "address": {"city": true}});
    let kept = select(shape.clone()).unwrap();
    let measure = |what: &str, add: &dyn Fn(Pipeline) -> Pipeline| {
        let start = std::time::Instant::now();
        (0..1000).for_each(|_| add(client.request(["http://127.0.0.1:9/"])).check().unwrap());
        println!("{what}: {:.1} us", start.elapsed().as_secs_f64() * 1e3);
    };
    measure("a request alone", &|pipeline| pipeline);
    measure("select of four fields, written", &|pipeline| pipeline.select(shape.clone()));
    measure("select of four fields, kept", &|pipeline| pipeline.select(kept.clone()));
}

#[tokio::test]
async fn one_item_of_a_key_is_kept() {
    let (client, api) = (Client::new(), api());
    let deduped = client.request([format!("{api}/list")]).each(|list: List| list.items).dedupe(|item: Item| item.kind);
    let kept = list_of(deduped.map(|item: Item| item.id)).await;
    assert_eq!(kept, [json!(1), json!(2)]);
}

#[tokio::test]
async fn links_are_followed_to_known_origins_alone() {
    let (client, api) = (Client::new(), api());
    let followed = client
        .request([format!("{api}/list")])
        .each(|list: List| list.items)
        .follow(|item: Item| item.href, "detail")
        .map(jq(".detail.text // .detail").unwrap());
    let items = list_of(followed).await;
    assert_eq!(items[0], json!("detail 1"));
    assert_eq!(items[1], Value::Null);
    // The third leads to a server that nobody named: it is refused before it is dialled.
    assert_eq!(items[2]["detail"], "a link in the answer leads to no configured upstream");
}

#[tokio::test]
async fn a_call_is_made_for_each_item() {
    let (client, api) = (Client::new(), api());
    let called = client
        .request([format!("{api}/list")])
        .step(Each::of(jq(".items[].id").unwrap()).limit(2))
        .request_each(move |id: u64| format!("{api}/detail/{id}"));
    let items = list_of(called).await;
    assert_eq!(items.len(), 3);
    assert_eq!((&items[0]["text"], &items[1]["text"]), (&json!("detail 1"), &json!("detail 2")));
    assert_eq!(items[2]["detail"], "the list has more than 2 items");
}

#[tokio::test]
async fn named_answers_are_merged() {
    #[derive(Deserialize)]
    struct Both {
        one: Value,
        two: Value,
    }
    let (client, api) = (Client::new(), api());
    let calls = || client.requests([("one", format!("{api}/detail/1")), ("two", format!("{api}/detail/2"))]);
    let by_closure = calls().merge(|both: Both| json!([both.two["text"], both.one["id"]]));
    assert_eq!(answer(by_closure).await.2, r#"["detail 2",1]"#);
    let by_jq = calls().merge(jq("[$two.text, .[0].id]").unwrap());
    assert_eq!(answer(by_jq).await.2, r#"["detail 2",1]"#);
    let unnamed = client.request([format!("{api}/detail/1"), format!("{api}/detail/2")]);
    assert_eq!(answer(unnamed.merge(|all: Vec<Value>| all.len())).await.2, "2");
}

#[tokio::test]
async fn lines_events_and_other_formats() {
    let (client, api) = (Client::new(), api());
    let ids = || client.request([format!("{api}/list")]).each(|list: List| list.items).map(|item: Item| item.id);
    let (_, media, lines) = answer(ids().concatenate_ndjson(Parts::BodyOnly)).await;
    assert_eq!((media.as_str(), lines.as_str()), ("application/x-ndjson", "1\n2\n3\n"));
    let (_, media, events) = answer(ids().concatenate_events(Parts::BodyOnly)).await;
    assert_eq!((media.as_str(), events.as_str()), ("text/event-stream", "data: 1\n\ndata: 2\n\ndata: 3\n\n"));
    let rows = client.request([format!("{api}/list")]).map(jq("[.items[] | {id, kind}]").unwrap()).convert(Form::Csv);
    assert_eq!(answer(rows).await.2, "id,kind\r\n1,a\r\n2,b\r\n3,a\r\n");
}

#[tokio::test]
async fn hypermedia_becomes_plain_json() {
    let (client, api) = (Client::new(), api());
    let orders = || client.request([format!("{api}/hal")]);
    let plain = answer(orders().plain(PlainFormat::Hal)).await;
    assert_eq!(plain, (200, "application/json".to_owned(), r#"{"orders":[{"id":1},{"id":2}]}"#.to_owned()));
    let linked = Plain::of(PlainFormat::Hal).links("links");
    let items = list_of(orders().each(jq("._embedded.orders[]").unwrap()).step(linked)).await;
    assert_eq!(items[1], json!({"id": 2, "links": {"self": "/orders/2"}}));
}

#[tokio::test]
async fn what_a_closure_cannot_take_is_a_failed_item() {
    let (client, api) = (Client::new(), api());
    let wrong = client.request([format!("{api}/list")]).each(|list: List| list.items).map(|text: String| text);
    let (status, _, body) = answer(wrong.concatenate_json(Parts::BodyOnly)).await;
    assert_eq!((status, body.matches("not what the closure takes").count()), (502, 3), "{body}");
    let whole = client.request([format!("{api}/detail/1")]).transform(|answer: Whole| {
        let text = answer.json()?["text"].clone();
        Ok(answer.with_json(&text))
    });
    assert_eq!(answer(whole).await.2, "\"detail 1\"");
}

#[tokio::test]
async fn what_cannot_run_is_told_before_it_runs() {
    let client = Client::new();
    let told = client.request(["http://127.0.0.1:9/"]).map(jq("$nobody").unwrap()).check().unwrap_err();
    assert_eq!(told.to_string(), "no variable is named `$nobody` here");
    let told = client.pipeline().sql("shop", "select 1", [jq("1").unwrap()]).check().unwrap_err();
    assert!(told.to_string().contains("`shop`"), "{told}");
    assert!(jq(".a[").is_err());
    let (status, _, body) = answer(client.request(["http://127.0.0.1:9/"]).map(jq("$nobody").unwrap())).await;
    assert_eq!(status, 500);
    assert!(!body.contains("nobody"), "{body}");
}
