//! The body of a compressed answer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::PulledBody;
use crocodile_pear::unstable::runtime::wake_after_sockets;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http_body::{Body, Frame};
use tokio::sync::oneshot;

use super::encoder::Encoder;
use super::pool::{self, CompressionJob, CompressionResult, FlushMode, LOAD};
use super::sample;

/// The bytes that are compressed before other requests of the core have their turn: a quarter of a millisecond of gzip.
const SLICE: usize = 64 << 10;

/// A chunk of this size is worth handing on before more is compressed.
const CHUNK: usize = 16 << 10;

/// How often the density of a body is looked at anew: an archive may hold both kinds.
const LOOK: usize = 1 << 20;

/// An answer of which so much has come is large: threads that rest may help with it.
const LARGE: usize = 1 << 20;

/// Loads of one answer that are worked on beside each other, at most.
const ABREAST: usize = 4;

/// A body whose parts go through one encoder. It is flushed when nothing more is at hand, ended when the answer is
/// whole, and only then.
pub struct Coded {
    inner: PulledBody,
    source: InnerBody,
    /// Not here while another thread works with it.
    encoder: Option<Encoder>,
    /// Bytes that are not compressed yet.
    came: VecDeque<Bytes>,
    held: usize,
    /// Work of other threads, in order.
    away: VecDeque<oneshot::Receiver<CompressionResult>>,
    /// Whether no core may compress it.
    slow: bool,
    /// The load that a thread works on, if `slow`.
    lent: Option<(BoxFuture<'static, Result<CompressionResult, Error>>, FlushMode)>,
    out: Vec<u8>,
    /// Whether the encoder holds something that the client does not have.
    dirty: bool,
    /// The rest of the slice.
    left: usize,
    /// Whether what comes is only wrapped.
    dense: bool,
    /// Bytes until that is looked at.
    look: usize,
    /// Bytes until the answer is large.
    small: usize,
    end: BodyEnd,
}

/// The state of the inner body.
enum InnerBody {
    More,
    Ended(Option<HeaderMap>),
    Failed(Error),
}

enum BodyEnd {
    /// More may come.
    Open,
    /// The last bytes are in `out`; then these.
    Trailers(Option<HeaderMap>),
    /// The body failed: `out` is still sent, then the answer breaks off.
    Failed(Option<Error>),
}

/// Whether there was something to do.
#[derive(PartialEq, Eq)]
enum Did {
    Something,
    Nothing,
}

impl Coded {
    pub fn new(inner: PulledBody, encoder: Encoder) -> Self {
        Coded {
            inner,
            source: InnerBody::More,
            encoder: Some(encoder),
            came: VecDeque::new(),
            held: 0,
            away: VecDeque::new(),
            slow: false,
            lent: None,
            out: Vec::new(),
            dirty: false,
            left: SLICE,
            dense: false,
            look: 0,
            small: LARGE,
            end: BodyEnd::Open,
        }
    }

