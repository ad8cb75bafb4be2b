//! Copies bytes in both directions until both sides have ended: the tunnel of every HTTP version.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::http1::scratch;
use crocodile_pear::unstable::message::side_channel::Duplex;
use tokio::io::{AsyncRead, AsyncWrite};

use super::reply::Ending;

/// How a tunnel ended.
pub enum TunnelEnd {
    /// Both sides have received the end of the stream.
    Closed(Ending),
    /// Broken off; dropping both sides resets them.
    Broken(Ending),
}

/// Why copying has stopped.
#[derive(Clone, Copy)]
pub enum Stopped {
    /// Both sides have ended.
    Ended,
    /// The client is gone.
    Client,
    /// The upstream is gone.
    Upstream,
    /// Both sides were silent for too long.
    Idle,
}

impl Stopped {
    /// How the tunnel ended, given why copying stopped.
    pub fn ending(self) -> TunnelEnd {
        let failed = |kind, detail| Ending::Failed(Error::new(kind, detail));
        match self {
            Stopped::Ended => TunnelEnd::Closed(Ending::Whole),
            Stopped::Client => TunnelEnd::Broken(Ending::ClientGone),
            Stopped::Upstream => TunnelEnd::Broken(failed(Kind::Reset, "the upstream broke the tunnel off")),
            Stopped::Idle => TunnelEnd::Closed(failed(Kind::Timeout, "the tunnel was silent for too long")),
        }
    }
}

/// Both directions between a client and an upstream.
pub struct Directions {
    pub up: Direction,
    pub down: Direction,
}

impl Directions {
    /// Copies what is available. `flushed`: whether earlier writes to the client have left.
    pub fn poll_copy<C>(
        &mut self,
        client: &mut C,
        stream: &mut dyn Duplex,
        flushed: Poll<io::Result<()>>,
        cx: &mut Context<'_>,
    ) -> Poll<Stopped>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let upwards = self.up.copy(client, stream, cx);
        let downwards = match flushed {
            Poll::Ready(Ok(())) => self.down.copy(stream, client, cx),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Side::To)),
            Poll::Pending => Poll::Pending,
        };
        match (upwards, downwards) {
            (Poll::Ready(Err(Side::From)), _) => Poll::Ready(Stopped::Client),
            (_, Poll::Ready(Err(Side::From))) => Poll::Ready(Stopped::Upstream),
            // A side that no longer reads may have sent data before: that is passed on first.
            (Poll::Pending, _) | (_, Poll::Pending) => Poll::Pending,
            (Poll::Ready(Err(Side::To)), _) => Poll::Ready(Stopped::Upstream),
            (_, Poll::Ready(Err(Side::To))) => Poll::Ready(Stopped::Client),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(Stopped::Ended),
        }
    }

    /// Bytes passed on so far, in each direction.
    pub fn moved(&self) -> (u64, u64) {
        (self.up.bytes, self.down.bytes)
    }
}

/// The side of a copy that failed.
enum Side {
    From,
    To,
}

/// A direction. It buffers only what the other side cannot take at once.
pub struct Direction {
    unsent: Bytes,
    state: CopyState,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyState {
    Open,
    /// The source has ended.
    Ended,
    /// The destination was told about the end.
    Shut,
    /// The destination no longer accepts data.
    Refused,
}

impl Direction {
    /// A direction that first sends these bytes.
    pub fn new(first: Bytes) -> Self {
        Direction { unsent: first, state: CopyState::Open, bytes: 0 }
    }

    /// Copies what is available; ready when nothing more will be copied.
    fn copy<R, W>(&mut self, from: &mut R, to: &mut W, cx: &mut Context<'_>) -> Poll<Result<(), Side>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        loop {
            match self.state {
                CopyState::Shut => return Poll::Ready(Ok(())),
                CopyState::Refused => return Poll::Ready(Err(Side::To)),
                CopyState::Open | CopyState::Ended => {}
            }
            match ready!(self.poll_send(to, cx)) {
                Ok(()) if self.state == CopyState::Open => {}
                Ok(()) => {
                    self.state = CopyState::Shut;
                    continue;
                }
                Err(_) => {
                    self.state = CopyState::Refused;
                    continue;
                }
            }
            let waker = cx.waker();
            let read = scratch::read(
                |buf| Pin::new(&mut *from).poll_read(&mut Context::from_waker(waker), buf),
                |bytes| self.pass(bytes, to, &mut Context::from_waker(waker)),
            );
            match read {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Side::From)),
                Poll::Pending => {
                    if ready!(Pin::new(&mut *to).poll_flush(cx)).is_err() {
                        self.state = CopyState::Refused;
                        continue;
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes what is buffered, then the end of the stream.
    fn poll_send<W: AsyncWrite + Unpin + ?Sized>(&mut self, to: &mut W, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut *to).poll_write(cx, &self.unsent))?;
            self.unsent.advance(written);
            self.bytes += written as u64;
        }
        // Dropped even if it is empty: it may refer to a large buffer.
        self.unsent = Bytes::new();
        match self.state {
            CopyState::Ended => Pin::new(to).poll_shutdown(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Writes what was read, and buffers what is not accepted at once.
    fn pass<W: AsyncWrite + Unpin + ?Sized>(&mut self, bytes: &[u8], to: &mut W, cx: &mut Context<'_>) {
        if bytes.is_empty() {
            self.state = CopyState::Ended;
            return;
        }
        let written = match Pin::new(to).poll_write(cx, bytes) {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(_)) => return self.state = CopyState::Refused,
            Poll::Pending => 0,
        };
        self.bytes += written as u64;
        self.unsent = Bytes::copy_from_slice(&bytes[written..]);
    }
}
