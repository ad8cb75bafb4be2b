//! A stream used as a tunnel (RFC 8441): copies bytes in both directions until both sides have ended.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::Tunnel;
use crocodile_pear::unstable::runtime::deadline_timer::Alarm;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::StatusCode;
use http::header::{HeaderName, SEC_WEBSOCKET_ACCEPT};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::super::copy::{Direction, Directions, Stopped, TunnelEnd};
use super::super::reply::{Ending, Observed, Reply};
use super::request::framing;
use super::stream_end::{StreamOutcome, UnsentAnswer};

/// Accepts the tunnel and runs it until it ends.
pub async fn run(reply: Reply, recv: RecvStream, mut respond: SendResponse<Bytes>) -> StreamOutcome {
    let Reply { response, observer, .. } = reply;
    let mut observed = Observed { observer, bytes: 0 };
    let (mut head, body) = response.into_parts();
    let AnswerBody::Tunnel(Tunnel { mut stream, early, idle }) = body else { return StreamOutcome::Over };
    head.status = StatusCode::OK;
    // HTTP/2 has no such fields.
    let of_http1 = |name: &&HeaderName| framing(name) || **name == SEC_WEBSOCKET_ACCEPT;
    let gone: Vec<HeaderName> = head.headers.keys().filter(of_http1).cloned().collect();
    for name in gone {
        head.headers.remove(name);
    }
    let Ok(send) = respond.send_response(http::Response::from_parts(head, ()), false) else {
        return StreamOutcome::Over;
    };
    let mut client = Ends { recv, send, held: Bytes::new() };
    let mut directions = Directions { up: Direction::new(Bytes::new()), down: Direction::new(early) };
    let (mut moved, mut alarm) = (Instant::now(), Alarm::default());
    let stopped = poll_fn(|cx| {
        let before = directions.moved();
        let stopped = directions.poll_copy(&mut client, stream.as_mut(), Poll::Ready(Ok(())), cx);
        if let Poll::Ready(stopped) = stopped {
            return Poll::Ready(stopped);
        }
        if before != directions.moved() {
            moved = Instant::now();
        }
        match idle {
            Timeout::After(idle) => alarm.poll(moved + idle, cx).map(|()| Stopped::Idle),
            Timeout::Never => Poll::Pending,
        }
    })
    .await;
    let total = directions.down.bytes;
    observed.bytes = total;
    if let Stopped::Idle = stopped {
        let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_shutdown(cx))).await;
        let _ = client.send.send_data(Bytes::new(), true);
    }
    match stopped.ending() {
        TunnelEnd::Closed(how) => {
            StreamOutcome::Leaving(UnsentAnswer { stream: client.send, observed, how, total, reset: None })
        }
        TunnelEnd::Broken(how @ Ending::Failed(_)) => StreamOutcome::Leaving(UnsentAnswer {
            stream: client.send,
            observed,
            how,
            total,
            reset: Some(Reason::CANCEL),
        }),
        TunnelEnd::Broken(how) => {
            observed.end(how);
            StreamOutcome::Over
        }
    }
}

/// The client's side, as a stream of bytes.
struct Ends {
    recv: RecvStream,
    send: SendStream<Bytes>,
    /// Received but not read yet.
    held: Bytes,
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl AsyncRead for Ends {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.held.is_empty() {
            match ready!(self.recv.poll_data(cx)) {
                Some(Ok(data)) => self.held = data,
                Some(Err(_)) => return Poll::Ready(Err(reset())),
                None => return Poll::Ready(Ok(())),
            }
        }
        let take = buf.remaining().min(self.held.len());
        buf.put_slice(&self.held[..take]);
        self.held.advance(take);
        let _ = self.recv.flow_control().release_capacity(take);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ends {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.send.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(reset()));
        }
        self.send.reserve_capacity(bytes.len());
        while self.send.capacity() == 0 {
            match ready!(self.send.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                _ => return Poll::Ready(Err(reset())),
            }
        }
        let take = self.send.capacity().min(bytes.len());
        match self.send.send_data(Bytes::copy_from_slice(&bytes[..take]), false) {
            Ok(()) => Poll::Ready(Ok(take)),
            Err(_) => Poll::Ready(Err(reset())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.send.send_data(Bytes::new(), true).map_err(|_| reset()))
    }
}
