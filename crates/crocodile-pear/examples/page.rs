//! Three calls merged in a handler of axum: an error type of one's own, a fallback, a limit of tower around it. A client that
//! leaves cancels the calls.
//!
//! `cargo run -p crocodile-pear --example page -- http://127.0.0.1:9000`, with the address of the API.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use crocodile_pear::{Client, Error, Kind, Pulled};
use http::StatusCode;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct User {
    name: String,
}

#[derive(Deserialize)]
struct Order {
    total: f64,
}

#[derive(Deserialize, Serialize)]
struct News {
    title: String,
}

#[derive(Serialize)]
struct Page {
    name: String,
    total: f64,
    news: Vec<News>,
}

/// The failures that clients of this program see.
pub enum AppError {
    /// A call that failed.
    Upstream(Error),
}

impl From<Error> for AppError {
    fn from(error: Error) -> Self {
        AppError::Upstream(error)
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let AppError::Upstream(error) = self;
        let status = match error.kind() {
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Kind::Refused(StatusCode::NOT_FOUND) => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_GATEWAY,
        };
        (status, error.kind().name()).into_response()
    }
}

async fn page(State((client, api)): State<(Client, String)>) -> Result<http::Response<Pulled>, AppError> {
    let user = client.get(format!("{api}/user/7")).as_json::<User>();
    let orders = client.get(format!("{api}/orders")).as_json::<Vec<Order>>();
    let news = client.get(format!("{api}/news")).timeout(Duration::from_millis(300)).as_json::<Vec<News>>();
    let page = client.join((user, orders, news.otherwise(vec![]))).map(|(user, orders, news)| {
        let total = orders.iter().map(|order| order.total).sum();
        Page { name: user.name, total, news }
    });
    Ok(page.try_into_response().await?)
}

/// A layer of tower: what takes too long is answered with 503, and its calls are cancelled.
async fn in_time(request: axum::extract::Request, next: Next) -> Response {
    match tokio::time::timeout(Duration::from_secs(10), next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The handler over this API. Connections to it are kept for as long as the router lives.
pub fn router(api: String) -> Router {
    Router::new().route("/page", get(page)).layer(from_fn(in_time)).with_state((Client::new(), api))
}

#[allow(dead_code, reason = "the tests serve the router themselves")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000".to_owned());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, router(api)).await?;
    Ok(())
}
