//! A test without sockets: a tower service answers the calls, and the clock is paused.
//!
//! `cargo run -p crocodile-pear --example mock`

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crocodile_pear::{Body, Client, Error, Kind, Upstream};
use http::{Request, Response};
use tower_service::Service;

/// Answers by the path of a call: `/late` after a minute, `/moody` with 503 for the first time.
#[derive(Clone, Default)]
pub struct Mock {
    calls: Arc<AtomicUsize>,
}

impl Service<Request<Body>> for Mock {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let first = self.calls.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            let mut response = Response::new(Body::from(r#"{"name": "Lund"}"#));
            match request.uri().path() {
                "/late" => tokio::time::sleep(Duration::from_secs(60)).await,
                "/moody" if first => *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE,
                _ => {}
            }
            Ok(response)
        })
    }
}

#[derive(serde::Deserialize)]
struct City {
    name: String,
}

/// The program under test: timeouts and retries stand around the mock as around sockets.
pub async fn cities(mock: Mock) -> Result<(String, Kind), Error> {
    let api = Upstream::at("https://cities.example").timeout(Duration::from_secs(5)).retry(2);
    let client = Client::builder().upstream("cities", api).transport(mock).build()?;
    let city: City = client.get("https://cities.example/moody").as_json().await?;
    let late = client.get("https://cities.example/late").as_json::<City>().await;
    Ok((city.name, late.err().map_or(Kind::Internal, |error| error.kind())))
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests pause the clock")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    println!("{:?}", cities(Mock::default()).await?);
    Ok(())
}
