//! A client's request, in whatever protocol it came.

use std::net::SocketAddr;
use std::sync::Arc;

use crocodile_pear::flow::Body;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Version};

/// What is known of a connection; shared by its requests.
#[derive(Debug)]
pub struct Connection {
    /// The address at the other end.
    pub peer: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
}

/// A request whose head has been admitted.
pub struct ClientRequest {
    /// The method.
    pub method: Method,
    /// The target in origin form; `*` for `OPTIONS *`.
    pub target: PathAndQuery,
    /// The protocol's version.
    pub version: Version,
    /// The header fields, as they came.
    pub headers: HeaderMap,
    /// The body, to be pulled; [`Body::empty`] where there is none.
    pub body: Body,
    /// The connection that it came on.
    pub connection: Arc<Connection>,
}
