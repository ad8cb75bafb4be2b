//! Connections to the probed server: how they are opened, how long each step takes, and the requests on them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, HandshakeKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::target::Target;
use crate::trouble::{Trouble, TroubleCause};
use crate::trust::{ProbeTls, Sessions};
use crate::way::{Http, ProtocolStack};

/// A server whose answers are longer is not asked for a small thing; what they cost would be the body's.
const MAX_BODY: u64 = 16 << 20;

/// The window of HTTP/2: more than any body that is probed.
const WINDOW: u32 = 32 << 20;

/// All that a connection needs to know.
pub struct Dial {
    pub target: Target,
    pub address: SocketAddr,
    /// The trusted certificates; `None` for http.
    pub trust: Option<ProbeTls>,
    /// The header fields of each request.
    pub headers: HeaderMap,
    /// How long a step may take.
    pub patience: Duration,
    /// When everything ends.
    pub deadline: Instant,
}

/// The times of opening a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub connect: Duration,
    pub tls: Option<Duration>,
    /// Whether a session of TLS was taken up again.
    pub resumed: bool,
}

/// An open connection, closed when it is dropped.
pub struct ProbeConnection {
    sender: Sender,
    /// Moves the bytes; what it says at its end, if it was not the server's leave.
    driver: JoinHandle<Option<Trouble>>,
    answered: bool,
    pub opening: Opening,
}

enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(h2::client::SendRequest<Bytes>),
}

enum Body {
    One(hyper::body::Incoming),
    Two(h2::RecvStream),
}

#[derive(Clone, Debug)]
pub struct Got {
    pub status: StatusCode,
    pub version: Version,
    pub headers: HeaderMap,
    pub bytes: u64,
    /// From the request to the head of the answer.
    pub first: Duration,
    /// From the request to the end of the answer.
    pub whole: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerClose {
    Close,
    /// By a frame that says so (RFC 9113, 6.8).
    GoAway,
}

impl Dial {
    /// How long the next step may take.
    pub fn limit(&self) -> Duration {
        self.patience.min(self.deadline.saturating_duration_since(Instant::now()))
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

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

impl ProbeConnection {
    pub async fn new<T>(io: T, http: Http, opening: Opening) -> Result<Self, Trouble>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = match http {
            Http::One => {
                let (sender, connection) =
                    http1::handshake(TokioIo::new(io)).await.map_err(|error| Trouble::http1(&error))?;
                (
                    Sender::One(sender),
                    tokio::spawn(async { connection.await.err().map(|error| Trouble::http1(&error)) }),
                )
            }
            Http::Two => {
                let mut builder = h2::client::Builder::new();
                builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).enable_push(false);
                let (sender, connection) = builder.handshake(io).await.map_err(|error| Trouble::http2(&error))?;
                (
                    Sender::Two(sender),
                    tokio::spawn(async { connection.await.err().map(|error| Trouble::http2(&error)) }),
                )
            }
        };
        Ok(ProbeConnection { sender, driver, answered: false, opening })
    }

    /// Asks once, and reads the whole answer.
    pub async fn get(&mut self, dial: &Dial) -> Result<Got, Trouble> {
        let (begun, limit) = (Instant::now(), dial.limit());
        let head = timeout(limit, self.ask(dial)).await;
        let (head, body) = head.map_err(|_| Trouble::late("no answer to the request", limit))??;
        let first = begun.elapsed();
        let read = timeout(limit.saturating_sub(first), body.count()).await;
        let bytes = read.map_err(|_| Trouble::late("the answer does not end", limit))??;
        self.answered = true;
        let (status, version, headers) = (head.status, head.version, head.headers);
        Ok(Got { status, version, headers, bytes, first, whole: begun.elapsed() })
    }

    async fn ask(&mut self, dial: &Dial) -> Result<(http::response::Parts, Body), Trouble> {
        match self.send(dial).await {
            // A server that speaks first, or objects to what TLS has told it, is known to the driver alone.
            Err(trouble) if trouble.cause == TroubleCause::Ended && !self.answered => {
                let told = (&mut self.driver).await.ok().flatten();
                Err(told.filter(|told| told.cause != TroubleCause::Ended).unwrap_or(trouble))
            }
            outcome => outcome,
        }
    }

    async fn send(&mut self, dial: &Dial) -> Result<(http::response::Parts, Body), Trouble> {
        match &mut self.sender {
            Sender::One(sender) => {
                let failed = |error: hyper::Error| Trouble::http1(&error);
                sender.ready().await.map_err(failed)?;
                let (head, body) = sender.send_request(request(dial, Http::One)).await.map_err(failed)?.into_parts();
                Ok((head, Body::One(body)))
            }
            Sender::Two(sender) => {
                let failed = |error: h2::Error| Trouble::http2(&error);
                let mut ready = sender.clone().ready().await.map_err(failed)?;
                let request = request(dial, Http::Two).map(|_: Empty<Bytes>| ());
                let (answer, _) = ready.send_request(request, true).map_err(failed)?;
                let (head, body) = answer.await.map_err(failed)?.into_parts();
                Ok((head, Body::Two(body)))
            }
        }
    }

    /// How many calls the server allows at once, as far as it has said; nothing, if it sets no bound.
    pub fn streams(&self) -> Option<usize> {
        let Sender::Two(sender) = &self.sender else { return None };
        Some(sender.current_max_send_streams()).filter(|most| u32::try_from(*most).is_ok_and(|most| most < u32::MAX))
    }

    /// Waits until the server ends the connection.
    pub async fn ended(&mut self) {
        // The driver cannot have been joined before, and does not panic.
        let _ = (&mut self.driver).await;
    }

    pub async fn ending(&mut self) -> ServerClose {
        let Sender::Two(sender) = &self.sender else { return ServerClose::Close };
        match sender.clone().ready().await {
            Err(error) if error.is_go_away() => ServerClose::GoAway,
            _ => ServerClose::Close,
        }
    }
}

impl Drop for ProbeConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Body {
    async fn count(self) -> Result<u64, Trouble> {
        let mut total = 0;
        let mut body = self;
        while let Some(length) = body.next().await? {
            total += length;
            if total > MAX_BODY {
                let what = format!("the answer is longer than {} MiB", MAX_BODY >> 20);
                return Err(Trouble::new(TroubleCause::Broken, what).remedy("probe a path with a small answer"));
            }
        }
        Ok(total)
    }

    async fn next(&mut self) -> Result<Option<u64>, Trouble> {
        match self {
            Body::One(body) => match body.frame().await.transpose().map_err(|_| Trouble::cut())? {
                Some(frame) => Ok(Some(frame.data_ref().map_or(0, |data| data.len() as u64))),
                None => Ok(None),
            },
            Body::Two(body) => match body.data().await.transpose().map_err(|_| Trouble::cut())? {
                Some(data) => {
                    let _ = body.flow_control().release_capacity(data.len());
                    Ok(Some(data.len() as u64))
                }
                None => Ok(None),
            },
        }
    }
}

fn request(dial: &Dial, http: Http) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::GET;
    *request.headers_mut() = dial.headers.clone();
    let uri = match http {
        Http::One => {
            let host = dial.target.authority.parse().expect("an authority is visible ASCII");
            request.headers_mut().entry(header::HOST).or_insert(host);
            dial.target.path.clone()
        }
        Http::Two => {
            *request.version_mut() = Version::HTTP_2;
            request.headers_mut().remove(header::HOST);
            dial.target.url()
        }
    };
    *request.uri_mut() = uri.parse::<Uri>().expect("a part of a URL that was read");
    request
}
