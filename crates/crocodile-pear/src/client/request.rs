//! The requests of a Rust program.

use http::{HeaderMap, Method};

use crate::message::body::Body;

/// A request to make. A URI alone is a `GET`.
///
/// ```
/// use crocodile_pear::{Body, Client, Request};
/// use http::{HeaderMap, Method, header::CONTENT_TYPE};
///
/// let order = Request {
///     method: Method::POST,
///     headers: HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse()?)]),
///     body: Some(Body::Bytes(r#"{"item": 7}"#.into())),
///     ..Request::from("http://127.0.0.1:9000/orders")
/// };
/// let ordered = Client::new().request([order]);
/// # ordered.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
