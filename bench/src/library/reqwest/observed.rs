//! `observed` with reqwest: the program itself has the limit, the retries, the breaker, the spans and the trace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::{Client, Error};
use tokio::sync::Semaphore;
use tracing::Instrument;

#[derive(Debug)]
pub enum Failure {
    Call(Error),
    Open,
}

#[derive(Debug, Default)]
pub struct Metrics {
    ended: Mutex<BTreeMap<String, u64>>,
    bytes: Mutex<u64>,
}

impl Metrics {
    pub fn read(&self) -> (BTreeMap<String, u64>, u64) {
        let bytes = *self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        (self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone(), bytes)
    }

    fn ended(&self, outcome: String, bytes: u64) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome).or_default() += 1;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
    }
}

/// After 20 failures in a row, no call for 10 s.
#[derive(Default)]
struct Breaker(Mutex<(u32, Option<Instant>)>);

impl Breaker {
    fn is_open(&self) -> bool {
        let (_, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < Duration::from_secs(10))
    }

    fn note(&self, good: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = if good { 0 } else { state.0 + 1 };
        state.1 = (state.0 >= 20).then(Instant::now);
    }
}

#[derive(Clone)]
pub struct Api {
    client: Client,
    metrics: Arc<Metrics>,
    in_flight: Arc<Semaphore>,
    breaker: Arc<Breaker>,
}

pub fn client(metrics: Arc<Metrics>) -> Result<Api, Error> {
    let client = Client::builder().timeout(Duration::from_secs(2)).user_agent("report/1.0").build()?;
    Ok(Api { client, metrics, in_flight: Arc::new(Semaphore::new(50)), breaker: Arc::default() })
}

pub async fn get(api: &Api, url: &str, served: &HeaderMap) -> Result<String, Failure> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        if api.breaker.is_open() {
            return Err(Failure::Open);
        }
        let _permit = api.in_flight.acquire().await.expect("it is not closed");
        let mut call = api.client.get(url);
        for name in ["traceparent", "tracestate"] {
            if let Some(value) = served.get(name) {
                call = call.header(name, value);
            }
        }
        let span = tracing::info_span!(
            "call",
            http.request.method = "GET",
            url.full = url,
            http.response.status_code = tracing::field::Empty,
            error.r#type = tracing::field::Empty
        );
        let done = async {
            let answer = call.send().await?;
            tracing::Span::current().record("http.response.status_code", answer.status().as_u16());
            answer.error_for_status()?.text().await
        };
        let done = done.instrument(span.clone()).await;
        api.breaker.note(done.is_ok());
        match done {
            Ok(text) => {
                api.metrics.ended("200".to_owned(), text.len() as u64);
                return Ok(text);
            }
            Err(error) => {
                let outcome = error.status().map_or_else(|| "failed".to_owned(), |status| status.as_str().to_owned());
                span.record("error.type", &*outcome);
                api.metrics.ended(outcome, 0);
                let passing = error.is_connect() || error.status().is_some_and(|status| status.is_server_error());
                if attempt > 3 || !passing {
                    return Err(Failure::Call(error));
                }
                tokio::time::sleep(Duration::from_millis(25 << attempt)).await;
            }
        }
    }
}
