//! The bytes of one connection to an upstream, in clear or over TLS.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::http1::scratch;
use crate::net::tls;
use crate::runtime::socket::Socket;

/// The transport of a connection's bytes.
pub(crate) enum Io {
    Clear(Socket),
    Tls(Box<tls::TlsConnection>),
}

impl Io {
    /// Reads once and hands what came to `then`; nothing came if the upstream has closed.
    pub(crate) fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        then: impl FnOnce(&mut [u8]) -> T,
    ) -> Poll<io::Result<T>> {
        scratch::read(|buf| self.poll_into(cx, buf), then)
    }

    /// The same for a head, with fewer bytes: bytes after the head are held until the body is read.
    pub(crate) fn poll_read_head<T>(
        &mut self,
        cx: &mut Context<'_>,
        then: impl FnOnce(&mut [u8]) -> T,
    ) -> Poll<io::Result<T>> {
        scratch::read_up_to(scratch::HEAD, |buf| self.poll_into(cx, buf), then)
    }

    /// Reads once, into this buffer.
    pub(crate) fn poll_into(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Clear(stream) => Pin::new(stream).poll_read(cx, buf),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }

    /// Writes what the socket takes, in one call.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (self, parts) {
            (Io::Clear(stream), [part]) => Pin::new(stream).poll_write(cx, part),
            (Io::Clear(stream), parts) => Pin::new(stream).poll_write_vectored(cx, parts),
            (Io::Tls(stream), parts) => Pin::new(stream.as_mut()).poll_write_vectored(cx, parts),
        }
    }

    /// Hands on to the socket what was written; only TLS holds something back.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Clear(_) => Poll::Ready(Ok(())),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    /// Says that nothing more is written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }

    /// Makes the socket reset when it is dropped, so that the peer does not take a cut message for a whole one.
    pub(crate) fn break_off(&mut self) {
        self.socket().reset_on_drop();
        if let Io::Tls(stream) = self {
            stream.break_off();
        }
    }

    /// Makes the kernel check whether the other side is still there while no bytes flow.
    pub(crate) fn probe(&self, every: Duration) {
        let keepalive = TcpKeepalive::new().with_time(every).with_interval(every);
        // Without it the peer is missed later. A Unix socket ends with its process.
        if let Socket::Tcp(stream) = self.socket() {
            let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
        }
    }

    fn socket(&self) -> &Socket {
        match self {
            Io::Clear(stream) => stream,
            Io::Tls(stream) => stream.socket(),
        }
    }

    /// The address at the other end; a Unix socket has none.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.socket().peer()
    }

    /// Whether TLS has chosen HTTP/2.
    pub(crate) fn chose_h2(&self) -> bool {
        matches!(self, Io::Tls(stream) if stream.chosen() == Some(b"h2"))
    }

    /// Whether an idle connection is usable: neither closed nor with unexpected data. Mostly without a system call.
    pub(crate) fn at_rest(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_into(cx, &mut ReadBuf::new(&mut [0; 1])).is_pending()
    }

    /// The same with a system call: the kernel may know what the runtime has not seen yet.
    pub(crate) fn surely_at_rest(&self) -> bool {
        // A TLS ticket that has just arrived looks like data; then a new connection is opened without need.
        let peeked = SockRef::from(self.socket()).peek(&mut [MaybeUninit::uninit(); 1]);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}
