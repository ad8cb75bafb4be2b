//! Servers under TLS, with an authority of their own: the item of the other servers, over HTTP/1.1 or HTTP/2 as is chosen.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Result;
use crate::process::Folder;
use crate::upstream::{answer, item};

/// A version of TLS.
#[derive(Clone, Copy)]
pub enum Tls {
    V12,
    V13,
}

impl Tls {
    /// The version as the configuration has it.
    pub fn version(self) -> &'static str {
        match self {
            Tls::V12 => "1.2",
            Tls::V13 => "1.3",
        }
    }

    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Tls::V12 => &rustls::version::TLS12,
            Tls::V13 => &rustls::version::TLS13,
        }
    }
}

/// An authority, and what it needs to be trusted.
pub struct Secure {
    authority: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
    _folder: Folder,
}

impl Secure {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let folder = Folder::new("keepalive-authority")?;
        let file = folder.write("ca.pem", &authority.pem())?;
        Ok(Self { authority, file, _folder: folder })
    }

    /// The file with its certificate.
    pub fn authority(&self) -> &Path {
        &self.file
    }

    /// Serves on a free port, on a thread of its own, until the process ends.
    pub fn serve(&self, tls: Tls) -> Result<SocketAddr> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &self.authority)?;
        let private = PrivateKeyDer::try_from(key.serialize_der())?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[tls.supported()])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        std::thread::Builder::new().name("secure".into()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                // A failed accept ends the server, and with it the run.
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(converse(acceptor.clone(), stream));
                }
            });
        })?;
        Ok(address)
    }
}

async fn converse(acceptor: TlsAcceptor, stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let stream = acceptor.accept(stream).await.ok()?;
    match stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        true => shared(stream).await,
        false => alone(stream).await,
    }
}

async fn alone(mut stream: TlsStream<TcpStream>) -> Option<()> {
    let answer = answer(0);
    let mut head = Vec::with_capacity(4 << 10);
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut head).await.ok().filter(|read| *read > 0)?;
        }
        head.clear();
        stream.write_all(&answer).await.ok()?;
        stream.flush().await.ok()?;
    }
}

async fn shared(stream: TlsStream<TcpStream>) -> Option<()> {
    let mut connection = h2::server::handshake(stream).await.ok()?;
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let head = http::Response::builder().header("content-type", "application/json").body(()).ok()?;
        let mut body = respond.send_response(head, false).ok()?;
        body.send_data(Bytes::from(item(0)), true).ok()?;
    }
    None
}
