//! The requests of a Rust program.

use std::borrow::Cow;

use http::{HeaderMap, Method, Uri};

use super::body::Body;

/// A request to make. A URL alone is a `GET`.
///
/// ```
/// use crocodile_pear::{Body, Client, Request};
/// use http::{HeaderMap, Method, header::CONTENT_TYPE};
///
/// let order = Request {
///     method: Method::POST,
///     headers: HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse()?)]),
///     body: Some(Body::from(r#"{"item": 7}"#)),
///     ..Request::from("http://127.0.0.1:9000/orders")
/// };
/// let ordered = Client::new().request([order]);
/// # ordered.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// An absolute `http` or `https` URL.
    pub uri: String,
    /// Header fields to send.
    pub headers: HeaderMap,
    /// The body to send, if there is one.
    pub body: Option<Body>,
}

impl From<String> for Request {
    fn from(uri: String) -> Self {
        Request { method: Method::GET, uri, headers: HeaderMap::new(), body: None }
    }
}

impl From<&str> for Request {
    fn from(uri: &str) -> Self {
        uri.to_owned().into()
    }
}

impl From<&String> for Request {
    fn from(uri: &String) -> Self {
        uri.clone().into()
    }
}

impl From<Cow<'_, str>> for Request {
    fn from(uri: Cow<'_, str>) -> Self {
        uri.into_owned().into()
    }
}

impl From<Uri> for Request {
    fn from(uri: Uri) -> Self {
        uri.to_string().into()
    }
}

impl From<&Uri> for Request {
    fn from(uri: &Uri) -> Self {
        uri.to_string().into()
    }
}

impl<B: Into<Body>> From<http::Request<B>> for Request {
    /// Its version and its extensions are left out.
    fn from(request: http::Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Request { method: head.method, uri: head.uri.to_string(), headers: head.headers, body: Some(body.into()) }
    }
}