    /// The same in an encoder that would hold a core for too long.
    pub fn slow(inner: PulledBody, encoder: Encoder) -> Self {
        Coded { slow: true, ..Coded::new(inner, encoder) }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<Frame<Bytes>>>, Error> {
        loop {
            let open = matches!(self.end, BodyEnd::Open);
            if self.out.len() >= CHUNK || (!self.out.is_empty() && (!open || self.left == 0)) {
                return Ok(Poll::Ready(self.chunk()));
            }
            match &mut self.end {
                BodyEnd::Open => {}
                BodyEnd::Trailers(trailers) => return Ok(Poll::Ready(trailers.take().map(Frame::trailers))),
                BodyEnd::Failed(error) => return error.take().map_or(Ok(Poll::Ready(None)), Err),
            }
            if self.left == 0 {
                self.left = SLICE;
                wake_after_sockets(cx.waker());
                return Ok(Poll::Pending);
            }
            if self.advance(cx)? == Did::Nothing {
                self.left = SLICE;
                let chunk = self.chunk();
                return Ok(if chunk.is_some() { Poll::Ready(chunk) } else { Poll::Pending });
            }
        }
    }

    fn chunk(&mut self) -> Option<Frame<Bytes>> {
        (!self.out.is_empty()).then(|| Frame::data(std::mem::take(&mut self.out).into()))
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Result<Did, Error> {
        if self.slow {
            return self.advance_elsewhere(cx);
        }
        if self.collect(cx)? == Did::Something {
            return Ok(Did::Something);
        }
        let enough = if self.small > 0 { 1 } else { LOAD };
        if self.held < enough && self.take(cx) == Did::Something {
            return Ok(Did::Something);
        }
        if self.lend()? == Did::Something {
            return Ok(Did::Something);
        }
        // What others work on comes before anything that is made here.
        if !self.away.is_empty() {
            return Ok(Did::Nothing);
        }
        if self.held > 0 {
            self.compress()?;
            return Ok(Did::Something);
        }
        self.settle()
    }

    /// Goes on where threads do all of the work, load by load.
    fn advance_elsewhere(&mut self, cx: &mut Context<'_>) -> Result<Did, Error> {
        if let Some((work, last)) = &mut self.lent {
            let Poll::Ready(done) = work.as_mut().poll(cx) else { return Ok(Did::Nothing) };
            let (CompressionResult { encoder, made }, last) = (done?, *last);
            (self.lent, self.encoder, self.dirty) = (None, Some(encoder), last == FlushMode::More);
            self.out.extend_from_slice(&made?);
            if last == FlushMode::Finished
                && let InnerBody::Ended(trailers) = std::mem::replace(&mut self.source, InnerBody::More)
            {
                self.end = BodyEnd::Trailers(trailers);
            }
            return Ok(Did::Something);
        }
        if self.held < LOAD && self.take(cx) == Did::Something {
            return Ok(Did::Something);
        }
        let last = match &self.source {
            InnerBody::Ended(_) if self.held <= LOAD => FlushMode::Finished,
            _ if self.held >= LOAD => FlushMode::More,
            _ if self.held > 0 || self.dirty => FlushMode::Flushed,
            InnerBody::More => return Ok(Did::Nothing),
            // Nothing is left to be delivered.
            InnerBody::Failed(_) | InnerBody::Ended(_) => return self.settle(),
        };
        self.look(LOAD)?;
        let Some(encoder) = self.encoder.take() else { return Ok(Did::Nothing) };
        let parts = self.load();
        self.lent = Some((Box::pin(pool::run(encoder, parts, last)), last));
        Ok(Did::Something)
    }

    /// Takes what another thread has made.
    fn collect(&mut self, cx: &mut Context<'_>) -> Result<Did, Error> {
        let Some(first) = self.away.front_mut() else { return Ok(Did::Nothing) };
        let Poll::Ready(done) = Pin::new(first).poll(cx) else { return Ok(Did::Nothing) };
        self.away.pop_front();
        let gone = |_| Error::new(Kind::Internal, "the answer cannot be compressed: its thread has ended");
        let CompressionResult { encoder, made } = done.map_err(gone)?;
        let made = made?;
        match &mut self.encoder {
            Some(own) => own.join(&encoder),
            None => {
                self.encoder = Some(encoder);
                self.dirty = true;
            }
        }
        if self.out.is_empty() {
            self.out = made;
        } else {
            self.out.extend_from_slice(&made);
        }
        Ok(Did::Something)
    }

    /// Takes what the inner body gives.
    fn take(&mut self, cx: &mut Context<'_>) -> Did {
        let InnerBody::More = self.source else { return Did::Nothing };
        let Poll::Ready(frame) = self.inner.as_mut().poll_frame(cx) else { return Did::Nothing };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                self.held += data.len();
                self.small = self.small.saturating_sub(data.len());
                self.came.push_back(data);
            }
            None => self.source = InnerBody::Ended(None),
            Some(Ok(Err(frame))) => self.source = InnerBody::Ended(frame.into_trailers().ok()),
            Some(Err(error)) => self.source = InnerBody::Failed(error),
        }
        Did::Something
    }

