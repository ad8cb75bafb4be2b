//! The body of a client's request: the handler asks for a piece, and the connection reads it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::http1::{BodyDecoder, MalformedMessage};
use crocodile_pear::unstable::message::side_channel::BodyPace;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::super::pace::TimeBalance;
use super::super::settings::Settings;
use super::wire::BufferedIo;

/// The connection's end.
pub struct Upload {
    decoder: BodyDecoder,
    slot: Arc<UploadSlot>,
    /// The client waits for `100 Continue`.
    expected: bool,
    pace: TimeBalance,
}

/// Passes pieces from the connection to the handler, one at a time.
struct UploadSlot(Mutex<UploadPiece>);

struct UploadPiece {
    ready: Option<Frame<Bytes>>,
    state: UploadState,
    /// Bytes that the handler has not received yet, if known.
    left: Option<u64>,
    /// Bytes that the handler has received.
    received: u64,
    /// The waker of the handler that waits for a piece, and since when.
    reader: Option<(Waker, Instant)>,
    /// The waker of the connection that reads the socket; set once the request is being handled.
    driver: Option<Waker>,
    /// The connection will look here without a wake: it has passed a piece on, and polls the handler next.
    driven: bool,
    /// The body is a stream and has no minimum rate.
    unhurried: bool,
}

enum UploadState {
    Open,
    Whole,
    Failed(Option<Error>),
    /// The handler has dropped the body.
    Unwanted,
}

/// The result of polling the body.
pub enum UploadProgress {
    /// A piece or the end was passed on.
    Some,
    /// The handler does not ask, or nothing has arrived.
    None,
}

/// The handler's end.
pub struct RequestBody(Arc<UploadSlot>);

impl UploadSlot {
    fn lock(&self) -> MutexGuard<'_, UploadPiece> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    /// A body of this length, if known; `first` has already arrived. `expected`: the client waits for `100 Continue`
    /// before it sends more.
    pub fn new(decoder: BodyDecoder, first: Bytes, left: Option<u64>, expected: bool) -> (Self, RequestBody) {
        let state = if decoder.done() && decoder.trailers.is_none() { UploadState::Whole } else { UploadState::Open };
        let ready = Some(first).filter(|first| !first.is_empty()).map(Frame::data);
        let (reader, driver) = (None, None);
        let piece = UploadPiece { ready, state, left, received: 0, reader, driver, driven: true, unhurried: false };
        let slot = Arc::new(UploadSlot(Mutex::new(piece)));
        (Upload { decoder, slot: slot.clone(), expected, pace: TimeBalance::default() }, RequestBody(slot))
    }

    /// A handle to declare that the body is a stream.
    pub fn body_pace(&self) -> Arc<dyn BodyPace> {
        self.slot.clone()
    }

    /// Whether the whole body was read from the socket.
    pub fn whole(&self) -> bool {
        self.decoder.done()
    }

    /// Whether nothing of the body has arrived.
    pub fn untouched(&self) -> bool {
        self.slot.lock().ready.is_none()
    }

    /// Whether the handler has dropped the body, so that the rest will not be read.
    pub fn given_up(&self) -> bool {
        !self.whole() && !matches!(self.slot.lock().state, UploadState::Open)
    }

    /// The answer begins, so `100 Continue` is no longer needed.
    pub fn answered(&mut self) {
        self.expected = false;
    }

    /// When the piece that the handler waits for becomes late; `None` if the handler does not wait.
    pub fn due(&self, settings: &Settings) -> Option<Instant> {
        let piece = self.slot.lock();
        let (_, since) = piece.reader.as_ref()?;
        let due = *since + settings.body;
        Some(match &settings.min_rate {
            Some(rate) if !piece.unhurried => due.min(self.pace.due(*since, rate)),
            _ => due,
        })
    }

    /// The client took too long: a waiting handler gets an error.
    pub fn give_up(&mut self, settings: &Settings) {
        let since = self.slot.lock().reader.as_ref().map(|(_, since)| *since);
        let detail = match since.is_some_and(|since| since.elapsed() < settings.body) {
            true => "the request's body arrived too slowly",
            false => "the request's body took too long to arrive",
        };
        self.hand_over(None, UploadState::Failed(Some(Error::new(Kind::SlowBody, detail))));
    }

