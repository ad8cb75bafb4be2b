//! Calls and their answers, as the tests see them.

use std::sync::Arc;

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::upstream::{Location, ReadyUpstream, Trailing, UpstreamCall, UpstreamSettings};
use http::Method;
use http_body_util::BodyExt;

pub fn get(target: &str) -> UpstreamCall {
    with(Method::GET, target, None)
}

pub fn with(method: Method, target: &str, body: Option<AnswerBody>) -> UpstreamCall {
    UpstreamCall { method, body, trailing: Trailing::own(), ..UpstreamCall::get(target.into()) }
}

/// The upstream at `url`, called "books".
pub fn upstream(url: &str, set: impl FnOnce(&mut UpstreamSettings)) -> Arc<ReadyUpstream> {
    let mut settings = UpstreamSettings::new("books", url.parse().unwrap());
    set(&mut settings);
    ReadyUpstream::new(settings).unwrap()
}

/// A further server.
pub fn at(url: &str) -> Location {
    Location { url: url.parse().unwrap(), weight: 1, socket: None }
}

/// The whole body of an answer.
pub async fn body(answer: Answer) -> Result<Bytes, Error> {
    match answer.body {
        AnswerBody::Bytes(bytes) => Ok(bytes),
        AnswerBody::Pulled(body) => body.collect().await.map(http_body_util::Collected::to_bytes),
        AnswerBody::Value(_) | AnswerBody::Json(_) | AnswerBody::Tunnel(_) => panic!("an upstream gives bytes"),
    }
}

/// The body of the answer to a call.
pub async fn fetch(upstream: &Arc<ReadyUpstream>, call: UpstreamCall) -> Result<Bytes, Error> {
    body(upstream.call(call).await?).await
}

/// Connections opened, calls on kept ones, calls sent again.
pub fn count(upstream: &ReadyUpstream) -> [u64; 3] {
    let counters = upstream.counters();
    [counters.opened, counters.reused, counters.retried]
}

pub fn in_flight(upstream: &ReadyUpstream) -> u64 {
    upstream.counters().in_flight
}
