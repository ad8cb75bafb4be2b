//! TLS with clients (versions 1.2 and 1.3): the handshake, and the connection behind it.

mod acquired;
mod choice;
mod client;
mod counters;
mod identity;
mod stream;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crocodile_pear::unstable::request::facts::ClientCertificate;
use crocodile_pear::unstable::runtime::socket::Socket;
use rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ProducesTickets};
use rustls::{ServerConfig, ServerConnection};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

pub use self::acquired::Acquired;
pub use self::client::{ClientTrust, Demand, Distrust, Overdue};
pub use self::counters::{HandshakeCounters, HandshakeFailure};
pub use self::identity::{Day, Identity, Unfit};
pub(super) use self::stream::Stream;

use self::choice::CertificateResolver;
use super::challenge::{ACME_TLS, Challenges};
use super::provider::provider;

/// The HTTP versions that clients may choose from, preferred first.
const OFFERS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// The most encrypted bytes that wait for the socket: two records, so that one is encrypted while the other is sent.
const OUTGOING: usize = 32 * 1024;

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// The facts from a handshake.
#[derive(Debug)]
pub struct Secured {
    /// The server name that the client sent (SNI).
    pub name: Option<String>,
    /// The verified certificate of the client.
    pub certificate: Option<Arc<ClientCertificate>>,
}

/// The TLS of one listener. Its setup can be replaced while it serves.
#[derive(Debug)]
pub struct Tls {
    current: RwLock<Arc<Current>>,
    /// Counts how handshakes ended.
    pub counters: HandshakeCounters,
}

/// The current configuration for handshakes.
#[derive(Debug)]
struct Current {
    setup: Setup,
    /// The certificates that are ordered while the listener serves (ACME).
    acquired: Vec<Arc<Acquired>>,
    config: Arc<ServerConfig>,
}

/// The inputs of a listener's TLS.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The certificates. The first is for clients that send no name or an unknown one.
    pub identities: Vec<Identity>,
    /// Which client certificates are accepted; `None` if clients are not asked for one.
    pub trust: Option<ClientTrust>,
}

impl Tls {
    /// # Errors
    /// If the system has no randomness.
    pub fn new(setup: Setup) -> Result<Self, rustls::Error> {
        // Ticket keys are replaced every 6 hours and forgotten after 12. All cores share them.
        let config = setup.config(&[], rustls::crypto::ring::Ticketer::new()?);
        let current = Arc::new(Current { setup, acquired: Vec::new(), config });
        Ok(Tls { current: RwLock::new(current), counters: HandshakeCounters::default() })
    }

    /// Uses the setup of `other` for new handshakes. Open connections are not affected.
    pub fn adopt(&self, other: &Tls) {
        let (setup, before) = (other.setup(), self.current());
        // Keeps the ticket keys, so that sessions can be resumed, unless the trusted clients have changed.
        let ticketer = match setup.trust == before.setup.trust {
            true => before.config.ticketer.clone(),
            false => other.current().config.ticketer.clone(),
        };
        self.replace(setup, before.acquired.clone(), ticketer);
    }

    /// Also uses these ordered certificates for new handshakes, as they arrive.
    pub fn acquire(&self, acquired: Vec<Arc<Acquired>>) {
        let before = self.current();
        self.replace(before.setup.clone(), acquired, before.config.ticketer.clone());
    }