    /// Gives a load of what came to a thread that rests, if one does.
    fn lend(&mut self) -> Result<Did, Error> {
        if self.small > 0 || self.held < LOAD || self.away.len() >= ABREAST.min(*pool::WORKERS) {
            return Ok(Did::Nothing);
        }
        self.look(LOAD)?;
        if self.dense {
            return Ok(Did::Nothing);
        }
        let fork = self.encoder.as_ref().and_then(Encoder::fork);
        let forked = fork.is_some();
        if forked {
            self.flush()?;
        }
        let Some(encoder) = fork.or_else(|| self.encoder.take()) else { return Ok(Did::Nothing) };
        let (done, awaited) = oneshot::channel();
        let parts = self.load();
        if let Some(CompressionJob { encoder, parts, .. }) =
            pool::lend(CompressionJob { encoder, parts, last: FlushMode::Settled, done })
        {
            for part in parts.into_iter().rev() {
                self.held += part.len();
                self.came.push_front(part);
            }
            if !forked {
                self.encoder = Some(encoder);
            }
            return Ok(Did::Nothing);
        }
        self.away.push_back(awaited);
        // To read so much is a slice's work.
        self.left = 0;
        Ok(Did::Something)
    }

    /// The next load of what came.
    fn load(&mut self) -> Vec<Bytes> {
        let (mut parts, mut room) = (Vec::new(), LOAD);
        while let Some(mut part) = self.came.pop_front() {
            if part.len() > room {
                self.came.push_front(part.split_off(room));
            }
            room -= part.len();
            parts.push(part);
            if room == 0 {
                break;
            }
        }
        self.held -= LOAD - room;
        parts
    }

    /// Compresses some of what came.
    fn compress(&mut self) -> Result<(), Error> {
        let size = self.came.front().map_or(0, Bytes::len).min(self.left);
        self.look(size)?;
        let (Some(first), Some(encoder)) = (self.came.front_mut(), &mut self.encoder) else { return Ok(()) };
        encoder.write(&first[..size], &mut self.out)?;
        first.advance(size);
        if first.is_empty() {
            self.came.pop_front();
        }
        self.held -= size;
        self.left -= size;
        self.dirty = true;
        Ok(())
    }

    /// Looks at density from time to time.
    fn look(&mut self, size: usize) -> Result<(), Error> {
        let sample = self.came.front().filter(|first| self.look == 0 && first.len() >= sample::SAMPLE);
        if let (Some(sample), Some(encoder)) = (sample, &mut self.encoder) {
            self.dense = sample::is_dense(sample);
            // To wrap costs so little that the end of it may be looked for often.
            self.look = if self.dense { SLICE } else { LOOK };
            encoder.store(self.dense, &mut self.out)?;
        }
        self.look = self.look.saturating_sub(size);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        match &mut self.encoder {
            Some(encoder) if std::mem::take(&mut self.dirty) => encoder.flush(&mut self.out),
            _ => Ok(()),
        }
    }

    /// Ends a turn in which no more bytes are ready.
    fn settle(&mut self) -> Result<Did, Error> {
        match std::mem::replace(&mut self.source, InnerBody::More) {
            InnerBody::More => {
                self.flush()?;
                return Ok(Did::Nothing);
            }
            InnerBody::Ended(trailers) => {
                self.end = BodyEnd::Trailers(trailers);
                if let Some(encoder) = &mut self.encoder {
                    encoder.finish(&mut self.out)?;
                }
            }
            InnerBody::Failed(error) => {
                // What arrived is delivered; a valid end is not.
                self.flush()?;
                self.end = BodyEnd::Failed(Some(error));
            }
        }
        Ok(Did::Something)
    }
}

impl Body for Coded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match self.step(cx) {
            Ok(polled) => polled.map(|frame| frame.map(Ok)),
            Err(error) => {
                self.out.clear();
                self.end = BodyEnd::Failed(None);
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}
