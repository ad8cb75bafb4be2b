//! `page` with reqwest: the status of a failed call is kept by hand.

use std::time::Duration;

use axum::extract::State;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

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

pub enum AppError {
    Upstream(reqwest::Error),
}

impl From<reqwest::Error> for AppError {
    fn from(error: reqwest::Error) -> Self {
        AppError::Upstream(error)
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let AppError::Upstream(error) = self;
        let (status, name) = match error.status() {
            _ if error.is_timeout() => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            Some(StatusCode::NOT_FOUND) => (StatusCode::NOT_FOUND, "refused"),
            _ => (StatusCode::BAD_GATEWAY, "unusable"),
        };
        (status, name).into_response()
    }
}

async fn fetch<T: DeserializeOwned>(client: &Client, url: String, limit: Duration) -> Result<T, reqwest::Error> {
    client.get(url).timeout(limit).send().await?.error_for_status()?.json().await
}

async fn page(State((client, api)): State<(Client, String)>) -> Result<Json<Page>, AppError> {
    let usual = Duration::from_secs(30);
    let user = fetch::<User>(&client, format!("{api}/user/7"), usual);
    let orders = fetch::<Vec<Order>>(&client, format!("{api}/orders"), usual);
    let news = async {
        let news = fetch::<Vec<News>>(&client, format!("{api}/news"), Duration::from_millis(300)).await;
        Ok(news.unwrap_or_default())
    };
    let (user, orders, news) = tokio::try_join!(user, orders, news)?;
    let total = orders.iter().map(|order| order.total).sum();
    Ok(Json(Page { name: user.name, total, news }))
}

async fn in_time(request: axum::extract::Request, next: Next) -> Response {
    match tokio::time::timeout(Duration::from_secs(10), next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

pub fn router(api: String) -> Router {
    Router::new().route("/page", get(page)).layer(from_fn(in_time)).with_state((Client::new(), api))
}