    /// From now on, a handler that begins to ask wakes the connection.
    pub fn rest(&self, cx: &Context<'_>) {
        let mut piece = self.slot.lock();
        piece.driven = false;
        if !piece.driver.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            piece.driver = Some(cx.waker().clone());
        }
    }

    /// Reads a piece if the handler asks for one.
    ///
    /// # Errors
    /// If the client cannot be written to.
    pub fn poll(
        &mut self,
        wire: &mut BufferedIo,
        settings: &Settings,
        cx: &mut Context<'_>,
    ) -> io::Result<UploadProgress> {
        let Some(since) = self.slot.lock().reader.as_ref().map(|(_, since)| *since) else {
            return Ok(UploadProgress::None);
        };
        if self.whole() {
            self.deliver(Bytes::new());
            return Ok(UploadProgress::Some);
        }
        if std::mem::take(&mut self.expected) && wire.held.is_empty() {
            wire.send(cx, b"HTTP/1.1 100 Continue\r\n\r\n", Bytes::new(), b"")?;
        }
        if !wire.held.is_empty() {
            let mut held = std::mem::take(&mut wire.held);
            let decoded = self.decode(&mut held);
            held.drain(..decoded.as_ref().map_or(0, |(_, used)| *used));
            wire.held = held;
            self.decoded(decoded.map(|(data, _)| data), since, settings);
            return Ok(UploadProgress::Some);
        }
        let (mut ended, mut rest) = (false, Vec::new());
        let read = wire.io.poll_read(cx, |bytes| {
            ended = bytes.is_empty();
            let (data, used) = self.decode(bytes)?;
            rest.extend_from_slice(&bytes[used..]);
            Ok(data)
        });
        match read {
            Poll::Pending => return Ok(UploadProgress::None),
            Poll::Ready(Ok(decoded)) if !ended => {
                wire.held = rest;
                self.decoded(decoded, since, settings);
            }
            // Also after an error: the client is gone.
            Poll::Ready(_) => {
                wire.end();
                self.hand_over(None, UploadState::Failed(Some(cut())));
            }
        }
        Ok(UploadProgress::Some)
    }

    fn decode(&mut self, bytes: &mut [u8]) -> Result<(Bytes, usize), MalformedMessage> {
        let decoded = self.decoder.decode(bytes)?;
        Ok((Bytes::copy_from_slice(&bytes[decoded.data]), decoded.used))
    }

    /// Takes in a decoded piece. `since` is when the wait for it began.
    fn decoded(&mut self, decoded: Result<Bytes, MalformedMessage>, since: Instant, settings: &Settings) {
        match decoded {
            Ok(data) => {
                if let (Some(rate), false) = (&settings.min_rate, data.is_empty()) {
                    self.pace.moved(since.elapsed(), data.len() as u64, rate, settings.body);
                }
                self.deliver(data);
            }
            Err(MalformedMessage(_)) => self.hand_over(None, UploadState::Failed(Some(malformed()))),
        }
    }

    /// Passes data on or, if there is no more, the trailers and the end.
    fn deliver(&mut self, data: Bytes) {
        let frame = match data.is_empty() {
            // Only framing was read: read on.
            true if !self.whole() => return,
            true => self.decoder.trailers.take().map(|trailers| Frame::trailers(*trailers)),
            false => Some(Frame::data(data)),
        };
        let last = self.whole() && self.decoder.trailers.is_none();
        self.hand_over(frame, if last { UploadState::Whole } else { UploadState::Open });
    }

    fn hand_over(&mut self, frame: Option<Frame<Bytes>>, state: UploadState) {
        let mut piece = self.slot.lock();
        piece.ready = frame;
        piece.state = state;
        piece.driven = true;
        let reader = piece.reader.take();
        drop(piece);
        if let Some((reader, _)) = reader {
            reader.wake();
        }
    }
}

impl BodyPace for UploadSlot {
    fn unhurried(&self) {
        self.lock().unhurried = true;
    }

    fn received(&self) -> u64 {
        self.lock().received
    }
}

fn malformed() -> Error {
    Error::new(Kind::BadRequest, "the request's body is malformed")
}

fn cut() -> Error {
    Error::new(Kind::BadRequest, "the request's body was cut off")
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut piece = self.0.lock();
        if let Some(frame) = piece.ready.take() {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            piece.received += bytes;
            piece.left = piece.left.map(|left| left.saturating_sub(bytes));
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut piece.state {
            UploadState::Whole | UploadState::Unwanted => return Poll::Ready(None),
            UploadState::Failed(error) => {
                let error = error.take().unwrap_or_else(malformed);
                return Poll::Ready(Some(Err(error)));
            }
            UploadState::Open => {}
        }
        let asked = piece.reader.take().map(|(_, since)| since);
        piece.reader = Some((cx.waker().clone(), asked.unwrap_or_else(Instant::now)));
        // One that asks again wakes nobody. The connection reads already; woken, it would poll the handler, which would ask again.
        if asked.is_none()
            && !piece.driven
            && let Some(driver) = &piece.driver
        {
            driver.wake_by_ref();
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let piece = self.0.lock();
        piece.ready.is_none() && matches!(piece.state, UploadState::Whole)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let mut piece = self.0.lock();
        piece.reader = None;
        piece.ready = None;
        if matches!(piece.state, UploadState::Open) {
            piece.state = UploadState::Unwanted;
        }
    }
}
