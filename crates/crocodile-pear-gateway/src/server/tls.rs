//! TLS with clients (versions 1.2 and 1.3): the handshake, and the connection behind it.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The versions of HTTP that clients may choose, the preferred one first.
const OFFERS: [&[u8]; 1] = [b"http/1.1"];

/// Encrypted bytes that wait for the socket: two records, so that the next is encrypted while one is sent.
const OUTGOING: usize = 32 * 1024;

/// The version of HTTP that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
}

/// What the handshake found out.
#[derive(Debug)]
pub struct Secured {
    /// The name that the client asked for.
    pub name: Option<String>,
}

/// TLS at one listener. Its certificates may be replaced while it serves.
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
}

/// Why a certificate cannot be used.
#[derive(Debug)]
pub enum Unfit {
    /// The file of the certificate is not what it should be.
    Certificate(&'static str),
    /// The file of the key is not what it should be.
    Key(&'static str),
}

impl Tls {
    /// With this certificate and its chain, and its key, both PEM.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Self, Unfit> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = match chain {
            Ok(chain) if chain.is_empty() => return Err(Unfit::Certificate("there is no certificate in this file")),
            Ok(chain) => chain,
            Err(_) => return Err(Unfit::Certificate("this file is no valid PEM")),
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Unfit::Key("there is no key in this file"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for every version");
        let mut config = builder.with_no_client_auth().with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Unfit::Key("the key is not that of the certificate"),
            rustls::Error::InvalidCertificate(_) => Unfit::Certificate("the certificate cannot be read"),
            _ => Unfit::Key("the key is of no kind that can be used"),
        })?;
        config.alpn_protocols = OFFERS.iter().map(|name| name.to_vec()).collect();
        Ok(Tls { config: RwLock::new(Arc::new(config)) })
    }

    /// Makes the handshake with a client.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<(Stream, Protocol, Secured)> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        let accepting = TlsAcceptor::from(config).accept_with(stream, |session| {
            session.set_buffer_limit(Some(OUTGOING));
        });
        let stream = accepting.await?;
        let session = stream.get_ref().1;
        // Nothing else is offered.
        let protocol = Protocol::Http1;
        let secured = Secured { name: session.server_name().map(str::to_owned) };
        Ok((Stream(stream), protocol, secured))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub(super) struct Stream(TlsStream<TcpStream>);

impl Stream {
    /// What carries it.
    pub fn socket(&self) -> &TcpStream {
        self.0.get_ref().0
    }

    /// Whether encrypted bytes wait for the socket.
    pub fn holds(&self) -> bool {
        self.0.get_ref().1.wants_write()
    }

    /// Encrypts what there is room for, and writes what the socket takes of it.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    /// Reads and decrypts once.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }

    /// Writes what was encrypted.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    /// Says that nothing more is written.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
