//! The bytes of one client's connection, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use crocodile_pear::unstable::http::http1::scratch;
use crocodile_pear::unstable::runtime::socket::Socket;
#[cfg(test)]
use crocodile_pear_peers::played::Played;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::tls;

/// A client's connection. If it is dropped before it was [closed](Io::close), it is reset, so that no client takes a
/// cut-off answer for a complete one.
#[derive(Debug)]
pub struct Io {
    carrier: Carrier,
    closed: bool,
}

#[derive(Debug)]
enum Carrier {
    Clear(Socket),
    /// Boxed: its size would be added to connections without TLS.
    Tls(Box<tls::Stream>),
    /// A socket that is only played.
    #[cfg(test)]
    Played(Box<Played>),
    /// TLS over such a socket.
    #[cfg(test)]
    PlayedTls(Box<tls::Stream<Played>>),
}

impl Io {
    /// A connection without TLS.
    pub fn clear(stream: Socket) -> Self {
        Io { carrier: Carrier::Clear(stream), closed: false }
    }

    /// A connection whose TLS handshake is complete.
    pub fn tls(stream: tls::Stream) -> Self {
        Io { carrier: Carrier::Tls(Box::new(stream)), closed: false }
    }

    /// A connection over a socket that is only played.
    #[cfg(test)]
    pub fn played(stream: Played) -> Self {
        Io { carrier: Carrier::Played(Box::new(stream)), closed: false }
    }

    /// TLS over a socket that is only played.
    #[cfg(test)]
    pub fn played_tls(stream: tls::Stream<Played>) -> Self {
        Io { carrier: Carrier::PlayedTls(Box::new(stream)), closed: false }
    }

    /// The socket, unless it is only played.
    fn socket(&self) -> Option<&Socket> {
        match &self.carrier {
            Carrier::Clear(stream) => Some(stream),
            Carrier::Tls(stream) => Some(stream.socket()),
            #[cfg(test)]
            Carrier::Played(_) | Carrier::PlayedTls(_) => None,
        }
    }

    /// Reads once into the thread's buffer and passes the bytes to `then`; empty if the client has closed its side.
    pub fn poll_read<T>(&mut self, cx: &mut Context<'_>, then: impl FnOnce(&mut [u8]) -> T) -> Poll<io::Result<T>> {
        scratch::read(|buf| Pin::new(&mut *self).poll_read(cx, buf), then)
    }

    /// Writes what the socket accepts, in one call.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (&mut self.carrier, parts) {
            (Carrier::Clear(stream), [part]) => Pin::new(stream).poll_write(cx, part),
            (Carrier::Clear(stream), parts) => Pin::new(stream).poll_write_vectored(cx, parts),
            (Carrier::Tls(stream), parts) => stream.poll_send(cx, parts),
            #[cfg(test)]
            (Carrier::Played(stream), parts) => Pin::new(&mut **stream).poll_write_vectored(cx, parts),
            #[cfg(test)]
            (Carrier::PlayedTls(stream), parts) => stream.poll_send(cx, parts),
        }
    }

    /// Whether accepted bytes still wait for the socket. Only TLS buffers any.
    pub fn holds(&self) -> bool {
        match &self.carrier {
            Carrier::Clear(_) => false,
            Carrier::Tls(stream) => stream.holds(),
            #[cfg(test)]
            Carrier::Played(_) => false,
            #[cfg(test)]
            Carrier::PlayedTls(stream) => stream.holds(),
        }
    }

    /// Whether the client has closed its side, even if some of its bytes are unread. Costs a system call, so it is
    /// called rarely.
    pub fn looks_closed(&self, cx: &mut Context<'_>) -> bool {
        let Some(socket) = self.socket() else { return false };
        let ready = std::pin::pin!(socket.ready(Interest::READABLE)).poll(cx);
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// Marks the connection as complete: it may close cleanly.
    pub fn close(&mut self) {
        self.closed = true;
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Clear(stream) => Pin::new(stream).poll_read(cx, buf),
            Carrier::Tls(stream) => stream.poll_read(cx, buf),
            #[cfg(test)]
            Carrier::Played(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
            #[cfg(test)]
            Carrier::PlayedTls(stream) => stream.poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Carrier::Tls(stream) => stream.poll_flush(cx),
            #[cfg(test)]
            Carrier::Played(stream) => Pin::new(&mut **stream).poll_flush(cx),
            #[cfg(test)]
            Carrier::PlayedTls(stream) => stream.poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Carrier::Tls(stream) => stream.poll_shutdown(cx),
            #[cfg(test)]
            Carrier::Played(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            #[cfg(test)]
            Carrier::PlayedTls(stream) => stream.poll_shutdown(cx),
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if !self.closed {
            self.socket().into_iter().for_each(Socket::reset_on_drop);
        }
    }
}
