//! The body of a compressed answer.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use crocodile_pear::error::Error;
use crocodile_pear::flow::Pulled;
use http::HeaderMap;
use http_body::{Body, Frame};

use super::encoder::Encoder;
use super::sample;

/// What is compressed before other requests of the core have their turn: half a millisecond of gzip.
const SLICE: usize = 64 << 10;

/// A chunk of this size is worth handing on before more is compressed.
const CHUNK: usize = 16 << 10;

/// How often the density of a body is looked at anew: an archive may hold both kinds.
const LOOK: usize = 1 << 20;

/// A body whose parts go through one encoder. It is flushed when nothing more is at hand, ended when the answer is
/// whole, and only then.
pub struct Coded {
    inner: Pulled,
    encoder: Encoder,
    /// What came, and is not yet compressed.
    came: Bytes,
    out: Vec<u8>,
    /// Whether the encoder holds something that the client does not have.
    dirty: bool,
    /// What of the slice is left.
    left: usize,
    /// Bytes until density is looked at.
    look: usize,
    end: End,
}

enum End {
    /// More may come.
    Open,
    /// The last bytes are in `out`; then these.
    Trailers(Option<HeaderMap>),
    /// What is in `out` still goes, then it breaks off.
    Failed(Option<Error>),
}

impl Coded {
    /// This body in this encoder.
    pub fn new(inner: Pulled, encoder: Encoder) -> Self {
        let (came, out, end) = (Bytes::new(), Vec::new(), End::Open);
        Coded { inner, encoder, came, out, dirty: false, left: SLICE, look: 0, end }
    }

    /// Compresses some of what came.
    fn compress(&mut self) -> Result<(), Error> {
        if self.look == 0 && self.came.len() >= sample::SAMPLE {
            self.look = LOOK;
            self.encoder.store(sample::is_dense(&self.came), &mut self.out)?;
        }
        let size = self.came.len().min(self.left);
        self.encoder.write(&self.came[..size], &mut self.out)?;
        self.came.advance(size);
        self.dirty = true;
        self.left -= size;
        self.look = self.look.saturating_sub(size);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.dirty) { self.encoder.flush(&mut self.out) } else { Ok(()) }
    }

    /// Takes what the inner body gives. Whether it gave anything.
    fn take(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        let Poll::Ready(frame) = self.inner.as_mut().poll_frame(cx) else {
            self.flush()?;
            return Ok(false);
        };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => self.came = data,
            None => self.finish(None)?,
            Some(Ok(Err(frame))) => self.finish(frame.into_trailers().ok())?,
            Some(Err(error)) => {
                // What arrived is delivered; a valid end is not.
                self.flush()?;
                self.end = End::Failed(Some(error));
            }
        }
        Ok(true)
    }

    fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), Error> {
        self.end = End::Trailers(trailers);
        self.encoder.finish(&mut self.out)
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<Frame<Bytes>>>, Error> {
        loop {
            let open = matches!(self.end, End::Open);
            if self.out.len() >= CHUNK || (!self.out.is_empty() && (!open || self.left == 0)) {
                return Ok(Poll::Ready(self.chunk()));
            }
            match &mut self.end {
                End::Open => {}
                End::Trailers(trailers) => return Ok(Poll::Ready(trailers.take().map(Frame::trailers))),
                End::Failed(error) => return error.take().map_or(Ok(Poll::Ready(None)), Err),
            }
            if self.left == 0 {
                self.left = SLICE;
                // Unlike a plain wake, it lets the runtime look at its sockets first.
                let _ = pin!(tokio::task::yield_now()).poll(cx);
                return Ok(Poll::Pending);
            }
            if !self.came.is_empty() {
                self.compress()?;
            } else if !self.take(cx)? {
                self.left = SLICE;
                let chunk = self.chunk();
                return Ok(if chunk.is_some() { Poll::Ready(chunk) } else { Poll::Pending });
            }
        }
    }

    fn chunk(&mut self) -> Option<Frame<Bytes>> {
        (!self.out.is_empty()).then(|| Frame::data(std::mem::take(&mut self.out).into()))
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
                self.end = End::Failed(None);
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}
