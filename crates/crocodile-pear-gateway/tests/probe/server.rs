//! Servers to probe, each with habits of its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::stage::asked::Asked;
use crate::stage::authority::{Identity, offering};
use crate::stage::served::Served;

/// The habits of a server with its connections.
#[derive(Clone)]
pub struct Habits {
    /// Requests that a connection is good for.
    pub answers: usize,
    /// How long it may be without one.
    pub idle: Duration,
    /// Header fields of each answer, each with its end of line.
    pub fields: &'static str,
    /// How long an answer takes.
    pub pause: Duration,
}

impl Default for Habits {
    fn default() -> Self {
        let long = Duration::from_secs(600);
        Habits { answers: usize::MAX, idle: long, fields: "", pause: Duration::ZERO }
    }
}

/// Serves each connection so, until the process ends; the port.
pub fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = Option<()>> + Send + 'static,
{
    Served::begin(serve).stay().port()
}

pub fn http1(habits: Habits) -> u16 {
    listen(move |stream| speak1(stream, habits.clone()))
}

/// From the first byte on.
pub fn http2(habits: Habits) -> u16 {
    listen(move |stream| speak2(stream, habits.clone()))
}

/// HTTP/1.1, or HTTP/2 where a connection begins with it.
pub fn both(one: Habits, two: Habits) -> u16 {
    listen(move |stream| {
        let (one, two) = (one.clone(), two.clone());
        async move {
            let mut first = [0; 3];
            loop {
                match stream.peek(&mut first).await.ok()? {
                    0 => return None,
                    length if length == first.len() => break,
                    _ => {}
                }
            }
            if &first == b"PRI" { speak2(stream, two).await } else { speak1(stream, one).await }
        }
    })
}

/// TLS, with these versions of HTTP; the one that is chosen is spoken.
pub fn tls(
    identity: &Identity,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: &[&str],
    habits: Habits,
) -> u16 {
    let served = Served::secured(offering(identity.server(versions), alpn), move |stream| {
        let habits = habits.clone();
        async move {
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => speak2(stream, habits).await,
                _ => speak1(stream, habits).await,
            }
        }
    });
    served.stay().port()
}

pub fn acceptor(config: ServerConfig) -> TlsAcceptor {
    TlsAcceptor::from(Arc::new(config))
}

pub async fn speak1<T: AsyncRead + AsyncWrite + Unpin>(stream: T, habits: Habits) -> Option<()> {
    let mut stream = BufReader::new(stream);
    for _ in 0..habits.answers {
        tokio::time::timeout(habits.idle, Asked::receive(&mut stream)).await.ok()?.ok()??;
        tokio::time::sleep(habits.pause).await;
        let answer = format!("HTTP/1.1 200 OK\r\n{}content-length: 2\r\n\r\nok", habits.fields);
        stream.write_all(answer.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
    None
}

async fn speak2<T: AsyncRead + AsyncWrite + Unpin>(stream: T, habits: Habits) -> Option<()> {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(77);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.ok()?;
    for number in 1.. {
        if number > habits.answers {
            connection.graceful_shutdown();
        }
        let accepted = tokio::time::timeout(habits.idle, connection.accept()).await.ok()?;
        let (_, mut respond) = accepted?.ok()?;
        let mut body = respond.send_response(Response::new(()), false).ok()?;
        body.send_data(Bytes::from_static(b"ok"), true).ok()?;
    }
    None
}

/// Says this at once, and nothing more.
pub fn says(bytes: &'static [u8]) -> u16 {
    listen(move |mut stream| async move {
        stream.write_all(bytes).await.ok()?;
        ignore(stream).await
    })
}

/// Says this to a request, and closes the connection if it is told to.
pub fn replies(bytes: &'static [u8], then: Then) -> u16 {
    listen(move |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await.ok()?;
        stream.write_all(bytes).await.ok()?;
        match then {
            Then::Close => linger(stream).await,
            Then::Hang => ignore(stream).await,
        }
    })
}

#[derive(Clone, Copy)]
pub enum Then {
    Close,
    Hang,
}

/// Closes as servers do: what still comes is read, or the kernel's reset would take with it what was said.
pub async fn linger(mut stream: TcpStream) -> Option<()> {
    stream.shutdown().await.ok()?;
    ignore(stream).await
}

/// Reads until the other side closes.
async fn ignore(mut stream: TcpStream) -> Option<()> {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok().map(drop)
}

/// Takes a connection and closes it.
pub fn closes() -> u16 {
    listen(|stream| async move {
        drop(stream);
        None
    })
}
