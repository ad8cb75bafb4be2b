//! The promises of the library to its users.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crocodile_pear::steps::Concatenate;
use crocodile_pear::{Body, Client, Error, Kind, Parts, Request, Upstream, jq};
use crocodile_pear_peers::shop::{Gate, Shop, answer};
use futures_util::{FutureExt, StreamExt, TryStreamExt, poll, stream};
use http::Method;
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";

fn shop(status: u16, body: &'static str) -> (Shop, String) {
    let shop = Shop::open(move |_, out| out.write_all(&answer(status, JSON, body)));
    let url = format!("http://{}/", shop.address);
    (shop, url)
}

/// Rows in any order: numbers first, then the kinds of those that failed.
fn kinds(rows: &Value) -> Vec<&Value> {
    let rows = rows.as_array().unwrap();
    let failed = rows.iter().filter_map(|row| row.get("kind"));
    rows.iter().filter(|row| row.is_number()).chain(failed).collect()
}

#[tokio::test]
async fn a_status_is_kept_where_the_body_cannot_be_read() {
    for status in [401, 302, 500] {
        let (_shop, url) = shop(status, "<html>");
        let all = Client::new().request([url.as_str()]).concatenate_json(Parts::All).into_response().await;
        let items: Value = all.into_body().json().await.unwrap();
        assert_eq!(items[0]["body"]["upstream_status"], status, "{items}");
        let error = Client::new().get(url.as_str()).as_json::<Value>().await.unwrap_err();
        assert_eq!(error.upstream_status().map(|status| status.as_u16()), Some(status));
        // A pipeline of one call hands the answer on as it is.
        let response = Client::new().request([url]).try_into_response().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
    }
}

#[tokio::test]
async fn an_error_of_a_closure_is_never_a_row() {
    let (_shop, url) = shop(200, "[1, 2]");
    let odd = |n: u64| if n % 2 == 1 { Err("odd") } else { Ok(n) };
    let rows = Client::new().request([url]).each(jq(".[]").unwrap()).map(odd);
    let rows: Value = rows.concatenate_json(Parts::BodyOnly).into_response().await.into_body().json().await.unwrap();
    assert_eq!(kinds(&rows), [&json!(2), &json!("closure")]);
}

#[tokio::test]
async fn a_panic_of_a_closure_is_one_failed_item_however_large_the_document() {
    for size in [1, 1 << 20] {
        let large: &'static str =
            format!(r#"[{{"n": 1, "text": "{0}"}}, {{"n": 2, "text": "{0}"}}]"#, "x".repeat(size)).leak();
        let (_shop, url) = shop(200, large);
        let panics = |item: Value| {
            assert_ne!(item["n"], 1);
            2
        };
        let pipeline = || Client::new().request([url.as_str()]).each(jq(".[]").unwrap());
        let rows = pipeline().map(panics).concatenate_json(Parts::BodyOnly).into_response().await;
        let rows: Value = rows.into_body().json().await.unwrap();
        assert_eq!(kinds(&rows), [&json!(2), &json!("panic")]);
        let whole = pipeline().transform(|answer| {
            assert!(!answer.body.starts_with(b"{\"n\": 1"));
            Ok(answer.with_json(&json!(2)))
        });
        let rows: Value =
            whole.concatenate_json(Parts::BodyOnly).into_response().await.into_body().json().await.unwrap();
        assert_eq!(kinds(&rows), [&json!(2), &json!("panic")]);
    }
}

#[tokio::test]
async fn the_settings_of_an_upstream_hold_for_calls_from_rust() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let shop = Shop::open(move |asked, out| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => out.write_all(&answer(503, "", "")),
        _ => out.write_all(&answer(200, "", asked.field("x-key"))),
    });
    let headers = json!({"x-key": "of the upstream"});
    let upstream = Upstream::at(&format!("http://{}/base", shop.address)).retry(2).set("headers", headers);
    let client = Client::builder().upstream("shop", upstream).build().unwrap();
    let url = format!("http://{}/base/orders", shop.address);
    assert_eq!(client.get(url.as_str()).text().await.unwrap(), "of the upstream");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let response = client.request([url]).into_response().await;
    assert_eq!(response.into_body().text().await.unwrap(), "of the upstream");
}

