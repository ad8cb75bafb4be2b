//! A connection that has changed to another protocol: copies bytes in both directions until both sides have ended.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::message::side_channel::Tunnel;
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::super::copy::{Direction, Directions, Stopped, TunnelEnd};
use super::wire::BufferedIo;

/// Sends the head, then copies until both sides have ended, one has failed, or both were silent for too long. `bytes`
/// counts what was sent to the client.
pub async fn run(wire: &mut BufferedIo, head: Vec<u8>, tunnel: Tunnel, bytes: &mut u64) -> TunnelEnd {
    let Tunnel { mut stream, early, idle } = tunnel;
    let head_length = head.len() as u64;
    let down = Direction::new([head.as_slice(), &early].concat().into());
    let up = Direction::new(std::mem::take(&mut wire.held).into());
    let mut directions = Directions { up, down };
    // Freed now: a waiting tunnel does not need them.
    drop((head, early));
    let mut moved = Instant::now();
    let stopped = poll_fn(|cx| {
        let before = directions.moved();
        // Everything written before the tunnel began must leave first.
        let flushed = wire.poll_flush(cx);
        let stopped = directions.poll_copy(&mut wire.io, stream.as_mut(), flushed, cx);
        *bytes = directions.down.bytes.saturating_sub(head_length);
        if let Poll::Ready(stopped) = stopped {
            return Poll::Ready(stopped);
        }
        if before != directions.moved() {
            moved = Instant::now();
        }
        match idle {
            Timeout::After(idle) => wire.alarm.poll(moved + idle, cx).map(|()| Stopped::Idle),
            Timeout::Never => Poll::Pending,
        }
    })
    .await;
    if let Stopped::Idle = stopped {
        // The client's side is closed with its connection. The result does not matter on either side.
        let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_shutdown(cx))).await;
    }
    stopped.ending()
}
