//! Sends an answer to the client: the body is read as the client takes it, and small pieces share one write.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::http::http1::{Reuse, write};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::Tunnel;
use http::Response;
use http::header::HeaderMap;
use http_body::Body as _;
use tokio::time::Instant;

use super::super::copy;
use super::super::handler::Handler;
use super::super::outgoing::{Outgoing, is_hurried, wrong_length};
use super::super::pace::TimeBalance;
use super::super::reply::{Ending, Observed, Reply};
use super::super::settings::Settings;
use super::super::shared::CoreState;
use super::client::{Client, poll_client};
use super::head::{Delimiter, Persistence, ResponseConstraints, delimit, write_end, write_head};
use super::tunnel;
use super::upload::Upload;
use super::wire::BufferedIo;

/// Pieces of at most so many bytes in total are copied into one buffer: a plain write is cheaper in the kernel than a
/// vectored one.
const JOINED: usize = 4 * 1024;

/// Small pieces are collected into one write up to this size.
const BATCH: usize = 16 * 1024;

thread_local! {
    /// The buffer in which writes are put together.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// All of it was sent; the connection is idle from then on.
    Whole(Instant),
    /// All of it was sent; the connection closes, as the answer announced.
    Last,
    /// The connection was a tunnel, which has ended.
    Switched,
    /// The answer was cut off.
    Broken,
}

/// A 101 answer and the tunnel that follows it.
pub struct Switching {
    head: Vec<u8>,
    tunnel: Tunnel,
    observed: Observed,
}

impl Switching {
    /// Sends the head and runs the tunnel until it ends.
    pub async fn run(mut self, wire: &mut BufferedIo) -> SendResult {
        let (how, sent) = match tunnel::run(wire, self.head, self.tunnel, &mut self.observed.bytes).await {
            copy::TunnelEnd::Closed(how) => (how, SendResult::Switched),
            copy::TunnelEnd::Broken(how) => (how, SendResult::Broken),
        };
        self.observed.end(how);
        sent
    }
}

/// An answer that is being sent.
pub struct ResponseSender {
    response: Response<()>,
    body: Outgoing,
    delimiter: Delimiter,
    /// The value of `Content-Length`.
    length: Option<u64>,
    persistence: Persistence,
    /// Whether the client accepts trailers.
    trailers: bool,
    began: Instant,
    at_hand: bool,
    stage: Step,
    /// The error that ends the answer once everything before it has been sent.
    failure: Option<Error>,
    pace: TimeBalance,
    observed: Observed,
}

/// The head of a 101.
fn switch(response: &Response<()>) -> Vec<u8> {
    let (mut head, status, headers) = (Vec::new(), response.status(), response.headers());
    write_head(&mut head, status, headers, Delimiter::Nothing, None, Persistence::Switching, Instant::now());
    head
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The head has not been written yet.
    Head,
    Body,
    /// The last byte was passed to the wire.
    End,
}

