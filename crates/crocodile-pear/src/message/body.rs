//! The body of an answer: bytes in memory, bytes that still have to arrive, or a value.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::Frame;

use super::side_channel::Tunnel;
use crate::error::{Error, Kind};
use crate::json::value::Value;
use crate::json::{self, Data, Raw};
use crate::offload;

/// A body that is pulled: the reader polls for the next chunk, and nothing is read before that. Dropping it cancels the
/// source behind it.
pub type PulledBody = Pin<Box<dyn http_body::Body<Data = Bytes, Error = Error> + Send>>;

pub enum AnswerBody {
    /// Bytes in memory; empty for an answer without a body.
    Bytes(Bytes),
    /// Bytes that still have to arrive.
    Pulled(PulledBody),
    /// A value that a step made. It is sent as JSON.
    Value(Value),
    /// JSON that a step made or checked.
    Json(Raw),
    /// No body: the connection speaks another protocol from here on (101).
    Tunnel(Tunnel),
}

/// No bytes, and nothing said of their length.
struct WithoutLength;

impl http_body::Body for WithoutLength {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Poll::Ready(None)
    }
}

impl From<Data> for AnswerBody {
    fn from(data: Data) -> Self {
        match data {
            Data::Value(value) => AnswerBody::Value(value),
            Data::Json(raw) => AnswerBody::Json(raw),
        }
    }
}

impl AnswerBody {
    /// A body without bytes.
    pub fn empty() -> Self {
        AnswerBody::Bytes(Bytes::new())
    }

    /// A body without bytes that says no length: the answer to a HEAD request whose GET has a length that is not known.
    pub fn without_length() -> Self {
        AnswerBody::Pulled(Box::pin(WithoutLength))
    }

    /// The number of bytes, if it is known before the body is pulled.
    pub fn length(&self) -> Option<u64> {
        match self {
            AnswerBody::Bytes(bytes) => Some(bytes.len() as u64),
            AnswerBody::Json(raw) => Some(raw.bytes().len() as u64),
            AnswerBody::Pulled(body) => body.size_hint().exact(),
            AnswerBody::Value(_) | AnswerBody::Tunnel(_) => None,
        }
    }

    /// Whether the body is known to have no bytes, or none left.
    pub fn is_empty(&self) -> bool {
        match self {
            AnswerBody::Bytes(bytes) => bytes.is_empty(),
            AnswerBody::Pulled(body) => body.is_end_stream(),
            AnswerBody::Tunnel(_) => true,
            AnswerBody::Value(_) | AnswerBody::Json(_) => false,
        }
    }

    /// The whole body as bytes, at most `bound` of them; a value is written as JSON.
    ///
    /// # Errors
    /// `Oversized` if the body is larger than `bound`, and any error that ends the body early.
    pub async fn collect(self, bound: usize) -> Result<Bytes, Error> {
        match self {
            AnswerBody::Bytes(bytes) if bytes.len() > bound => Err(oversized(bound)),
            AnswerBody::Bytes(bytes) => Ok(bytes),
            AnswerBody::Value(value) => Ok(json::to_bytes(&value)?),
            AnswerBody::Json(raw) => bounded(raw.bytes().clone(), bound),
            AnswerBody::Tunnel(_) => Err(Error::new(Kind::Unusable, "the upstream switched protocols")),
            AnswerBody::Pulled(body) => collect(body, bound).await,
        }
    }

    pub fn into_pulled(self) -> Result<PulledBody, Error> {
        match self {
            AnswerBody::Pulled(body) => Ok(body),
            AnswerBody::Bytes(bytes) => Ok(Box::pin(BytesBody(Some(bytes)))),
            AnswerBody::Json(raw) => Ok(Box::pin(BytesBody::new(raw.bytes().clone()))),
            AnswerBody::Tunnel(_) => Err(Error::new(Kind::Unusable, "the upstream switched protocols")),
            AnswerBody::Value(value) => Ok(Box::pin(BytesBody(Some(json::to_bytes(&value)?)))),
        }
    }
}

