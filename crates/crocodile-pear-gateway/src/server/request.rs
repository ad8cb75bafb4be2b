//! A client's request, in whatever protocol it came.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use crocodile_pear::flow::{Body, Interim};
use crocodile_pear::http1::Headers;
use crocodile_pear::scope::{ClientAddress, ClientFacts};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Version};

use super::interim::write_interim;
use super::listen::Entry;
use super::tls::Secured;

/// What is known of a connection; shared by its requests.
#[derive(Debug)]
pub struct Connection {
    /// The address at the other end.
    pub peer: ClientAddress,
    /// The listener that it came to.
    pub entry: Arc<Entry>,
    /// What TLS found out of it; nothing, for one in clear.
    pub secured: Option<Box<Secured>>,
    /// The version of HTTP that it speaks, as far as requests do not say it themselves.
    pub version: Version,
    pub(super) interim: Interims,
}

/// Interim answers on their way to a client of HTTP/1.1, which has one request at a time.
#[derive(Debug, Default)]
pub(super) struct Interims {
    waiting: AtomicBool,
    bytes: Mutex<Vec<u8>>,
}

/// Interim answers of one request wait for the client within this many bytes; more are left out.
const MOST_INTERIM: usize = 16 * 1024;

impl Connection {
    /// A connection in clear from this address.
    pub fn new(peer: ClientAddress, entry: Arc<Entry>) -> Self {
        Connection { peer, entry, secured: None, version: Version::HTTP_11, interim: Interims::default() }
    }

    /// Who asks, with a request in this version of HTTP.
    pub fn client(&self, version: Version) -> ClientFacts {
        let certificate = self.secured.as_ref().and_then(|secured| secured.certificate.clone());
        ClientFacts { address: self.peer, version, tls: self.secured.is_some(), certificate, host: None }
    }

    /// Whether interim answers wait.
    pub(super) fn has_interim(&self) -> bool {
        self.interim.waiting.load(Relaxed)
    }

    /// The interim answers that wait, as bytes of HTTP/1.1.
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

/// The side of a client's body that can be told to wait. A body that is a stream may rest, or trickle, as long as it likes.
pub trait Patience: Send + Sync {
    /// There is no least rate for this body.
    fn unhurried(&self);

    /// How many bytes of the body have been handed over.
    fn received(&self) -> u64;
}

/// Stands in the extensions of an answer that has no least rate: it is a stream.
#[derive(Clone, Copy, Debug)]
pub struct Unhurried;

/// A request whose head has been admitted.
pub struct ClientRequest {
    /// The method.
    pub method: Method,
    /// The target in origin form; `*` for `OPTIONS *`.
    pub target: PathAndQuery,
    /// The protocol's version.
    pub version: Version,
    /// The header fields, as they came.
    pub headers: Headers,
    /// The body, to be pulled; [`Body::empty`] where there is none.
    pub body: Body,
    /// The connection that it came on.
    pub connection: Arc<Connection>,
    /// Who takes interim answers, if the client can.
    pub interim: Option<Arc<dyn Interim>>,
    /// Whether the client asks to speak another protocol from here on; the field `Upgrade` says which.
    pub upgrade: bool,
    /// Whether the client takes trailers.
    pub trailers: bool,
    /// How long is waited for the body, if it is still to come.
    pub patience: Option<Arc<dyn Patience>>,
}
