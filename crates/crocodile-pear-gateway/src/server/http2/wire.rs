//! The bytes between the socket and `h2`: limited per turn, collected into few writes, and observed. `h2` reports
//! neither the frames that a client sends besides requests, nor when an answer has left.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use crocodile_pear::unstable::http::http1::scratch;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::super::io::Io;
use super::budget::Budget;
use super::frames::{END_HEADERS, END_STREAM, FramePart, PREFACE, Scanner, kind};

/// The most bytes read in one turn of the connection's task, so that a flood of small frames leaves time for other
/// connections.
const TURN: usize = 32 * 1024;

/// The most bytes of one read, unless bodies are arriving. `h2` handles everything in a read before it can be stopped,
/// and a SETTINGS frame of 15 bytes may change a hundred streams.
const FRAMES: usize = 1024;

/// A DATA frame of at least this size is probably followed by more.
const BULK: usize = 1024;

/// How many bytes are collected for one write; no more are accepted while the socket is blocked.
const GATHERED: usize = 64 * 1024;

/// Writes of at least this size are not copied.
const LARGE: usize = 12 * 1024;

thread_local! {
    /// The buffer for collected writes. It belongs to the thread, so that a connection with nothing to write needs
    /// none.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The bytes of one connection.
pub struct Wire {
    io: Io,
    /// Bytes read before the connection was known to be HTTP/2.
    early: Bytes,
    /// Bytes to be written, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    inbound: Scanner,
    outbound: Scanner,
    /// How many bytes may still be read in this turn.
    turn: usize,
    /// Whether more may be left to read in the next turn.
    tired: bool,
    now: Instant,
    /// When the last bytes came.
    pub heard: Instant,
    /// Since when the socket has been blocked while there are bytes to write.
    pub stalled: Option<Instant>,
    /// Since when an unfinished header block has been arriving.
    pub block: Option<Instant>,
    data: LatestData,
    /// Whether bodies are arriving.
    bulk: bool,
    pub budget: Budget,
    answers: Vec<Answer>,
    /// Requests that have not ended yet, and who waits for their end.
    coming: Vec<(u32, Option<Waker>)>,
}

/// The stream whose data came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestData {
    stream: u32,
    pub at: Instant,
    /// How many bytes of an unfinished frame have come.
    pub part: usize,
}

/// How much of an answer has left.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    stream: u32,
    /// Whether its head has left.
    pub head: bool,
    /// How many bytes of its body have left.
    pub bytes: u64,
    /// Whether its end has left.
    pub ended: bool,
    /// When a part of it last left.
    pub moved: Instant,
}

/// A handle to the wire, shared by the connection, its streams and `h2`.
#[derive(Clone)]
pub struct SharedWire(Arc<Mutex<Wire>>);

