//! A client with settings, metrics and traces: settings of an upstream, an observer that counts, spans for `tracing`, and the
//! trace of the request that is served.
//!
//! `cargo run -p crocodile-pear --example observed -- http://127.0.0.1:9000/users/api/users/7`

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crocodile_pear::{CallId, Client, Error, Observe, Upstream};
use http::{HeaderMap, HeaderValue, Request, StatusCode};

/// Calls by their outcome. A program has the counters of its metrics crate here.
#[derive(Debug, Default)]
pub struct Metrics {
    ended: Mutex<BTreeMap<String, u64>>,
    bytes: Mutex<u64>,
}

impl Metrics {
    /// The number of calls by their outcome, and the bytes of all bodies.
    pub fn read(&self) -> (BTreeMap<String, u64>, u64) {
        let bytes = *self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        (self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone(), bytes)
    }
}

impl Observe for Metrics {
    fn started(&self, call: &CallId, request: &Request<()>) {
        tracing::debug!(%call, url = %request.uri(), "calling");
    }

    fn ended(&self, _: &CallId, outcome: Result<StatusCode, &Error>, _: Duration, bytes: u64) {
        let outcome = match outcome {
            Ok(status) => status.as_str().to_owned(),
            Err(error) => error.kind().name().to_owned(),
        };
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome).or_default() += 1;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
    }
}

/// A client for this API.
pub fn client(api: &str, metrics: Arc<Metrics>) -> Result<Client, Error> {
    Client::builder()
        .upstream("api", Upstream::at(api).timeout(Duration::from_secs(2)).in_flight(50).retry(3).breaker(20))
        .user_agent("report/1.0")
        .propagate(["traceparent", "tracestate"])
        .observe(metrics)
        .build()
}

/// A call for a request with these header fields.
pub async fn get(client: &Client, url: &str, served: &HeaderMap) -> Result<String, Error> {
    client.with(served.clone()).get(url).name("user").text().await
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/users/api/users/7".to_owned());
    let metrics = Arc::<Metrics>::default();
    let client = client(&url, metrics.clone())?;
    let trace = HeaderValue::from_static("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    println!(
        "{}",
        get(&client, &url, &HeaderMap::from_iter([("traceparent".parse().map_err(Error::of_program)?, trace)])).await?
    );
    println!("{:?}", metrics.read());
    Ok(())
}