#[tokio::test]
async fn a_cache_keeps_answers_for_yaml_and_rust() {
    let shop = Shop::open(|_, out| out.write_all(&answer(200, "cache-control: max-age=60\r\n", "kept")));
    let url = format!("http://{}", shop.address);
    let client = Client::builder().upstream("shop", Upstream::at(&url).cache()).build().unwrap();
    for _ in 0..3 {
        assert_eq!(client.get(format!("{url}/a")).text().await.unwrap(), "kept");
    }
    assert_eq!(shop.calls(), 1);
    let text = format!("upstreams: {{ kept: {{ url: '{url}', cache: on }} }}\npipeline: [ {{ request: kept /b }} ]");
    let prepared = Client::new().read(&text).unwrap();
    for _ in 0..3 {
        let response = prepared.answer(http::Request::new(Body::empty()), &[]).await;
        assert_eq!(response.into_body().text().await.unwrap(), "kept");
    }
    assert_eq!(shop.calls(), 2);
}

#[test]
fn a_check_refuses_what_cannot_run() {
    let client = Client::new();
    let wrong = client.request(["not a uri"]).check().unwrap_err().to_string();
    assert!(wrong.contains("`not a uri` is not the URL of a call"), "{wrong}");
    let turned = client.request(["http://127.0.0.1:1/"]).step(Concatenate::json()).each(jq(".[]").unwrap());
    let wrong = turned.check().unwrap_err().to_string();
    assert!(wrong.contains("move it behind `each`"), "{wrong}");
    client.upstream("shop", "http://127.0.0.1:1/").unwrap();
    let wrong = client.upstream("shop", "http://127.0.0.1:2/").unwrap_err().to_string();
    assert!(wrong.contains("two upstreams with the name `shop`"), "{wrong}");
    let wrong = client.read("upstreams: { shop: 'http://127.0.0.1:2' }\npipeline: [{ request: shop / }]").unwrap_err();
    assert!(wrong.to_string().contains("has an upstream with the name `shop`"), "{wrong}");
    let wrong = Client::builder().upstream("a", Upstream::at("nowhere").set("retries", json!(2))).build().unwrap_err();
    assert!(wrong.detail().contains("upstream `a`") && wrong.kind() == Kind::InvalidCall, "{wrong}");
}

#[tokio::test]
async fn a_url_without_a_scheme_is_the_programs_fault_and_is_named() {
    let error = Client::new().get("127.0.0.1:9000/orders").text().await.unwrap_err();
    assert_eq!((error.kind(), error.status().as_u16()), (Kind::InvalidCall, 500));
    let response = Client::new().request(["/orders", "http://127.0.0.1:1/"]).concatenate_json(Parts::BodyOnly);
    let items: Value = response.into_response().await.into_body().json().await.unwrap();
    let mut kinds: Vec<&str> = items.as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["invalid-call", "unreachable"], "one wrong URL is one failed item: {items}");
}

#[test]
fn a_text_reads_the_environment_only_if_the_program_says_so() {
    let client = Client::new();
    client.upstream("shop", "http://127.0.0.1:1/").unwrap();
    let text = "[{ request: 'shop /${HOME}' }]";
    assert!(client.read(text).unwrap_err().to_string().contains("HOME"));
    client.read_with(text, |name| (name == "HOME").then(|| "home".to_owned())).unwrap();
}

#[tokio::test]
async fn nothing_is_called_before_it_is_polled_and_dropping_it_cancels() {
    let gate = Gate::default();
    let held = gate.clone();
    let shop = Shop::open(move |_, out| {
        held.wait();
        out.write_all(&answer(200, JSON, "1"))
    });
    let (client, url) = (Client::new(), format!("http://{}/", shop.address));
    let (c, u) = (client.clone(), url.clone());
    let items = client.items(0..100).call(3, move |_| c.get(u.as_str()).as_json::<u8>());
    let one = client.get(url.as_str()).as_json::<u8>();
    assert_eq!(shop.connections(), 0);
    let mut stream = items.into_stream();
    assert!(poll!(stream.next()).is_pending());
    while shop.calls() < 3 {
        tokio::task::yield_now().await;
        let _ = poll!(stream.next());
    }
    drop((stream, one));
    gate.open();
    assert_eq!((shop.calls(), shop.connections()), (3, 3));
}

