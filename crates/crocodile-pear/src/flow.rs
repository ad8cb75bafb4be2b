//! What moves through a pipeline: a head and a lazily pulled body, of bytes or of a value.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};

use crate::error::Error;
use crate::jq::Value;

/// A body that is pulled: who polls it asks for the next chunk, and until then nothing is read.
/// Dropping it gives up whatever stands behind it.
pub type Pulled = Pin<Box<dyn http_body::Body<Data = Bytes, Error = Error> + Send>>;

/// The body of an answer.
pub enum Body {
    /// Bytes at hand; empty for an answer without a body.
    Bytes(Bytes),
    /// Bytes that are still to come.
    Pulled(Pulled),
    /// A value that a step made; JSON once it leaves.
    Value(Value),
}

/// One answer: its head is here, its body is pulled.
pub struct Answer {
    /// The status of the upstream, or 200 for what a step made.
    pub status: StatusCode,
    /// The header fields, end-to-end ones only.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
    /// Named results that expressions further on may use.
    pub names: Names,
}

/// Named results: `$name` in expressions. Few, so a list.
pub type Names = Option<Arc<Vec<(Arc<str>, Value)>>>;

/// What became of a producer: an answer, a failure, or nothing (an item dropped by a step).
pub type Outcome = Option<Result<Answer, Error>>;

/// One response to come. It is consumed once; dropping it cancels the call behind it.
pub struct Producer {
    /// Which of the request's producers, from 0; for logs.
    pub id: u32,
    /// The name that `requests` gave it.
    pub name: Option<Arc<str>>,
    /// Resolves when the head is there.
    pub outcome: BoxFuture<'static, Outcome>,
}
