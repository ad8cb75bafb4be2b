//! The thesis's weather endpoint in axum: `/temperatures?q=Lund,SE|Copenhagen,DK`.
//!
//! `cargo run -p crocodile-pear --example weather -- http://127.0.0.1:9000/weather`, with the API's address; the one
//! here is where `crocodile-pear demo` serves one.

use std::collections::HashMap;

use axum::extract::{Query, State};
use axum::{Router, routing::get};
use crocodile_pear::{Client, Error, Parts, Pulled, Whole};
use http::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// `{name: main.temp}` of a city's weather; what is no weather passes as it is.
fn temperature(answer: Whole) -> Result<Whole, Error> {
    if !answer.status.is_success() {
        return Ok(answer);
    }
    let weather = answer.json()?;
    let name = weather["name"].as_str().unwrap_or_default();
    Ok(answer.with_json(&serde_json::json!({ name: weather["main"]["temp"] })))
}

async fn temperatures(
    State((client, api)): State<(Client, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response<Pulled> {
    let cities = query.get("q").map_or("Lund,SE", String::as_str).split('|');
    let encoded = cities.map(|city| utf8_percent_encode(city, NON_ALPHANUMERIC));
    client
        .request(encoded.map(|city| format!("{api}/data/2.5/weather?q={city}")))
        .timer("created requests")
        .transform(temperature)
        .concatenate_json(Parts::BodyOnly)
        .into_response()
        .await
}

/// The endpoint over a weather API; connections to it are kept for as long as the router lives.
pub fn router(api: String) -> Router {
    Router::new().route("/temperatures", get(temperatures)).with_state((Client::new(), api))
}

#[allow(dead_code, reason = "the tests serve the router themselves")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/weather".to_owned());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, router(api)).await?;
    Ok(())
}