#[tokio::test]
async fn values_and_streams_of_the_program_are_bounded_like_calls() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (running.clone(), most.clone());
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = asked.clone();
    let numbers = stream::iter(0..50).inspect(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
    });
    let items = Client::new().stream(numbers.map(Ok::<_, Error>)).then(4, move |n| {
        let (counted, highest) = (counted.clone(), highest.clone());
        async move {
            highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            counted.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Error>(n)
        }
    });
    let mut stream = items.ordered().into_stream();
    assert_eq!(stream.try_next().await.unwrap(), Some(0));
    assert!(asked.load(Ordering::SeqCst) <= 6, "{asked:?}");
    let rest: Vec<i32> = stream.try_collect().await.unwrap();
    assert_eq!((rest.len(), most.load(Ordering::SeqCst)), (49, 4));
}

#[tokio::test]
async fn each_step_has_a_bound_of_its_own() {
    let widest = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let (now, most) = (running.clone(), widest.clone());
    let items = Client::new().items(0..40).then(8, move |n| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Error>(n)
        }
    });
    // The next step takes one at a time.
    let all: Vec<i32> = items.then(1, async |n| Ok::<_, Error>(n)).try_collect().await.unwrap();
    assert_eq!((all.len(), widest.load(Ordering::SeqCst)), (40, 8));
}

#[tokio::test]
async fn a_list_that_fails_before_its_first_row_is_a_problem_and_one_that_fails_later_is_broken_off() {
    let client = Client::new();
    let fails = |at: i32| move |n: i32| if n == at { Err("no") } else { Ok(n) };
    let response = client.items(0..3).try_map(fails(0)).into_json().await;
    assert_eq!(response.status(), 500);
    let response = client.items(0..3).try_map(fails(2)).ordered().into_json().await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.into_body().bytes().await.unwrap_err().kind(), Kind::Closure);
    let skipped = client.items(0..3).try_map(fails(1)).recover(|_| None).ordered().into_ndjson().await;
    assert_eq!(skipped.into_body().text().await.unwrap(), "0\n2\n");
    let events = client.items(["a"]).into_events().await;
    assert_eq!(events.into_body().text().await.unwrap(), "data: \"a\"\n\n");
}

