//! TLS to a database, as its client asks for it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

use crate::upstream::{Judge, Shown, Verifier};

/// Makes TLS of connections.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl Tls {
    /// Encrypts, and takes any certificate: what libpq does for `prefer`, and for `require` without an authority.
    pub fn unverified() -> Self {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.expect("the provider has suites for every version");
        let anyone = Arc::new(Verifier::new(Anyone, provider));
        let config = builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth();
        Tls::of(config)
    }

    fn of(mut config: ClientConfig) -> Self {
        // A server that begins with TLS at once (`sslnegotiation=direct`) insists on it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Tls(Arc::new(config).into())
    }

    /// Takes certificates of these authorities, as PEM, for the name of the host; by default of the public ones.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn verified(authorities: Option<&[u8]>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match authorities {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|_| "this file is not valid PEM")?;
                    roots.add(certificate).map_err(|_| "a certificate in this file cannot be read")?;
                }
            }
        }
        if roots.is_empty() {
            return Err("there is no certificate in this file".to_owned());
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("the provider has suites for every version");
        Ok(Tls::of(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}

/// Takes every certificate.
#[derive(Debug)]
struct Anyone;

impl Judge for Anyone {
    fn judge(&self, _: &Shown<'_>) -> Result<(), rustls::Error> {
        Ok(())
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        // It is asked for before it is known whether there will be TLS: a Unix socket has none, and no name.
        Ok(Handshake { connector: self.0.clone(), host: host.to_owned() })
    }
}

/// A handshake with one server.
pub struct Handshake {
    connector: TlsConnector,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            self.connector.connect(name, socket).await.map(|stream| Encrypted(Box::new(stream)))
        })
    }
}

/// A connection with TLS.
pub struct Encrypted(Box<client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
