//! `signed` with reqwest: the list is read whole before its first item is, since reqwest reads no list while it arrives.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::{Client, Error, StatusCode};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::{OnceCell, Semaphore};

#[derive(Deserialize)]
struct Token {
    token: String,
}

#[derive(Deserialize)]
struct Order {
    user: u64,
    total: f64,
}

#[derive(Deserialize)]
struct Orders {
    orders: Vec<Order>,
}

#[derive(Deserialize)]
struct User {
    name: String,
}

#[derive(Serialize)]
struct Row {
    name: String,
    total: f64,
}

/// An API whose calls have the token that it gives, and a signature.
#[derive(Clone)]
pub struct Api {
    client: Client,
    api: String,
    token: Arc<OnceCell<String>>,
    in_flight: Arc<Semaphore>,
}

impl Api {
    pub fn new(api: &str) -> Result<Self, Error> {
        let client = Client::builder().timeout(Duration::from_secs(2)).build()?;
        Ok(Api { client, api: api.to_owned(), token: Arc::default(), in_flight: Arc::new(Semaphore::new(20)) })
    }

    async fn token(&self) -> Result<&String, Error> {
        let fetch = async || {
            let answer = self.client.get(format!("{}/token", self.api)).send().await?.error_for_status()?;
            Ok(answer.json::<Token>().await?.token)
        };
        self.token.get_or_try_init(fetch).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let _permit = self.in_flight.acquire().await.expect("it is not closed");
            let signature = format!("{}:{path}", self.token().await?);
            let call = self.client.get(format!("{}{path}", self.api)).header("x-signature", signature);
            let answer = async { call.send().await?.error_for_status()?.json().await }.await;
            match answer {
                Err(error) if attempt <= 2 && is_passing(&error) => {
                    tokio::time::sleep(Duration::from_millis(25 << attempt)).await;
                }
                answer => return answer,
            }
        }
    }
}

fn is_passing(error: &Error) -> bool {
    let passing = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    error.is_connect() || error.status().is_some_and(|status| passing.contains(&status))
}

async fn enrich(api: &Api, order: Order) -> Result<Option<Row>, Error> {
    if order.total < 10.0 {
        return Ok(None);
    }
    let user: User = api.get(&format!("/users/{}", order.user)).await?;
    Ok(Some(Row { name: user.name, total: order.total }))
}

pub async fn orders(api: Api) -> Result<Response, Error> {
    let list: Orders = api.get("/orders").await?;
    let rows = stream::iter(list.orders).map(move |order| {
        let api = api.clone();
        async move { enrich(&api, order).await }
    });
    let lines = rows.buffer_unordered(8).try_filter_map(async |row| Ok(row)).map(|row| {
        let mut line = match row {
            Ok(row) => serde_json::to_vec(&row)?,
            Err(error) => serde_json::to_vec(&serde_json::json!({"title": error.to_string()}))?,
        };
        line.push(b'\n');
        Ok::<_, serde_json::Error>(line)
    });
    Ok(([("content-type", "application/x-ndjson")], Body::from_stream(lines)).into_response())
}
