//! The bytes of a client's connection: those read but not used, those still to be written, and the timers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::http::http1::write::Unsent;
use crocodile_pear::unstable::runtime::deadline_timer::Alarm;
use crocodile_pear::unstable::runtime::wake_after_sockets;
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::super::io::Io;

/// The most bytes of one write. The call blocks while the kernel copies them and, on the same machine, also delivers
/// them.
const WRITE: usize = 256 << 10;

/// The most bytes written before other connections get their turn.
const TURN: usize = 1 << 20;

/// A connection. When idle it is a socket and one timer, with empty buffers.
pub struct BufferedIo {
    pub io: Io,
    /// Read but not used yet: part of a head, or pipelined requests.
    pub held: Vec<u8>,
    /// How many of the held bytes have been searched for the end of a head.
    pub searched: usize,
    out: Unsent,
    /// When the client closed its side.
    pub ended: Option<Instant>,
    /// Since when the client has not taken any of the waiting bytes.
    stalled: Option<Instant>,
    /// How many bytes of the current answer it has taken since the last call of `taken`, and how long that took.
    taken: (u64, Duration),
    /// When to check next whether the client is still there, while nothing is read.
    pub look: Option<Instant>,
    /// The timer for the client's deadlines.
    pub alarm: Alarm,
}

impl BufferedIo {
    pub fn new(io: Io) -> Self {
        BufferedIo {
            io,
            held: Vec::new(),
            searched: 0,
            out: Unsent::default(),
            ended: None,
            stalled: None,
            taken: Default::default(),
            look: None,
            alarm: Alarm::default(),
        }
    }

    /// Reads more into `held`. Returns whether anything came; nothing does once the client has closed its side.
    pub fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let held = &mut self.held;
        let came = ready!(self.io.poll_read(cx, |bytes| {
            held.extend_from_slice(bytes);
            !bytes.is_empty()
        }))?;
        if !came {
            self.end();
        }
        Poll::Ready(Ok(came))
    }

    /// Notes that the client has closed its side.
    pub fn end(&mut self) {
        self.ended.get_or_insert_with(Instant::now);
    }

    /// Drops the first bytes of `held`, and its memory if none are left.
    pub fn used(&mut self, length: usize) {
        self.held.drain(..length);
        self.searched = 0;
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }

    /// Writes what the socket accepts now. The rest is kept and leaves before anything else. Everything sent before
    /// must have left.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn send(&mut self, cx: &mut Context<'_>, lead: &[u8], data: Bytes, tail: &'static [u8]) -> io::Result<()> {
        let now = data.len().min(WRITE);
        let parts =
            [IoSlice::new(lead), IoSlice::new(&data[..now]), IoSlice::new(if now < data.len() { b"" } else { tail })];
        // A single part, the usual case, can use the cheaper system call.
        let parts = if data.is_empty() && tail.is_empty() { &parts[..1] } else { &parts };
        let written = match self.io.poll_send(cx, parts) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        self.taken.0 += written as u64;
        if written == lead.len() + data.len() + tail.len() {
            return Ok(());
        }
        let of_lead = written.min(lead.len());
        self.out = Unsent { lead: Bytes::copy_from_slice(&lead[of_lead..]), data, tail };
        self.out.advance(written - of_lead);
        Ok(())
    }

    /// Writes what is left of earlier calls.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut turn = 0;
        while !self.out.is_empty() {
            if turn >= TURN {
                wake_after_sockets(cx.waker());
                return Poll::Pending;
            }
            let Unsent { lead, data, tail } = &self.out;
            let now = data.len().min(WRITE);
            let parts = [
                IoSlice::new(lead),
                IoSlice::new(&data[..now]),
                IoSlice::new(if now < data.len() { b"" } else { tail }),
            ];
            match self.io.poll_send(cx, &parts) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    self.taken.0 += written as u64;
                    self.go_on();
                    self.out.advance(written);
                    turn += written;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.stalled.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        self.out = Unsent::default();
        if self.io.holds() {
            match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => {
                    self.stalled.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        self.go_on();
        Poll::Ready(Ok(()))
    }

    fn go_on(&mut self) {
        if let Some(since) = self.stalled.take() {
            self.taken.1 += since.elapsed();
        }
    }

    /// How many bytes wait for the socket.
    pub fn unsent(&self) -> usize {
        self.out.lead.len() + self.out.data.len() + self.out.tail.len() + usize::from(self.io.holds())
    }

    /// Since when the client has not taken any of the waiting bytes.
    pub fn stalled(&self) -> Option<Instant> {
        self.stalled
    }

    /// How many bytes it has taken since the last call, and how long that took.
    pub fn taken(&mut self) -> (u64, Duration) {
        std::mem::take(&mut self.taken)
    }
}
