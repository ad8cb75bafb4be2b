//! A server behind TLS that changes while it serves: its certificate, its protocols, whether it answers at all.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::Builder;
use http::Response;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::asked::Asked;
use crate::http2::{self, converse};
use crate::served::Served;
use crate::shop::answer;

/// The manner in which a server treats connections.
#[derive(Clone)]
pub enum Manner {
    /// TLS, and the protocol that was chosen.
    Secure(Arc<ServerConfig>),
    /// The server accepts, and says nothing.
    Silent,
    /// HTTP/1.1 in the clear.
    Clear,
}

/// A server that answers `ok` to everything.
pub struct Changing {
    pub address: SocketAddr,
    manner: watch::Sender<Manner>,
    _served: Served,
}

impl Changing {
    pub fn new(config: ServerConfig) -> Self {
        let (manner, changes) = watch::channel(Manner::Secure(Arc::new(config)));
        let served = Served::begin(move |stream| serve(stream, changes.clone()));
        Changing { address: served.address, manner, _served: served }
    }

    /// From now on. Connections are closed, as by a restart.
    pub fn behave(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// Speaks TLS with this configuration from now on.
    pub fn secure(&self, config: ServerConfig) {
        self.behave(Manner::Secure(Arc::new(config)));
    }
}

async fn serve(stream: TcpStream, mut manner: watch::Receiver<Manner>) {
    let now = manner.borrow_and_update().clone();
    let served = async {
        match now {
            Manner::Silent => std::future::pending().await,
            Manner::Clear => http1(stream).await,
            Manner::Secure(config) => {
                let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
                match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => converse(stream, Builder::new(), ok).await,
                    _ => http1(stream).await,
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        _ = manner.changed() => {}
    }
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(_)) = Asked::receive(&mut stream).await {
        if stream.write_all(&answer(200, "", "ok")).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

async fn ok((_, mut respond): http2::Asked) -> Option<()> {
    let mut body = respond.send_response(Response::new(()), false).ok()?;
    body.send_data(Bytes::from_static(b"ok"), true).ok()
}
