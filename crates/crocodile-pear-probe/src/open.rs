//! Connections to the server that is probed, each step timed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, HandshakeKind};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dial::{Dial, Opening};
use crate::link::ProbeConnection;
use crate::trouble::{Trouble, TroubleCause};
use crate::trust::{ProbeTls, Sessions};
use crate::way::{Http, ProtocolStack};

impl Dial {
    /// A connection without anything of those before it.
    pub async fn open(&self, way: ProtocolStack) -> Result<ProbeConnection, Trouble> {
        self.open_with(way, self.config(way, Sessions::Never).as_ref()).await
    }

    pub fn config(&self, way: ProtocolStack, sessions: Sessions) -> Option<Arc<ClientConfig>> {
        let trust = self.trust.as_ref()?;
        Some(trust.config(way.tls?, way.http, sessions))
    }

    pub async fn open_with(
        &self,
        way: ProtocolStack,
        config: Option<&Arc<ClientConfig>>,
    ) -> Result<ProbeConnection, Trouble> {
        let begun = Instant::now();
        let stream = connect(self.address, self.limit()).await?;
        let mut opening = Opening { connect: begun.elapsed(), tls: None, resumed: false };
        let (Some(config), Some(trust)) = (config, &self.trust) else {
            return ProbeConnection::new(stream, way.http, opening).await;
        };
        let begun = Instant::now();
        let stream = self.shake(stream, config, trust).await?;
        let session = stream.get_ref().1;
        opening.tls = Some(begun.elapsed());
        opening.resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let chosen = session.alpn_protocol();
        // A server without ALPN speaks HTTP/1.1.
        if chosen.is_some_and(|chosen| chosen != way.http.alpn()) || (chosen.is_none() && way.http == Http::Two) {
            let what = format!("the upstream does not choose {} in the TLS handshake", way.http.label());
            return Err(Trouble::new(TroubleCause::Foreign, what));
        }
        ProbeConnection::new(stream, way.http, opening).await
    }

    async fn shake(
        &self,
        stream: TcpStream,
        config: &Arc<ClientConfig>,
        trust: &ProbeTls,
    ) -> Result<TlsStream<TcpStream>, Trouble> {
        let limit = self.limit();
        let shaking = TlsConnector::from(config.clone()).connect(trust.name.clone(), stream);
        let shaken = timeout(limit, shaking).await.map_err(|_| Trouble::late("no end of the TLS handshake", limit))?;
        shaken.map_err(|error| Trouble::shaking(&error))
    }
}

pub async fn connect(address: SocketAddr, limit: Duration) -> Result<TcpStream, Trouble> {
    let connected = timeout(limit, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| Trouble::late("no connection", limit))?;
    let stream = stream.map_err(|error| Trouble::connecting(&error))?;
    // The gateway does the same. A failure changes nothing.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
