//! Connects to one of the hosts of a database. Each has its own time; while one does not answer, the next one is tried.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use crate::runtime::socket::{self, Socket};

/// How long the next host waits for the one before it (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// A connection, in the clear or not.
pub enum Carrier {
    /// In the clear.
    Plain(Socket),
    Secure(Box<TlsStream<Socket>>),
}

/// A host that may be connected to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DatabaseHost {
    /// A name or an address, and a port.
    Tcp(String, u16),
    /// A socket of the file system.
    Unix(PathBuf),
}

impl DatabaseHost {
    /// Opens a socket: the first address of the host that answers.
    pub(super) async fn open(&self) -> io::Result<Socket> {
        match self {
            DatabaseHost::Unix(path) => socket::connect_unix(path).await.map(Socket::from),
            DatabaseHost::Tcp(host, port) => {
                let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), *port)).await?.collect();
                let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                let attempts: Vec<_> = addresses.into_iter().map(socket::connect).collect();
                let stream = race(attempts).await.ok_or_else(none)??;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
        }
    }
}

/// The first that succeeds, or how the first of all failed; `None` if there are none. Each next one begins when one
/// has failed, or takes long.
pub(super) async fn race<F, T, E>(attempts: impl IntoIterator<Item = F>) -> Option<Result<T, E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut attempts = attempts.into_iter();
    let mut running = FuturesUnordered::new();
    let mut failed = None;
    running.push(attempts.next()?);
    loop {
        let more = attempts.size_hint().0 > 0;
        let ended = tokio::select! {
            ended = running.next() => ended,
            () = sleep(HEAD_START), if more => {
                running.extend(attempts.next());
                continue;
            }
        };
        match ended {
            Some(Ok(done)) => return Some(Ok(done)),
            Some(Err(error)) => {
                failed.get_or_insert(error);
                running.extend(attempts.next());
            }
            None => return failed.map(Err),
        }
    }
}

/// The same, within a time.
///
/// # Errors
/// Why it failed.
pub(super) async fn within<T>(time: Duration, attempt: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(time, attempt).await.unwrap_or_else(|_| Err(format!("it did not answer within {time:?}")))
}

/// Asks for TLS, as PostgreSQL does; answers whether the server has it.
pub(super) async fn asks_for_tls(socket: &mut Socket) -> io::Result<bool> {
    // The length, and the number of this request.
    socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await?;
    Ok(socket.read_u8().await? == b'S')
}

impl AsyncRead for Carrier {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Carrier::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Carrier::Secure(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Carrier::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Carrier::Secure(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Carrier::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Carrier::Secure(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Carrier::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Carrier::Secure(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends after so many milliseconds.
    async fn attempt(name: &'static str, after: u64, well: bool) -> Result<&'static str, &'static str> {
        sleep(Duration::from_millis(after)).await;
        if well { Ok(name) } else { Err(name) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_is_silent_holds_up_the_next_one_for_a_moment() {
        let begun = tokio::time::Instant::now();
        let first = race([attempt("silent", 60_000, true), attempt("answers", 10, true)]).await;
        assert_eq!((first, begun.elapsed()), (Some(Ok("answers")), Duration::from_millis(260)));
        let begun = tokio::time::Instant::now();
        let first = race([attempt("refuses", 1, false), attempt("answers", 10, true)]).await;
        assert_eq!((first, begun.elapsed()), (Some(Ok("answers")), Duration::from_millis(11)));
        let all = race([attempt("one", 1, false), attempt("two", 1, false)]).await;
        assert_eq!(all, Some(Err("one")));
    }
}
