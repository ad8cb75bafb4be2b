//! What passes between a client and an upstream besides a request and its answer: interim answers, trailers, and a
//! connection that changes its protocol.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::spec::Timeout;

/// What the client takes beside the answer, for the one call that is made in its name. Nothing, for any other call.
#[derive(Clone, Default)]
pub struct Passage {
    /// Takes the interim answers.
    pub interim: Option<Arc<dyn Interim>>,
    /// The protocol that the client asks for, if it may have it.
    pub upgrade: Option<Arc<Upgrade>>,
    /// Whether the client takes trailers: the upstream is told with `te`.
    pub trailers: bool,
}

/// A change of protocol (RFC 9110, 7.8).
#[derive(Debug)]
pub struct Upgrade {
    /// The protocol, as the field `Upgrade` names it.
    pub protocol: HeaderValue,
    /// How long both sides of the tunnel may be silent.
    pub idle: Timeout,
}

/// Takes the interim answers (RFC 9110, 15.2) of an upstream whose answer is handed on.
pub trait Interim: Send + Sync {
    /// One has come; 100 and 101 are never handed on.
    fn interim(&self, status: StatusCode, headers: &HeaderMap);
}

/// Bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to an upstream that speaks another protocol from here on. Dropped before its writing side was shut down it
/// is reset.
pub struct Tunnel {
    /// The connection.
    pub stream: Box<dyn Duplex>,
    /// What came of the other protocol already.
    pub early: Bytes,
    /// How long both sides may be silent.
    pub idle: Timeout,
}
