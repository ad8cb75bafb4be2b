//! The library's example, over the example upstreams.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[path = "../../crocodile-pear/examples/weather.rs"]
mod weather;

use std::net::SocketAddr;

use crocodile_pear::Client;
use crocodile_pear_gateway::demo::{self, Demo};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What the endpoint answers for these cities, percent-encoded.
async fn temperatures(cities: &str) -> Vec<Value> {
    let (upstreams, api) = listen().await;
    let (front, address) = listen().await;
    tokio::spawn(demo::upstreams(upstreams, Demo::default()));
    tokio::spawn(axum::serve(front, weather::router(format!("http://{api}/weather"))).into_future());
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
    assert_eq!(list, [json!({"cod": "404", "message": "city not found"})]);
}
