//! An answer that was read whole, for a closure that changes it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::error::{Error, Kind};
use crate::flow::undescribe;

/// An answer that was read whole, for a transforming closure.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Whole {
    /// The body as JSON.
    ///
    /// # Errors
    /// `Malformed` if it is none.
    pub fn json(&self) -> Result<serde_json::Value, Error> {
        let malformed = |error: serde_json::Error| Error::new(Kind::Malformed, format!("the body is no JSON: {error}"));
        serde_json::from_slice(&self.body).map_err(malformed)
    }

    /// The same answer with another body, as JSON.
    #[must_use]
    pub fn with_json(mut self, body: &serde_json::Value) -> Self {
        undescribe(&mut self.headers);
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = body.to_string().into();
        self
    }
}
