//! `weather` with reqwest and futures.

use std::collections::HashMap;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use futures_util::stream::{FuturesUnordered, StreamExt};
use reqwest::Client;
use serde_json::{Value, json};

async fn temperature(client: Client, url: String, begun: Instant) -> Value {
    let answer = client.get(&url).send().await;
    tracing::info!(at = ?begun.elapsed(), "created requests");
    let failed = |status: u16, error: String| json!({"title": error, "status": status});
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return failed(502, error.to_string()),
    };
    let good = answer.status().is_success();
    match answer.json::<Value>().await {
        Ok(weather) if good => {
            let name = weather["name"].as_str().unwrap_or_default();
            json!({ name: weather["main"]["temp"] })
        }
        Ok(problem) => problem,
        Err(error) => failed(502, error.to_string()),
    }
}

async fn temperatures(
    State((client, api)): State<(Client, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let begun = Instant::now();
    let cities = query.get("q").map_or("Lund,SE", String::as_str).split('|');
    let calls: FuturesUnordered<_> = cities
        .map(|city| {
            let city: String = url::form_urlencoded::byte_serialize(city.as_bytes()).collect();
            temperature(client.clone(), format!("{api}/data/2.5/weather?q={city}"), begun)
        })
        .collect();
    let items = calls.enumerate().map(|(at, item)| format!("{}{item}", if at == 0 { "[" } else { "," }));
    let list = items.chain(futures_util::stream::once(async { "]".to_owned() })).map(Ok::<_, std::convert::Infallible>);
    ([("content-type", "application/json")], Body::from_stream(list)).into_response()
}

pub fn router(api: String) -> Router {
    Router::new().route("/temperatures", get(temperatures)).with_state((Client::new(), api))
}
