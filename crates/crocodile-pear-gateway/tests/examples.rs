//! The library's examples, over the example upstreams.

#[path = "../../crocodile-pear/examples/dashboard.rs"]
mod dashboard;
#[path = "../../crocodile-pear/examples/inbox.rs"]
mod inbox;
#[path = "../../crocodile-pear/examples/weather.rs"]
mod weather;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crocodile_pear::Client;
use crocodile_pear_demo::{self as demo, Demo};
use crocodile_pear_stage::absent::nobody;
use crocodile_pear_stage::served::Served;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The address of the example upstreams.
fn upstreams() -> SocketAddr {
    Served::run(|listener| demo::upstreams(listener, Demo::default())).stay()
}

/// The endpoint's answer for these cities, percent-encoded.
async fn temperatures(cities: &str) -> Vec<Value> {
    let router = weather::router(format!("http://{}/weather", upstreams()));
    let front = Served::run(|listener| axum::serve(listener, router).into_future());
    let address = front.address;
    let uri = format!("http://{address}/temperatures?q={cities}");
    let answer = Client::new().request([uri]).into_response().await;
    assert_eq!(answer.headers()["content-type"], "application/json");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn several_cities_are_one_answer() {
    let list = temperatures("Lund,SE%7CCopenhagen,DK%7CNew%20York,US").await;
    assert_eq!(list.len(), 3);
    for city in [json!({"Lund": 279.32}), json!({"Copenhagen": 280.15}), json!({"New York": 282.9})] {
        assert!(list.contains(&city), "{city} is not in {list:?}");
    }
}

#[tokio::test]
async fn a_city_cannot_add_to_the_call() {
    let list = temperatures("Lund,SE%26latency=soon").await;
    // One city of that whole name is asked for, which nobody knows: a failed part, no second parameter.
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!([&list[0]["kind"], &list[0]["upstream_status"]], [&json!("refused"), &json!(404)]);
}

/// Hands every connection on to `to`, and counts the requests that pass.
fn count(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let counted = Arc::new(AtomicUsize::new(0));
    let counter = counted.clone();
    let served = Served::begin(move |client| {
        let counter = counter.clone();
        async move {
            let (mut asks, mut answered) = client.into_split();
            let (mut answers, mut server) = TcpStream::connect(to).await.unwrap().into_split();
            tokio::spawn(async move { tokio::io::copy(&mut answers, &mut answered).await });
            let mut piece = vec![0; 16 << 10];
            while let Ok(length @ 1..) = asks.read(&mut piece).await {
                counter.fetch_add(memchr::memmem::find_iter(&piece[..length], b"GET /").count(), Ordering::Relaxed);
                server.write_all(&piece[..length]).await.unwrap();
            }
        }
    });
    (served.stay(), counted)
}

/// The inbox as a configuration has it.
const INBOX: &str = r#"
- request: streamflow /cases/inbox
- each: .cases[]
- follow: { link: .href, as: case }
- follow: { link: '.case.resources[] | select(.rel == "general").href', as: general }
- follow: { link: .general.priority.href, as: levels }
- transform: '{id, text, due: .general.dueOn[:10], note: .general.note,
               priority: (.general.priority.id as $p | [.levels.priorities[]? | select(.id == $p).text][0])}'
- concatenate: { as: ndjson, body_only: true }
"#;

fn sorted(lines: &[u8]) -> Vec<&str> {
    let mut lines: Vec<&str> = std::str::from_utf8(lines).unwrap().lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn the_inbox_of_a_program_is_that_of_a_configuration() {
    let (counting, counted) = count(upstreams());
    let api = format!("http://{counting}/streamflow/api");

    let mut program = Vec::new();
    inbox::print(&api, &mut program).await.unwrap();
    let by_program = counted.swap(0, Ordering::Relaxed);

    let client = Client::new();
    client.upstream("streamflow", &api).unwrap();
    let prepared = client.read(INBOX).unwrap();
    let request = http::Request::new(http_body_util::Empty::<bytes::Bytes>::new());
    let configured = prepared.answer(request, &[]).await.into_body().collect().await.unwrap().to_bytes();

    assert_eq!((by_program, counted.load(Ordering::Relaxed)), (314, 314));
    assert_eq!(sorted(&program).len(), 156);
    assert_eq!(sorted(&program), sorted(&configured));
}

#[tokio::test]
async fn an_inbox_that_cannot_be_reached_is_an_error() {
    let (_held, nobody) = nobody().unwrap();
    let mut out = Vec::new();
    let problem = inbox::print(&format!("http://{nobody}"), &mut out).await.unwrap_err().to_string();
    let problem: Value = serde_json::from_str(problem.lines().next().unwrap()).unwrap();
    assert_eq!((problem["status"].as_u64(), out.len()), (Some(502), 0), "{problem}");
}

#[tokio::test]
async fn a_pipeline_that_is_read_serves_behind_any_server() {
    let prepared = Arc::new(dashboard::dashboard(&format!("http://{}", upstreams())).unwrap());
    let address = Served::run(|listener| dashboard::serve(listener, prepared)).stay();
    let get = async |user: &str| {
        let answer = Client::new().request([format!("http://{address}/{user}")]).into_response().await;
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap())
    };
    assert_eq!(get("7").await, (200, json!({"name": "Joe Lund", "temperature": 279.32, "news": []})));
    assert_eq!(get("7000").await.0, 404);
}
