//! The requests of a Rust program.

use http::{HeaderMap, Method};

use crate::flow::Body;

/// A request to make: a URI, or more of it.
pub struct Request {
    /// The method.
    pub method: Method,
    /// An absolute `http` or `https` URI.
    pub uri: String,
    /// Header fields to send.
    pub headers: HeaderMap,
    /// The body to send, if there is one.
    pub body: Option<Body>,
}

impl<T: Into<String>> From<T> for Request {
    fn from(uri: T) -> Self {
        Request { method: Method::GET, uri: uri.into(), headers: HeaderMap::new(), body: None }
    }
}
