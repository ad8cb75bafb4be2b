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

use crocodile_pear::scope::ClientCertificate;
use crocodile_pear::socket::Socket;
use rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ProducesTickets};
use rustls::{ServerConfig, ServerConnection};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

pub use self::acquired::Acquired;
pub use self::client::{Demand, Distrust, Overdue, Trust};
pub use self::counters::{Counters, Reason};
pub use self::identity::{Day, Identity, Unfit};
pub(super) use self::stream::Stream;

use self::choice::Choice;
use super::challenge::{ACME_TLS, Challenges};
use super::provider::provider;

/// The versions of HTTP that clients may choose, the preferred one first.
const OFFERS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// Encrypted bytes that wait for the socket: two records, so that the next is encrypted while one is sent.
const OUTGOING: usize = 32 * 1024;

/// The version of HTTP that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// What the handshake found out.
#[derive(Debug)]
pub struct Secured {
    /// The name that the client asked for.
    pub name: Option<String>,
    /// The certificate that the client has shown, verified.
    pub certificate: Option<Arc<ClientCertificate>>,
}

/// TLS at one listener. What it is set up with may be replaced while it serves.
#[derive(Debug)]
pub struct Tls {
    current: RwLock<Arc<Current>>,
    /// How handshakes ended.
    pub counters: Counters,
}

/// What handshakes are made with.
#[derive(Debug)]
struct Current {
    setup: Setup,
    /// The certificates that are ordered while it serves.
    acquired: Vec<Arc<Acquired>>,
    config: Arc<ServerConfig>,
}

/// What a listener's TLS is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The certificates; the first is for clients that ask for no name, or another one.
    pub identities: Vec<Identity>,
    /// Whose certificates clients may show; nothing, if they are asked for none.
    pub trust: Option<Trust>,
}

impl Tls {
    /// # Errors
    /// Without randomness.
    pub fn new(setup: Setup) -> Result<Self, rustls::Error> {
        // The keys of tickets are replaced every 6 hours, and forgotten after 12; all cores share them.
        let config = setup.config(&[], rustls::crypto::ring::Ticketer::new()?);
        let current = Arc::new(Current { setup, acquired: Vec::new(), config });
        Ok(Tls { current: RwLock::new(current), counters: Counters::default() })
    }

    /// Makes new handshakes with what the other one is made of. Connections go on as they are.
    pub fn adopt(&self, other: &Tls) {
        let (setup, before) = (other.setup(), self.current());
        // Sessions go on, unless other clients are trusted now: the keys of their tickets stay.
        let ticketer = match setup.trust == before.setup.trust {
            true => before.config.ticketer.clone(),
            false => other.current().config.ticketer.clone(),
        };
        self.replace(setup, before.acquired.clone(), ticketer);
    }

    /// Makes new handshakes with these certificates, too, as they are ordered.
    pub fn acquire(&self, acquired: Vec<Arc<Acquired>>) {
        let before = self.current();
        self.replace(before.setup.clone(), acquired, before.config.ticketer.clone());
    }

    fn replace(&self, setup: Setup, acquired: Vec<Arc<Acquired>>, ticketer: Arc<dyn ProducesTickets>) {
        let config = setup.config(&acquired, ticketer);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Current { setup, acquired, config });
    }

    /// What it is made of.
    pub fn setup(&self) -> Setup {
        self.current().setup.clone()
    }

    /// The certificates that clients are shown: those of files, and those that were ordered.
    pub fn identities(&self) -> Vec<Identity> {
        let current = self.current();
        let acquired = current.acquired.iter().filter_map(|one| one.get()).map(|one| Identity::clone(&one));
        current.setup.identities.iter().cloned().chain(acquired).collect()
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the handshake with a client, within this time.
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
            Ok(Err(error)) => return self.fail(Reason::of(&error), &error),
            Err(_) => return self.fail(Reason::Timeout, &io::ErrorKind::TimedOut.into()),
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

    fn fail<T>(&self, reason: Reason, error: &io::Error) -> Option<T> {
        self.counters.fail(reason);
        tracing::debug!(reason = reason.name(), %error, "a TLS handshake with a client failed");
        None
    }
}

impl Current {
    /// Makes the handshake with a client, or with an authority that asks for a proof of a name: there is nothing to serve
    /// then.
    async fn accept_or_prove(&self, stream: Socket, challenges: &Challenges) -> io::Result<Option<TlsStream<Socket>>> {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let Some(name) = asks_for_proof(&start.client_hello()) else {
            return start.into_stream_with(self.config.clone(), bound).await.map(Some);
        };
        // Nobody waits for a proof: the handshake fails, since no protocol of the listener is offered.
        let proof = challenges.prove(&name).unwrap_or_else(|| self.config.clone());
        let mut proven = start.into_stream(proof).await?;
        let _ = proven.shutdown().await;
        Ok(None)
    }
}

/// The name whose proof an authority asks for: in this protocol and no other (RFC 8737, 3).
fn asks_for_proof(hello: &ClientHello<'_>) -> Option<String> {
    let mut offers = hello.alpn()?;
    let alone = offers.next() == Some(ACME_TLS) && offers.next().is_none();
    alone.then(|| hello.server_name().unwrap_or_default().to_owned())
}

/// Bounds what waits for the socket.
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
        let mut config = builder.with_cert_resolver(Arc::new(Choice::new(&self.identities, acquired)));
        config.alpn_protocols = OFFERS.iter().map(|name| name.to_vec()).collect();
        // Tickets are enough: a memory of sessions is a lock that the cores would meet at.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ticketer;
        Arc::new(config)
    }
}
