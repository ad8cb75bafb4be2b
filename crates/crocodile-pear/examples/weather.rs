//! The thesis's weather end-point in axum: `/temperatures?q=Lund,SE|Copenhagen,DK`.
//!
//! `cargo run --example weather -- http://127.0.0.1:9000/weather` with the demo's upstreams, or any server of the same API.

use axum::{Router, body::Body, extract::Query, response::Response, routing::get};
use crocodile_pear::{Client, Parts, Whole, error::Error};

/// `{name: main.temp}` of a city's weather.
fn temperature(answer: Whole) -> Result<Whole, Error> {
    let weather = answer.json()?;
    let name = weather["name"].as_str().unwrap_or("unknown").to_owned();
    Ok(answer.with_json(&serde_json::json!({ name: weather["main"]["temp"] })))
}

async fn temperatures(client: Client, api: String, cities: String) -> Response {
    let uris = cities.split('|').map(|city| format!("{api}/data/2.5/weather?q={city}"));
    let answer = client
        .request(uris)
        .timer("created requests")
        .transform(temperature)
        .concatenate_json(Parts::BodyOnly)
        .into_response();
    answer.await.map(axum_body)
}

fn axum_body(body: crocodile_pear::flow::Pulled) -> Body {
    Body::new(body)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/weather".to_owned());
    let client = Client::new();
    let handler = move |Query(query): Query<Vec<(String, String)>>| {
        let cities = query.into_iter().find(|(name, _)| name == "q").map(|(_, cities)| cities).unwrap_or_default();
        temperatures(client.clone(), api.clone(), cities)
    };
    let router = Router::new().route("/temperatures", get(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, router).await?;
    Ok(())
}