/// Bytes of a body that are read before other requests on this core get their turn: about a quarter of a millisecond.
const TURN: usize = 256 << 10;

thread_local! {
    /// The bytes of all bodies that were read whole on this thread. A body of one chunk is not counted.
    static READ_WHOLE: Cell<u64> = const { Cell::new(0) };
}

/// The number of these bytes so far.
pub fn read_whole() -> u64 {
    READ_WHOLE.get()
}

/// Counts the bytes of a body beyond those that are counted.
fn count(counted: usize, bytes: usize) -> usize {
    READ_WHOLE.set(READ_WHOLE.get().wrapping_add(bytes.saturating_sub(counted) as u64));
    counted.max(bytes)
}

/// The bytes that are read at the cost of one unit of work.
const BYTES: u64 = 40;

/// The whole of a pulled body. The usual body is one chunk, which is passed on without a copy.
async fn collect(mut body: PulledBody, bound: usize) -> Result<Bytes, Error> {
    if body.size_hint().lower() > bound as u64 {
        return Err(oversized(bound));
    }
    let Some(first) = data(&mut body).await.transpose()? else { return Ok(Bytes::new()) };
    let Some(second) = data(&mut body).await.transpose()? else { return bounded(first, bound) };
    let mut whole = BytesMut::from(first);
    let known = usize::try_from(body.size_hint().lower()).unwrap_or(0).saturating_add(second.len());
    whole.reserve(known.min(bound.saturating_sub(whole.len())));
    let mut counted = count(0, whole.capacity());
    whole.extend_from_slice(&second);
    // The chunks so far, so that a large body of unknown length is not copied while it grows.
    let (mut before, mut length, mut turn) = (Vec::new(), whole.len(), TURN);
    while let Some(chunk) = data(&mut body).await.transpose()? {
        if whole.len() >= TURN && whole.len() + chunk.len() > whole.capacity() {
            before.push(std::mem::replace(&mut whole, BytesMut::with_capacity(TURN)));
        }
        whole.extend_from_slice(&chunk);
        length += chunk.len();
        counted = count(counted, length);
        offload::spend(chunk.len() as u64 / BYTES);
        // A nearby upstream sends faster than this reads, so the loop would never yield.
        if length > turn {
            turn = length + TURN;
            tokio::task::yield_now().await;
            // Others may read as much beside it.
            offload::turn().await;
        }
        if length > bound {
            return Err(oversized(bound));
        }
    }
    if before.is_empty() {
        return bounded(whole.freeze(), bound);
    }
    before.push(whole);
    join(before, length).await
}

async fn join(parts: Vec<BytesMut>, length: usize) -> Result<Bytes, Error> {
    let mut whole = BytesMut::with_capacity(length);
    for part in parts {
        whole.extend_from_slice(&part);
        tokio::task::yield_now().await;
    }
    Ok(whole.freeze())
}

fn bounded(bytes: Bytes, bound: usize) -> Result<Bytes, Error> {
    if bytes.len() > bound { Err(oversized(bound)) } else { Ok(bytes) }
}

fn oversized(bound: usize) -> Error {
    Error::new(Kind::Oversized, format!("the body is larger than {bound} bytes"))
}

/// The next data of a body, without its trailers.
pub async fn data(body: &mut PulledBody) -> Option<Result<Bytes, Error>> {
    poll_fn(|cx| poll_data(body, cx)).await
}

/// Polls for the next data of a body.
pub fn poll_data(body: &mut PulledBody, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
    loop {
        if body.is_end_stream() {
            return Poll::Ready(None);
        }
        match std::task::ready!(body.as_mut().poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
        }
    }
}

/// Bytes in memory as a body to pull.
pub struct BytesBody(Option<Bytes>);

impl BytesBody {
    pub fn new(bytes: Bytes) -> Self {
        BytesBody(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl http_body::Body for BytesBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}