    fn replace(&self, setup: Setup, acquired: Vec<Arc<Acquired>>, ticketer: Arc<dyn ProducesTickets>) {
        let config = setup.config(&acquired, ticketer);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Current { setup, acquired, config });
    }

    /// The current setup.
    pub fn setup(&self) -> Setup {
        self.current().setup.clone()
    }

    /// The certificates that clients may get: those from files and those that were ordered.
    pub fn identities(&self) -> Vec<Identity> {
        let current = self.current();
        let acquired = current.acquired.iter().filter_map(|one| one.get()).map(|one| Identity::clone(&one));
        current.setup.identities.iter().cloned().chain(acquired).collect()
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does the handshake with a client, within `limit`.
    pub(super) async fn accept(
        &self,
        stream: Socket,
        limit: Duration,
        challenges: &Challenges,
    ) -> Option<(Stream, Protocol, Secured)> {
        let current = self.current();
        let accepting = async {
            match current.acquired.is_empty() {
                true => TlsAcceptor::from(current.config.clone()).accept_with(stream, bound).await.map(Some),
                false => current.accept_or_prove(stream, challenges).await,
            }
        };
        let stream = match timeout(limit, accepting).await {
            Ok(Ok(stream)) => stream?,
            Ok(Err(error)) => return self.fail(HandshakeFailure::from_error(&error), &error),
            Err(_) => return self.fail(HandshakeFailure::Timeout, &io::ErrorKind::TimedOut.into()),
        };
        let session = stream.get_ref().1;
        self.counters.done(session.handshake_kind());
        let protocol = match session.alpn_protocol() {
            Some(HTTP2) => Protocol::Http2,
            _ => Protocol::Http1,
        };
        let shown = session.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.and_then(|shown| client::describe(shown)).map(Arc::new);
        let secured = Secured { name: session.server_name().map(str::to_owned), certificate };
        Some((Stream(stream), protocol, secured))
    }

    /// Counts a client that speaks HTTP without TLS.
    pub(super) fn count_plain(&self) {
        self.counters.fail(HandshakeFailure::NotTls);
    }

    fn fail<T>(&self, reason: HandshakeFailure, error: &io::Error) -> Option<T> {
        self.counters.fail(reason);
        tracing::debug!(reason = reason.name(), %error, "a TLS handshake with a client failed");
        None
    }
}

impl Current {
    /// Does the handshake with a client, or with an authority that checks control of a name. In the second case there
    /// is no connection to serve.
    async fn accept_or_prove(&self, stream: Socket, challenges: &Challenges) -> io::Result<Option<TlsStream<Socket>>> {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let Some(name) = asks_for_proof(&start.client_hello()) else {
            return start.into_stream_with(self.config.clone(), bound).await.map(Some);
        };
        // If no challenge is pending, the handshake fails, because the listener's own protocols are not offered.
        let proof = challenges.prove(&name).unwrap_or_else(|| self.config.clone());
        let mut proven = start.into_stream(proof).await?;
        let _ = proven.shutdown().await;
        Ok(None)
    }
}

/// The name that an authority wants proof for: it must offer this protocol and no other (RFC 8737, 3).
fn asks_for_proof(hello: &ClientHello<'_>) -> Option<String> {
    let mut offers = hello.alpn()?;
    let alone = offers.next() == Some(ACME_TLS) && offers.next().is_none();
    alone.then(|| hello.server_name().unwrap_or_default().to_owned())
}

/// Limits the bytes that wait for the socket.
fn bound(session: &mut ServerConnection) {
    session.set_buffer_limit(Some(OUTGOING));
}

impl Setup {
    fn config(&self, acquired: &[Arc<Acquired>], ticketer: Arc<dyn ProducesTickets>) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(provider().clone()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for every version");
        let builder = match &self.trust {
            Some(trust) => builder.with_client_cert_verifier(trust.verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(CertificateResolver::new(&self.identities, acquired)));
        config.alpn_protocols = OFFERS.iter().map(|name| name.to_vec()).collect();
        // Tickets are enough: a session cache would need a lock shared by all cores.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ticketer;
        Arc::new(config)
    }
}

/// TLS over a socket that is only played, as a listener has it.
#[cfg(test)]
pub(super) async fn play<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    socket: S,
    config: Arc<ServerConfig>,
) -> Stream<S> {
    Stream(TlsAcceptor::from(config).accept_with(socket, bound).await.expect("a handshake"))
}
