//! Calls and their answers, as the tests see them.

use std::sync::Arc;

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::Body;
use crocodile_pear::unstable::upstream::{Call, Location, Settings, Trailing, Upstream};
use http::Method;
use http_body_util::BodyExt;

pub fn get(target: &str) -> Call {
    with(Method::GET, target, None)
}

pub fn with(method: Method, target: &str, body: Option<Body>) -> Call {
    Call { method, body, trailing: Trailing::own(), ..Call::get(target.into()) }
}

/// The upstream at `url`, called "books".
pub fn upstream(url: &str, set: impl FnOnce(&mut Settings)) -> Arc<Upstream> {
    let mut settings = Settings::new("books", url.parse().unwrap());
    set(&mut settings);
    Upstream::new(settings).unwrap()
}

/// A further server.
pub fn at(url: &str) -> Location {
    Location { url: url.parse().unwrap(), weight: 1, socket: None }
}

/// The whole body of an answer.
pub async fn body(answer: Answer) -> Result<Bytes, Error> {
    match answer.body {
        Body::Bytes(bytes) => Ok(bytes),
        Body::Pulled(body) => body.collect().await.map(http_body_util::Collected::to_bytes),
        Body::Value(_) | Body::Json(_) | Body::Tunnel(_) => panic!("an upstream gives bytes"),
    }
}

/// The body of the answer to a call.
pub async fn fetch(upstream: &Arc<Upstream>, call: Call) -> Result<Bytes, Error> {
    body(upstream.call(call).await?).await
}

/// Connections opened, calls on kept ones, calls sent again.
pub fn count(upstream: &Upstream) -> [u64; 3] {
    let counters = upstream.counters();
    [counters.opened, counters.reused, counters.retried]
}

pub fn in_flight(upstream: &Upstream) -> u64 {
    upstream.counters().in_flight
}