impl ResponseSender {
    /// # Errors
    /// A change of protocol, which is sent in another way; `None` if nothing can be sent.
    // Always inlined, as `poll` is: otherwise the second, rare caller would make the usual one slower, since `ResponseSender` would be copied.
    #[inline(always)]
    pub fn new<H: Handler>(
        reply: Reply,
        asked: &ResponseConstraints,
        wire: &mut BufferedIo,
        upload: Option<&mut Upload>,
        core: &CoreState<H>,
    ) -> Result<Self, Option<Switching>> {
        let Reply { response, observer, ready } = reply;
        let mut observed = Observed { observer, bytes: 0 };
        let (parts, body) = response.into_parts();
        let response = Response::from_parts(parts, ());
        let body = match body {
            AnswerBody::Tunnel(tunnel) => return Err(Some(Switching { head: switch(&response), tunnel, observed })),
            body => Outgoing::from_body(body),
        };
        let body = match body {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                observed.end(Ending::Failed(error));
                return Err(None);
            }
        };
        let (delimiter, length) = delimit(&response, body.length(), asked);
        let given_up = upload.is_some_and(|upload| {
            upload.answered();
            upload.given_up()
        });
        let keeps = asked.reuse == Reuse::Keep
            && delimiter != Delimiter::Close
            && !given_up
            && wire.ended.is_none()
            && !core.draining.load(Relaxed);
        let persistence = match keeps {
            // A second less than the truth: a client that sends at the last moment would find the connection closed.
            true if asked.asks_to_keep => Persistence::KeptFor(core.settings.keep_alive.as_secs().saturating_sub(1)),
            true => Persistence::Kept,
            false => Persistence::Closing,
        };
        let body = if delimiter == Delimiter::Nothing { Outgoing::Whole(Bytes::new()) } else { body };
        let at_hand = matches!(body, Outgoing::Whole(_));
        // Reset the counter, which still has bytes of the answer before.
        let _ = wire.taken();
        let began = ready.unwrap_or_else(Instant::now);
        let (trailers, stage, failure) = (asked.trailers, Step::Head, None);
        let pace = TimeBalance::default();
        Ok(ResponseSender {
            response,
            body,
            delimiter,
            length,
            persistence,
            trailers,
            began,
            at_hand,
            stage,
            failure,
            pace,
            observed,
        })
    }

    /// Continues sending until the answer ends.
    #[inline(always)]
    pub fn poll<H: Handler>(
        &mut self,
        wire: &mut BufferedIo,
        upload: &mut Option<Upload>,
        core: &CoreState<H>,
        cx: &mut Context<'_>,
    ) -> Poll<SendResult> {
        let how = ready!(self.poll_end(wire, upload, core, cx));
        self.observed.bytes = self.observed.bytes.saturating_sub(wire.unsent() as u64);
        let whole = matches!(how, Ending::Whole);
        self.observed.end(how);
        Poll::Ready(match whole {
            false => SendResult::Broken,
            true if self.persistence == Persistence::Closing => SendResult::Last,
            // In memory and accepted at once, the usual case: no time has passed, so the clock is not read again.
            true if self.at_hand => SendResult::Whole(self.began),
            true => SendResult::Whole(Instant::now()),
        })
    }

    fn poll_end<H: Handler>(
        &mut self,
        wire: &mut BufferedIo,
        upload: &mut Option<Upload>,
        core: &CoreState<H>,
        cx: &mut Context<'_>,
    ) -> Poll<Ending> {
        loop {
            match wire.poll_flush(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::ClientGone),
                Poll::Pending => {
                    if self.poll_late(wire, core, cx).is_ready() {
                        return Poll::Ready(Ending::ClientSlow);
                    }
                    match ready!(poll_beside(wire, upload, core, cx)) {
                        Some(ending) => return Poll::Ready(ending),
                        None => continue,
                    }
                }
            }
            if let Some(error) = self.failure.take() {
                return Poll::Ready(Ending::Failed(error));
            }
            if self.stage == Step::End {
                return Poll::Ready(Ending::Whole);
            }
            let before = self.observed.bytes;
            let filled = self.fill(wire, cx);
            // It has closed its side but still reads, so it has not left.
            if self.observed.bytes > before && wire.ended.is_some() {
                wire.ended = Some(Instant::now());
            }
            match filled {
                Ok(Poll::Pending) if wire.unsent() == 0 => {
                    if let Some(ending) = ready!(poll_beside(wire, upload, core, cx)) {
                        return Poll::Ready(ending);
                    }
                }
                Ok(_) => {}
                Err(Stop::Client) => return Poll::Ready(Ending::ClientGone),
                Err(Stop::Body(error)) => {
                    self.body = Outgoing::Whole(Bytes::new());
                    self.failure = Some(error);
                }
            }
        }
    }

    /// The socket accepts nothing: checks whether that has lasted too long.
    fn poll_late<H: Handler>(&mut self, wire: &mut BufferedIo, core: &CoreState<H>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(since) = wire.stalled() else { return Poll::Pending };
        let Settings { write, min_rate, .. } = &core.settings;
        let mut due = since + *write;
        if let Some(rate) = min_rate.as_ref().filter(|_| self.hurried()) {
            let (bytes, waited) = wire.taken();
            self.pace.moved(waited, bytes, rate, *write);
            due = due.min(self.pace.due(since, rate));
        }
        wire.alarm.poll(due, cx)
    }

    /// Whether a minimum rate applies to the answer. Streams have none.
    fn hurried(&self) -> bool {
        is_hurried(self.response.headers(), self.response.extensions())
    }

    /// Writes what is available: the head and the pieces of the body. Ready when the socket may accept more.
    fn fill(&mut self, wire: &mut BufferedIo, cx: &mut Context<'_>) -> Result<Poll<()>, Stop> {
        let mut out = SCRATCH.take();
        out.clear();
        if self.stage == Step::Head {
            let (status, headers) = (self.response.status(), self.response.headers());
            write_head(&mut out, status, headers, self.delimiter, self.length, self.persistence, self.began);
            self.stage = Step::Body;
        }
        let filled = self.gather(&mut out, cx);
        let filled = match filled {
            // Sends what came before the failure.
            Err(stop) => {
                let _ = wire.send(cx, &out, Bytes::new(), b"");
                Err(stop)
            }
            Ok(Gathered { data, tail, more }) if !out.is_empty() || !data.is_empty() => {
                wire.send(cx, &out, data, tail).map(|()| more).map_err(Stop::from)
            }
            Ok(Gathered { more, .. }) => Ok(more),
        };
        SCRATCH.set(out);
        filled
    }

    /// Collects pieces for one write.
    fn gather(&mut self, out: &mut Vec<u8>, cx: &mut Context<'_>) -> Result<Gathered, Stop> {
        loop {
            let frame = match &mut self.body {
                Outgoing::Whole(whole) => {
                    let whole = std::mem::take(whole);
                    self.stage = Step::End;
                    self.observed.bytes += whole.len() as u64;
                    if let Delimiter::Length(length) = self.delimiter
                        && length != whole.len() as u64
                    {
                        return Err(Stop::Body(wrong_length(whole.len() as u64, length)));
                    }
                    return Ok(join(out, whole, b"", Poll::Ready(())));
                }
                Outgoing::Pulled(body) => body.as_mut().poll_frame(cx),
            };
            let frame = match frame {
                Poll::Pending => return Ok(Gathered::nothing(Poll::Pending)),
                Poll::Ready(None) => {
                    self.finish(out, None)?;
                    return Ok(Gathered::nothing(Poll::Ready(())));
                }
                Poll::Ready(Some(Err(error))) => return Err(Stop::Body(error)),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let data = match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => data,
                Err(frame) => {
                    self.finish(out, frame.into_trailers().ok().filter(|_| self.trailers))?;
                    return Ok(Gathered::nothing(Poll::Ready(())));
                }
            };
            let more = data.len() as u64;
            self.observed.bytes += more;
            let tail: &'static [u8] = match &mut self.delimiter {
                Delimiter::Length(left) => {
                    *left = left.checked_sub(more).ok_or_else(|| Stop::Body(wrong_length(more, *left)))?;
                    b""
                }
                Delimiter::Chunks => {
                    write::chunk_size(out, data.len());
                    b"\r\n"
                }
                Delimiter::Close | Delimiter::Nothing => b"",
            };
            if self.at_end() {
                self.stage = Step::End;
                return Ok(join(out, data, tail, Poll::Ready(())));
            }
            if data.len() > JOINED {
                return Ok(Gathered { data, tail, more: Poll::Ready(()) });
            }
            out.extend_from_slice(&data);
            out.extend_from_slice(tail);
            if out.len() >= BATCH {
                return Ok(Gathered::nothing(Poll::Ready(())));
            }
        }
    }

    /// Whether everything that was promised is here, and nothing can follow.
    fn at_end(&self) -> bool {
        match &self.body {
            Outgoing::Pulled(body) => self.delimiter == Delimiter::Length(0) && body.is_end_stream(),
            Outgoing::Whole(_) => true,
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, trailers: Option<HeaderMap>) -> Result<(), Stop> {
        self.stage = Step::End;
        match self.delimiter {
            Delimiter::Chunks => write_end(out, trailers.as_ref()),
            Delimiter::Length(left @ 1..) => return Err(Stop::Body(wrong_length(0, left))),
            _ => {}
        }
        Ok(())
    }
}

