//! A client's request, independent of the protocol.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use crocodile_pear::unstable::http::http1::Headers;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::{BodyPace, Interim, Passage};
use crocodile_pear::unstable::request::facts::{ClientAddress, ClientFacts};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Version};

use super::interim::write_interim;
use super::listen::ListenerSettings;
use super::tls::Secured;

/// The facts about a connection, shared by its requests.
#[derive(Debug)]
pub struct Connection {
    pub peer: ClientAddress,
    /// The listener that accepted it.
    pub listener: Arc<ListenerSettings>,
    /// The facts from the TLS handshake; `None` without TLS.
    pub secured: Option<Box<Secured>>,
    /// The HTTP version of the connection, for requests that do not carry one.
    pub version: Version,
    pub(super) interim: Interims,
}

/// Interim answers waiting for a client of HTTP/1.1, which has one request at a time.
#[derive(Debug, Default)]
pub(super) struct Interims {
    waiting: AtomicBool,
    bytes: Mutex<Vec<u8>>,
}

/// The most bytes of interim answers that may wait for a client; more are dropped.
const MOST_INTERIM: usize = 16 * 1024;

impl Connection {
    /// A connection without TLS from this address.
    pub fn new(peer: ClientAddress, listener: Arc<ListenerSettings>) -> Self {
        Connection { peer, listener, secured: None, version: Version::HTTP_11, interim: Interims::default() }
    }

    /// The facts about the client of a request with this HTTP version.
    pub fn client(&self, version: Version) -> ClientFacts {
        let certificate = self.secured.as_ref().and_then(|secured| secured.certificate.clone());
        ClientFacts { address: self.peer, version, tls: self.secured.is_some(), certificate, host: None }
    }

    /// Whether interim answers are waiting.
    pub(super) fn has_interim(&self) -> bool {
        self.interim.waiting.load(Relaxed)
    }

    /// The waiting interim answers, as bytes of HTTP/1.1.
    pub(super) fn take_interim(&self) -> Vec<u8> {
        self.interim.waiting.store(false, Relaxed);
        std::mem::take(&mut *self.interim.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Interim for Connection {
    fn interim(&self, status: StatusCode, headers: &HeaderMap) {
        let mut bytes = self.interim.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < MOST_INTERIM {
            write_interim(&mut bytes, status, headers);
            self.interim.waiting.store(true, Relaxed);
        }
    }
}

/// An extension of an answer that is a stream and has no minimum rate.
#[derive(Clone, Copy, Debug)]
pub struct NoMinimumRate;

/// A request whose head was accepted.
pub struct ClientRequest {
    pub method: Method,
    /// The target in origin form; `*` for `OPTIONS *`.
    pub target: PathAndQuery,
    /// The protocol's version.
    pub version: Version,
    /// The header fields as received.
    pub headers: Headers,
    /// The body, read on demand; [`AnswerBody::empty`] if there is none.
    pub body: AnswerBody,
    /// The connection that carries it.
    pub connection: Arc<Connection>,
    /// The extras that the client accepts besides the answer.
    pub side_channel: Passage,
    /// Whether the client asks to change to another protocol, which the field `Upgrade` names.
    pub upgrade: bool,
    /// The pace of the body, if it is still to come.
    pub pace: Option<Arc<dyn BodyPace>>,
}
