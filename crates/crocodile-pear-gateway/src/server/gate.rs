//! The gate before hyper: it lets through one admitted request at a time, and nothing else.
//!
//! hyper drops a Content-Length beside a Transfer-Encoding, a second equal Content-Length and a fragment without a word,
//! so the bytes themselves are looked at. A refused head is replaced by one that hyper can read, and the refusal
//! answers it: so every answer takes one way out.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::admit::{Bounds, Framing, Refusal, Ruling, admit};
use super::chunks::Chunks;
use super::watch::{Stage, Watch};

/// Stands for a head that was refused.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";

const LATE: Refusal =
    Refusal { status: StatusCode::REQUEST_TIMEOUT, detail: "the request's header took too long to arrive" };

/// How much is read at once of a head that comes in pieces.
const PIECE: usize = 4 * 1024;

/// A client's connection, seen as a sequence of admitted requests.
#[derive(Debug)]
pub struct Gate {
    stream: TcpStream,
    watch: Arc<Watch>,
    bounds: Bounds,
    next: Next,
    /// Bytes read and not handed on: the first `passed` may be.
    held: BytesMut,
    passed: usize,
    /// So far no end of a head was found in `held`.
    searched: usize,
    whole: bool,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Next {
    Head,
    Sized(u64),
    Chunked(Chunks),
    /// The body broke the rules.
    Broken,
    /// Nothing: the last request was refused.
    Nothing,
}

impl Gate {
    /// A gate before a connection just accepted.
    pub fn new(stream: TcpStream, watch: Arc<Watch>, bounds: Bounds) -> Self {
        Gate { stream, watch, bounds, next: Next::Head, held: BytesMut::new(), passed: 0, searched: 0, whole: false }
    }

    /// The socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Every answer went out whole: the connection may end cleanly.
    pub fn settle(&mut self) {
        self.whole = true;
    }

    /// Tells how many of `bytes` may be handed on, in the order they came.
    fn examine(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            done += match &mut self.next {
                Next::Head if self.watch.stage() == Stage::Serving => {
                    self.watch.held.store(true, Relaxed);
                    break;
                }
                Next::Head => match self.head(rest)? {
                    0 => break,
                    length => length,
                },
                Next::Sized(left) => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= step as u64;
                    if *left == 0 {
                        self.next = Next::Head;
                    }
                    step
                }
                Next::Chunked(chunks) => match chunks.follow(rest) {
                    Ok(length) => {
                        if chunks.ended() {
                            self.next = Next::Head;
                        }
                        length
                    }
                    Err((length, _)) => {
                        self.next = Next::Broken;
                        self.watch.broken.store(true, Relaxed);
                        done += length;
                        break;
                    }
                },
                Next::Broken | Next::Nothing => break,
            };
        }
        self.watch.unread.store(!matches!(self.next, Next::Head), Relaxed);
        Ok(done)
    }

    /// The length of the head that `bytes` begin with, 0 if it is not whole.
    fn head(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let hopeless = self.searched > 0 && bytes.len() < self.bounds.head && !ends(bytes, self.searched);
        let ruling = if hopeless { Ruling::Partial } else { admit(bytes, self.bounds)? };
        let Ruling::Admitted(length, framing) = ruling else {
            self.searched = bytes.len();
            self.watch.begin();
            return Ok(0);
        };
        self.searched = 0;
        self.next = match framing {
            Framing::Empty => Next::Head,
            Framing::Sized(length) => Next::Sized(length),
            Framing::Chunked => Next::Chunked(Chunks::new()),
        };
        self.watch.held.store(false, Relaxed);
        self.watch.serve();
        Ok(length)
    }

    fn refuse(&mut self, refusal: Refusal) {
        if self.watch.refusal.set(refusal).is_ok() {
            self.watch.held.store(false, Relaxed);
            self.watch.overdue.store(false, Relaxed);
            self.watch.serve();
            self.held = BytesMut::from(REFUSED);
            self.passed = self.held.len();
            self.next = Next::Nothing;
        }
    }

    /// Looks again at what is held.
    fn review(&mut self) {
        let held = std::mem::take(&mut self.held);
        let ruling = self.examine(&held);
        self.held = held;
        match ruling {
            Ok(length) => self.passed = length,
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let length = self.passed.min(buffer.remaining());
        buffer.put_slice(&self.held[..length]);
        self.held.advance(length);
        self.passed -= length;
        if self.held.is_empty() {
            self.held = BytesMut::new();
        }
    }

    /// The common way: what is read is whole and stays where hyper wants it.
    fn read_through(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<Flow>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = &buffer.filled()[before..];
        if read.is_empty() {
            return Poll::Ready(Ok(Flow::Done));
        }
        let length = match self.examine(read) {
            Ok(length) => {
                self.held.extend_from_slice(&read[length..]);
                length
            }
            Err(refusal) => {
                self.refuse(refusal);
                0
            }
        };
        buffer.set_filled(before + length);
        Poll::Ready(Ok(if length > 0 { Flow::Done } else { Flow::Again }))
    }

    /// Reads into what is held. Also while an answer is under way, or a client that leaves would not be noticed.
    fn read_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Flow>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            self.held.reserve(PIECE);
            match self.stream.try_read_buf(&mut self.held) {
                Ok(0) => return Poll::Ready(Ok(Flow::Done)),
                Ok(_) => return Poll::Ready(Ok(Flow::Again)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

enum Flow {
    Done,
    Again,
}

/// Whether an empty line ends within the bytes from `from` on.
fn ends(bytes: &[u8], from: usize) -> bool {
    let tail = &bytes[from.saturating_sub(3)..];
    tail.windows(3).any(|three| three == b"\n\r\n") || tail.windows(2).any(|two| two == b"\n\n")
}

impl AsyncRead for Gate {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let serving = this.watch.stage() == Stage::Serving;
            match this.next {
                _ if this.passed > 0 => {
                    this.hand_on(buffer);
                    return Poll::Ready(Ok(()));
                }
                Next::Nothing => return Poll::Pending,
                Next::Broken => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                Next::Head if !serving && this.watch.overdue.load(Relaxed) => {
                    this.refuse(LATE);
                    continue;
                }
                _ => {}
            }
            if this.held.len() > this.searched {
                this.review();
                if this.passed > 0 || matches!(this.next, Next::Nothing | Next::Broken) {
                    continue;
                }
            }
            let waits = serving && matches!(this.next, Next::Head);
            let flow = if waits && this.held.len() >= this.bounds.head {
                return Poll::Pending;
            } else if waits || !this.held.is_empty() {
                ready!(this.read_more(cx))?
            } else {
                ready!(this.read_through(cx, buffer))?
            };
            if let Flow::Done = flow {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Gate {
    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match written {
            Poll::Pending => self.watch.stall(),
            Poll::Ready(_) => self.watch.flow(),
        }
        written
    }
}

/// Pieces of so many bytes together are copied into one: a plain write costs the kernel less than a vectored one.
const JOINED: usize = 2048;

thread_local! {
    /// Where they are joined.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AsyncWrite for Gate {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if length > JOINED {
            let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
            return self.note(written);
        }
        SCRATCH.with_borrow_mut(|joined| {
            joined.clear();
            pieces.iter().for_each(|piece| joined.extend_from_slice(piece));
            self.poll_write(cx, joined)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Only the connection's driver knows whether the end is a clean one.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Gate {
    /// Dropped before its end, a connection is reset: no client takes for whole what ended by closing.
    fn drop(&mut self) {
        if !self.whole {
            // A socket that takes no option any more is closed already.
            let _ = self.stream.set_zero_linger();
        }
    }
}
