//! `mock` with reqwest: a service cannot replace its sockets, so the program calls a trait instead, and has timeouts and
//! retries of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Response, StatusCode};

#[derive(Debug)]
pub enum Failure {
    Timeout,
    Status(StatusCode),
    Other(String),
}

/// The calls that a program makes.
pub trait Transport {
    async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, Failure>;
}

impl Transport for reqwest::Client {
    async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, Failure> {
        let other = |error: reqwest::Error| Failure::Other(error.to_string());
        let answer = reqwest::Client::get(self, url).send().await.map_err(other)?;
        let mut response = Response::builder().status(answer.status());
        for (name, value) in answer.headers() {
            response = response.header(name, value);
        }
        let body = answer.bytes().await.map_err(other)?;
        response.body(body.into()).map_err(|error| Failure::Other(error.to_string()))
    }
}

#[derive(Default)]
pub struct Mock {
    calls: AtomicUsize,
}

impl Transport for Mock {
    async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, Failure> {
        let first = self.calls.fetch_add(1, Ordering::Relaxed) == 0;
        let mut response = Response::new(br#"{"name": "Lund"}"#.to_vec());
        match url {
            _ if url.ends_with("/late") => tokio::time::sleep(Duration::from_secs(60)).await,
            _ if url.ends_with("/moody") && first => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
            _ => {}
        }
        Ok(response)
    }
}

#[derive(serde::Deserialize)]
struct City {
    name: String,
}

async fn city(transport: &impl Transport, url: &str) -> Result<City, Failure> {
    let mut attempt = 0;
    let call = async {
        loop {
            attempt += 1;
            let response = transport.get(url).await?;
            match response.status() {
                StatusCode::SERVICE_UNAVAILABLE if attempt <= 2 => {
                    tokio::time::sleep(Duration::from_millis(25 << attempt)).await;
                }
                status if status.is_success() => {
                    return serde_json::from_slice(response.body()).map_err(|error| Failure::Other(error.to_string()));
                }
                status => return Err(Failure::Status(status)),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), call).await.unwrap_or(Err(Failure::Timeout))
}

pub async fn cities(transport: impl Transport) -> Result<(String, Option<Failure>), Failure> {
    let first = city(&transport, "https://cities.example/moody").await?;
    let late = city(&transport, "https://cities.example/late").await;
    Ok((first.name, late.err()))
}