impl SharedWire {
    pub fn new(io: Io, early: Bytes) -> Self {
        let now = Instant::now();
        SharedWire(Arc::new(Mutex::new(Wire {
            io,
            early,
            out: Vec::new(),
            sent: 0,
            inbound: Scanner::behind(PREFACE.len()),
            outbound: Scanner::default(),
            turn: TURN,
            tired: false,
            now,
            heard: now,
            stalled: None,
            block: None,
            data: LatestData { stream: 0, at: now, part: 0 },
            bulk: false,
            budget: Budget::new(now),
            answers: Vec::new(),
            coming: Vec::new(),
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire {
    /// Begins another turn of the connection's task.
    pub fn begin(&mut self, now: Instant) {
        self.turn = TURN;
        self.tired = false;
        self.now = now;
    }

    /// Whether reading stopped although more may be available.
    pub fn tired(&self) -> bool {
        self.tired
    }

    /// The latest data of a stream, if no data of another stream came later.
    pub fn data_of(&self, stream: u32) -> Option<LatestData> {
        Some(self.data).filter(|data| data.stream == stream)
    }

    /// Notes that the body of this request is still arriving.
    pub fn expect_end(&mut self, stream: u32) {
        self.coming.push((stream, None));
    }

    /// Whether this request has neither ended nor been given up.
    pub fn is_coming(&self, stream: u32) -> bool {
        self.coming.iter().any(|(known, _)| *known == stream)
    }

    /// Waits until this request has ended.
    pub fn poll_came(&mut self, stream: u32, cx: &Context<'_>) -> Poll<()> {
        let Some((_, waiting)) = self.coming.iter_mut().find(|(known, _)| *known == stream) else {
            return Poll::Ready(());
        };
        *waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Begins to follow the answer of a stream.
    pub fn follow(&mut self, stream: u32) {
        let moved = self.now;
        self.answers.push(Answer { stream, head: false, bytes: 0, ended: false, moved });
    }

    /// How much of a stream's answer has left.
    pub fn answer(&self, stream: u32) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.stream == stream)
    }

    /// Stops following the answer of a stream.
    pub fn forget(&mut self, stream: u32) {
        if let Some(at) = self.answers.iter().position(|answer| answer.stream == stream) {
            self.answers.swap_remove(at);
        }
        came(&mut self.coming, stream);
    }

    /// Writes the collected bytes.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_empty() && self.stalled.is_none() {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.out.len() {
            match self.io.poll_send(cx, &[IoSlice::new(&self.out[self.sent..])]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    let left = &self.out[self.sent..self.sent + written];
                    note_sent(&mut self.outbound, left, &mut self.answers, &mut self.budget, self.now);
                    self.sent += written;
                    self.stalled = None;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.stalled.get_or_insert(self.now);
                    return Poll::Pending;
                }
            }
        }
        if Pin::new(&mut self.io).poll_flush(cx)?.is_pending() {
            self.stalled.get_or_insert(self.now);
            return Poll::Pending;
        }
        self.stalled = None;
        self.sent = 0;
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        SCRATCH.set(out);
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if !self.early.is_empty() {
            let take = buf.remaining().min(self.early.len());
            buf.put_slice(&self.early[..take]);
            self.early.advance(take);
        } else if self.turn == 0 {
            self.tired = true;
            return Poll::Pending;
        } else if self.budget.spent(self.now) {
            // The client gets an error, and nothing more of it is read.
            return Poll::Pending;
        } else if self.bulk {
            ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        } else {
            let (io, most) = (&mut self.io, buf.remaining().min(FRAMES));
            ready!(scratch::read_up_to(most, |few| Pin::new(io).poll_read(cx, few), |few| buf.put_slice(few)))?;
        }
        let bytes = &buf.filled()[before..];
        self.turn = self.turn.saturating_sub(bytes.len());
        self.heard = self.now;
        let Wire { inbound, budget, block, data, bulk, now, coming, .. } = self;
        inbound.scan(bytes, |frame| {
            if frame.begins {
                budget.received(&frame);
                *bulk = frame.kind == kind::DATA && frame.length >= BULK;
            }
            if frame.ends && frame.ends_request() {
                came(coming, frame.stream);
            }
            match frame.kind {
                kind::DATA => {
                    let before = if frame.begins { 0 } else { data.part };
                    let part = if frame.ends { 0 } else { before + frame.passed };
                    *data = LatestData { stream: frame.stream, at: *now, part };
                }
                kind::HEADERS | kind::CONTINUATION if frame.ends && frame.has(END_HEADERS) => *block = None,
                kind::HEADERS => {
                    block.get_or_insert(*now);
                }
                _ => {}
            }
        });
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let waiting = self.out.len() - self.sent;
        if waiting + length > GATHERED || (length >= LARGE && waiting > 0) {
            match self.poll_drain(cx)? {
                Poll::Ready(()) => {}
                Poll::Pending if self.out.len() - self.sent + length > GATHERED => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        if length >= LARGE && self.out.is_empty() {
            return self.poll_write_large(cx, parts);
        }
        if self.out.capacity() == 0 {
            self.out = SCRATCH.take();
        }
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
        Poll::Ready(Ok(length))
    }

    fn poll_write_large(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = self.io.poll_send(cx, parts)? else {
            self.stalled.get_or_insert(self.now);
            return Poll::Pending;
        };
        self.stalled = None;
        let mut left = written;
        for part in parts {
            let of_part = left.min(part.len());
            left -= of_part;
            note_sent(&mut self.outbound, &part[..of_part], &mut self.answers, &mut self.budget, self.now);
        }
        Poll::Ready(Ok(written))
    }

    /// Ends the connection cleanly: everything has been sent.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        self.io.close();
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Reads and drops what the client still sends. Ready at its end.
    pub fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Ok(1..) = ready!(self.io.poll_read(cx, |bytes| bytes.len())) {}
        Poll::Ready(())
    }
}

/// Notes that a request has ended.
fn came(coming: &mut Vec<(u32, Option<Waker>)>, stream: u32) {
    if let Some(at) = coming.iter().position(|(known, _)| *known == stream)
        && let (_, Some(waiting)) = coming.swap_remove(at)
    {
        waiting.wake();
    }
}

fn note_sent(outbound: &mut Scanner, bytes: &[u8], answers: &mut [Answer], budget: &mut Budget, now: Instant) {
    outbound.scan(bytes, |frame: FramePart| {
        if frame.begins {
            budget.sent(&frame);
        }
        if frame.kind > kind::HEADERS {
            return;
        }
        let Some(answer) = answers.iter_mut().find(|answer| answer.stream == frame.stream) else { return };
        answer.moved = now;
        match frame.kind {
            kind::DATA => answer.bytes += frame.passed as u64,
            _ => answer.head |= frame.ends,
        }
        answer.ended |= frame.ends && frame.has(END_STREAM);
    });
}

impl AsyncRead for SharedWire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_read(cx, buf)
    }
}

impl AsyncWrite for SharedWire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Collected bytes are written at the end of the turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