/// Reads from the client while the answer is sent. Returns the end of the answer if the client ends it.
fn poll_beside<H: Handler>(
    wire: &mut BufferedIo,
    upload: &mut Option<Upload>,
    core: &CoreState<H>,
    cx: &mut Context<'_>,
) -> Poll<Option<Ending>> {
    poll_client(wire, upload, core, cx).map(|client| match client {
        Client::Moved => None,
        Client::Gone => Some(Ending::ClientGone),
        Client::LateBody => Some(Ending::ClientSlow),
    })
}

/// Why sending stops early.
enum Stop {
    Client,
    Body(Error),
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Stop::Client
    }
}

/// The collected bytes, the step after them, and whether more may be available.
struct Gathered {
    data: Bytes,
    tail: &'static [u8],
    more: Poll<()>,
}

impl Gathered {
    fn nothing(more: Poll<()>) -> Self {
        Gathered { data: Bytes::new(), tail: b"", more }
    }
}

/// Copies a small piece to the end of the buffer.
fn join(out: &mut Vec<u8>, data: Bytes, tail: &'static [u8], more: Poll<()>) -> Gathered {
    if data.len() > JOINED {
        return Gathered { data, tail, more };
    }
    out.extend_from_slice(&data);
    out.extend_from_slice(tail);
    Gathered::nothing(more)
}
