//! The side channel between a client and an upstream, besides a request and its answer: interim answers, trailers, and a
//! connection that switches to another protocol.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::spec::Timeout;

/// The extras that the client accepts besides the answer. Only the one call on behalf of the client has them; they are empty for any
/// other call.
#[derive(Clone, Default)]
pub struct Passage {
    /// Receives the interim answers.
    pub interim: Option<Arc<dyn Interim>>,
    /// The protocol that the client asks for, if the client may have it.
    pub upgrade: Option<Arc<Upgrade>>,
    /// Whether the client accepts trailers. The upstream learns it from the field `te`.
    pub trailers: bool,
    /// Whether the client waits for `100 Continue` before it sends its body. The upstream learns it from the field
    /// `expect`, and its answer spares the upload if it needs none.
    pub expects: bool,
}

/// A change of protocol (RFC 9110, 7.8).
#[derive(Debug)]
pub struct Upgrade {
    /// The protocol, as the field `Upgrade` names it.
    pub protocol: HeaderValue,
    /// How long both sides of the tunnel may be silent before it is closed.
    pub idle: Timeout,
}

/// Receives the interim answers (RFC 9110, 15.2) of the upstream whose answer goes to the client.
pub trait Interim: Send + Sync {
    /// An interim answer arrived. 100 and 101 are never passed on.
    fn interim(&self, status: StatusCode, headers: &HeaderMap);
}

/// The pace of a client's body while it arrives.
pub trait BodyPace: Send + Sync {
    /// Removes the minimum rate of this body. A body that is a stream may pause, or arrive as slowly as it likes.
    fn unhurried(&self);

    /// The number of bytes of the body that have arrived.
    fn received(&self) -> u64;
}

/// Bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to an upstream that now speaks another protocol. If it is dropped before its write side is shut down,
/// the connection is reset.
pub struct Tunnel {
    /// The connection.
    pub stream: Box<dyn Duplex>,
    /// Bytes of the other protocol that have already arrived.
    pub early: Bytes,
    /// How long both sides may be silent before the tunnel is closed.
    pub idle: Timeout,
}