#[tokio::test]
async fn typed_and_untyped_steps_go_together() {
    let (_shop, url) = shop(200, r#"{"orders": [{"id": 1, "open": true}, {"id": 2}]}"#);
    #[derive(serde::Deserialize)]
    struct Order {
        id: u64,
    }
    let client = Client::new();
    let open = client.request([url.as_str()]).each(jq(".orders[] | select(.open)").unwrap());
    let ids: Vec<u64> = open.items::<Order>().map(|order| order.id).try_collect().await.unwrap();
    assert_eq!(ids, [1]);
    let back = client.items(ids).into_pipeline().map(jq("{id: .}").unwrap()).concatenate_json(Parts::BodyOnly);
    assert_eq!(back.into_response().await.into_body().text().await.unwrap(), r#"[{"id":1}]"#);
    let each: Vec<u64> = client
        .get(url.as_str())
        .as_json::<Value>()
        .each(|value| value["orders"].as_array().cloned().unwrap_or_default())
        .filter_map(|order| order["id"].as_u64())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(each, [1, 2]);
}

#[tokio::test]
async fn other_formats_than_json_are_read_by_their_content_type() {
    let shop = Shop::open(|asked, out| match asked.target.as_str() {
        "/csv" => out.write_all(&answer(200, "content-type: text/csv\r\n", "id,name\n1,a\n2,b\n")),
        _ => out.write_all(&answer(200, "content-type: application/xml\r\n", "<user><name>a</name></user>")),
    });
    #[derive(serde::Deserialize)]
    struct Row {
        name: String,
    }
    let (client, url) = (Client::new(), format!("http://{}", shop.address));
    let rows: Vec<Row> = client.get(format!("{url}/csv")).list(".[]").try_collect().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let user: Value = client.get(format!("{url}/xml")).as_json().await.unwrap();
    assert_eq!(user["user"]["name"], "a");
}

#[tokio::test]
async fn requests_of_other_crates_are_sent_as_they_are() {
    let shop = Shop::open(|asked, out| {
        let told = format!("{} {} {}", asked.call(), asked.field("x-a"), String::from_utf8_lossy(&asked.body));
        out.write_all(&answer(200, "", told))
    });
    let url = format!("http://{}/put", shop.address);
    let request = || http::Request::put(url.as_str()).header("x-a", "b").body("body").unwrap();
    let client = Client::new();
    assert_eq!(client.send(request()).text().await.unwrap(), "PUT /put b body");
    let untyped = client.request([Request::from(request())]).into_response().await;
    assert_eq!(untyped.into_body().text().await.unwrap(), "PUT /put b body");
    let posted = client.call(Method::POST, url.as_str()).json(&[1]).query("a b", "ä").text().await.unwrap();
    assert_eq!(posted, "POST /put?a%20b=%C3%A4  [1]");
}

#[tokio::test]
async fn what_comes_before_a_call_may_change_it_but_not_its_server() {
    let shop = Shop::open(|asked, out| out.write_all(&answer(200, "", asked.call() + asked.field("x-signed"))));
    let url = format!("http://{}", shop.address);
    let client = Client::builder().before(async |mut request| {
        let moved = request.uri().to_string().replace("/a", "/b");
        *request.uri_mut() = moved.parse().map_err(Error::of_program)?;
        request.headers_mut().insert("x-signed", http::HeaderValue::from_static("yes"));
        Ok(request)
    });
    let client = client.build().unwrap();
    assert_eq!(client.get(format!("{url}/a")).text().await.unwrap(), "GET /byes");
    client.upstream("shop", &url).unwrap();
    let prepared = client.read("[{ request: shop /a }]").unwrap();
    let response = prepared.answer(http::Request::new(Body::empty()), &[]).await;
    assert_eq!(response.into_body().text().await.unwrap(), "GET /byes", "YAML too");
    let elsewhere = Client::builder().before(async |mut request| {
        *request.uri_mut() = "http://127.0.0.1:1/".parse().map_err(Error::of_program)?;
        Ok(request)
    });
    let error = elsewhere.build().unwrap().get(url).text().await.unwrap_err();
    assert_eq!((error.kind(), error.step()), (Kind::InvalidCall, Some("before")));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_late_has_its_own_limit() {
    let client = Client::new();
    let late = crocodile_pear::One::from_future(async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok::<_, Error>(1)
    });
    let (fallback, quick) =
        client.join((late.within(Duration::from_secs(1)).otherwise(7), crocodile_pear::One::of(2))).await.unwrap();
    assert_eq!((fallback, quick), (7, 2));
    let all = client.join((0..3).map(crocodile_pear::One::of).collect::<Vec<_>>());
    assert_eq!(all.value().now_or_never().unwrap().unwrap(), [0, 1, 2]);
}

/// The fields of all spans of calls.
#[derive(Clone, Default)]
struct Spans(Arc<std::sync::Mutex<std::collections::BTreeMap<String, String>>>);

impl tracing::field::Visit for Spans {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "crocodile_pear::call"
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_call_is_a_span_with_the_fields_of_opentelemetry() {
    let (shop, url) = shop(500, "no");
    let spans = Spans::default();
    // While there is but one subscriber, `tracing` asks that of the thread where a span is first met: that may be another test's.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let seen = tracing::subscriber::set_default(spans.clone());
    let answer = Client::new().get(url.as_str()).name("broken").whole().await.unwrap();
    drop(seen);
    assert_eq!(answer.status(), 500);
    let port = shop.address.port().to_string();
    let fields = spans.0.lock().unwrap().clone();
    for (name, value) in [
        ("otel.kind", "client"),
        ("otel.name", "GET"),
        ("http.request.method", "GET"),
        ("url.full", url.as_str()),
        ("server.address", "127.0.0.1"),
        ("server.port", port.as_str()),
        ("http.response.status_code", "500"),
        ("http.response.body.size", "2"),
        ("error.type", "500"),
        ("call.name", "broken"),
    ] {
        assert_eq!(fields.get(name).map(String::as_str), Some(value), "{name} of {fields:?}");
    }
}
