//! A connection that speaks another protocol from here on: bytes in both directions, until both sides have ended.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use crocodile_pear::error::{Error, Kind};
use crocodile_pear::flow::Tunnel;
use crocodile_pear::http1::scratch;
use crocodile_pear::spec::Timeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::super::Ending;
use super::wire::Wire;

/// One direction. It has no buffer but for what the other side does not take at once.
struct Way {
    unsent: Bytes,
    ended: bool,
    shut: bool,
    bytes: u64,
}

impl Way {
    fn new(first: Bytes) -> Self {
        Way { unsent: first, ended: false, shut: false, bytes: 0 }
    }

    /// Writes what was read; what is not taken at once is kept.
    fn pass<W: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        bytes: &[u8],
        to: &mut W,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        if bytes.is_empty() {
            self.ended = true;
            return Ok(());
        }
        let written = match Pin::new(to).poll_write(cx, bytes) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        self.bytes += written as u64;
        self.unsent = Bytes::copy_from_slice(&bytes[written..]);
        Ok(())
    }
}

/// Sends the head, then copies until both sides have ended, one has failed, or both were silent for too long. `bytes`
/// counts those for the client.
pub async fn run(wire: &mut Wire, head: Vec<u8>, tunnel: Tunnel, bytes: &mut u64) -> Ending {
    let Tunnel { mut stream, early, idle } = tunnel;
    let first = [head.as_slice(), &early].concat();
    let mut down = Way::new(first.into());
    let mut up = Way::new(std::mem::take(&mut wire.held).into());
    let mut moved = Instant::now();
    let ended = poll_fn(|cx| {
        let before = (up.bytes, down.bytes);
        let upwards = copy(&mut wire.io, stream.as_mut(), &mut up, cx);
        let downwards = copy(stream.as_mut(), &mut wire.io, &mut down, cx);
        match (upwards, downwards) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(ended()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(Ending::Whole),
            _ => {}
        }
        if before != (up.bytes, down.bytes) {
            moved = Instant::now();
        }
        match idle {
            Timeout::After(idle) => wire.poll_due(moved + idle, cx).map(|()| Ending::Whole),
            Timeout::Never => Poll::Pending,
        }
    })
    .await;
    *bytes = down.bytes.saturating_sub(head.len() as u64);
    ended
}

fn ended() -> Ending {
    Ending::Failed(Error::new(Kind::Reset, "one side of the tunnel broke off"))
}

/// Copies what is there; ready when this direction has ended and the other side knows.
fn copy<R, W>(from: &mut R, to: &mut W, way: &mut Way, cx: &mut Context<'_>) -> Poll<io::Result<()>>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    while !way.shut {
        while !way.unsent.is_empty() {
            let written = ready!(Pin::new(&mut *to).poll_write(cx, &way.unsent))?;
            way.unsent.advance(written);
            way.bytes += written as u64;
        }
        way.unsent = Bytes::new();
        if way.ended {
            ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
            way.shut = true;
            break;
        }
        let waker = cx.waker();
        let read = scratch::read(
            |buf| Pin::new(&mut *from).poll_read(&mut Context::from_waker(waker), buf),
            |bytes| way.pass(bytes, to, &mut Context::from_waker(waker)),
        );
        match read {
            Poll::Ready(passed) => passed??,
            Poll::Pending => {
                ready!(Pin::new(&mut *to).poll_flush(cx))?;
                return Poll::Pending;
            }
        }
    }
    Poll::Ready(Ok(()))
}
