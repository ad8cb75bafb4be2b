//! A connection after its handshake.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use crocodile_pear::unstable::runtime::socket::Socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A connection after its handshake.
#[derive(Debug)]
pub struct Stream<S = Socket>(pub(super) TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Stream<S> {
    /// The socket below.
    pub fn socket(&self) -> &S {
        self.0.get_ref().0
    }

    /// Whether encrypted bytes wait for the socket.
    pub fn holds(&self) -> bool {
        self.0.get_ref().1.wants_write()
    }

    /// Encrypts as much as fits, and writes what the socket accepts.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    /// Reads and decrypts once.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }

    /// Writes the encrypted bytes that are waiting.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    /// Sends the end of the stream.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
