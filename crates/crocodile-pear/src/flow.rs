//! What moves through a pipeline: producers. Each has a head and a body of bytes or of a value, which is pulled on
//! demand.

mod interleave;
mod order;
mod passage;

use std::future::{Ready, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, Either};
use futures_util::stream::{BoxStream, FuturesOrdered, FuturesUnordered, Stream};
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, StatusCode};
use http_body::Frame;

use crate::error::{Error, Kind};

use crate::format::xml::Lists;
pub use crate::http1::Fields;
use crate::http1::NameSet;
use crate::json::value::Value;
use crate::json::{self, Data, Raw};
pub use interleave::{Interleave, interleave};
pub use order::Order;

pub use self::passage::{Duplex, Interim, Passage, Tunnel, Upgrade};

/// A body that is pulled: the reader polls for the next chunk, and nothing is read before that. Dropping it cancels the
/// source behind it.
pub type Pulled = Pin<Box<dyn http_body::Body<Data = Bytes, Error = Error> + Send>>;

/// The body of an answer.
pub enum Body {
    /// Bytes in memory; empty for an answer without a body.
    Bytes(Bytes),
    /// Bytes that still have to arrive.
    Pulled(Pulled),
    /// A value that a step made. It is sent as JSON.
    Value(Value),
    /// JSON that a step made or checked.
    Json(Raw),
    /// No body: the connection speaks another protocol from here on (101).
    Tunnel(Tunnel),
}

/// One answer. The head has arrived; the body is pulled.
pub struct Answer {
    /// The status from the upstream, or 200 for an answer that a step made.
    pub status: StatusCode,
    /// The header fields, without hop-by-hop fields.
    pub headers: Fields,
    /// The body.
    pub body: Body,
    /// Named results that later expressions may use.
    pub names: Names,
    /// The upstream that sent it; errors in its body name this upstream.
    pub upstream: Option<Arc<str>>,
    /// For XML: the elements that are lists.
    pub lists: Lists,
    /// Whether steps use this answer whatever its status, because the call says so.
    pub accepted: bool,
    /// Why the status is an error, if a step made the answer from items that all failed.
    pub failure: Option<Error>,
}

/// Header fields that depend on the exact bytes of a body and are wrong for any other body (RFC 9110, 8 and 14.3; RFC
/// 9530).
pub const OF_BYTES: [HeaderName; 6] = [
    CONTENT_LENGTH,
    ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Header fields that describe a body: its bytes or its content.
static OF_BODY: LazyLock<NameSet> =
    LazyLock::new(|| NameSet::of(OF_BYTES.into_iter().chain([CONTENT_TYPE, CONTENT_RANGE, ETAG])));

/// Drops the header fields that describe a body, because another body replaces it.
pub fn undescribe(headers: &mut HeaderMap) {
    if headers.is_empty() {
        return;
    }
    for name in OF_BODY.iter() {
        headers.remove(name);
    }
}

/// The status after another, complete body replaces the answer's own. Statuses for a partial or an empty body do not
/// fit any more.
pub fn of_whole(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT => StatusCode::OK,
        status => status,
    }
}

/// What is known about an item besides its body. Most items have nothing.
pub type Names = Option<Arc<Named>>;

/// Named results, and the documents that an item was made from. Both are short, so they are lists.
#[derive(Clone, Default)]
pub struct Named {
    /// `$name` in expressions.
    pub values: Vec<(Arc<str>, Data)>,
    /// The URL that the item came from (key ``), the URL that the value under one of its keys came from (`key`), and
    /// the URL that a named result came from (`$name`). Recorded only where a later step follows links.
    pub bases: Vec<(Arc<str>, Base)>,
}

/// The URL of a document. Links in the document are relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The upstream's name, and the whole URL.
    At(Arc<str>, Arc<str>),
    /// Several documents, each with its own URL.
    Several,
}

impl Named {
    /// The base of this part, if it has its own.
    pub fn base(&self, part: &str) -> Option<&Base> {
        self.bases.iter().find(|(known, _)| **known == *part).map(|(_, base)| base)
    }

    /// Sets the base of a part.
    pub fn set_base(&mut self, part: &str, base: Base) {
        self.bases.retain(|(known, _)| **known != *part);
        self.bases.push((part.into(), base));
    }

    /// Replaces the bases of the item with this one, because it is another document now. The bases of named results
    /// remain.
    pub fn set_document(&mut self, base: Base) {
        self.bases.retain(|(known, _)| known.starts_with('$'));
        self.set_base("", base);
    }
}

/// The result of a producer: an answer, a failure, or nothing (a step dropped the item).
pub type Outcome = Option<Result<Answer, Error>>;

/// One response that is still to come. It is consumed once; dropping it cancels the call behind it.
pub struct Producer {
    /// The number of this producer within the request, from 0; for logs.
    pub id: u32,
    /// The name that `requests` gave it.
    pub name: Option<Arc<str>>,
    /// Resolves when the head is there.
    pub outcome: Awaited,
}

/// The outcome of a producer. An outcome that is ready needs no box.
pub enum Awaited {
    /// Ready; nothing after it was taken.
    Here(Outcome),
    /// Not ready yet.
    Later(BoxFuture<'static, Outcome>),
}

impl Awaited {
    /// An outcome that is not ready yet.
    pub fn later(outcome: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Awaited::Later(Box::pin(outcome))
    }
}

impl Future for Awaited {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self {
            Awaited::Here(outcome) => Poll::Ready(outcome.take()),
            Awaited::Later(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

/// The producers between two steps. They start when a consumer first polls, at most `at_once` of them at a time.
pub struct Flow {
    source: Source,
    at_once: usize,
}

enum Source {
    /// The usual flow: one producer, without allocating a list.
    One(Option<Sole>),
    List(std::vec::IntoIter<Producer>),
    Stream(BoxStream<'static, Producer>),
}

/// A single producer that is never ready at once. It keeps a flow of one at a few words.
struct Sole {
    id: u32,
    name: Option<Arc<str>>,
    outcome: BoxFuture<'static, Outcome>,
}

impl From<Producer> for Sole {
    fn from(Producer { id, name, outcome }: Producer) -> Self {
        let outcome = match outcome {
            Awaited::Here(outcome) => Box::pin(ready(outcome)),
            Awaited::Later(outcome) => outcome,
        };
        Sole { id, name, outcome }
    }
}

impl From<Sole> for Producer {
    fn from(Sole { id, name, outcome }: Sole) -> Self {
        Producer { id, name, outcome: Awaited::Later(outcome) }
    }
}

impl Answer {
    /// An answer with only these three parts.
    pub fn new(status: StatusCode, headers: impl Into<Fields>, body: Body) -> Self {
        let (names, upstream, lists) = (None, None, Lists::default());
        Answer { status, headers: headers.into(), body, names, upstream, lists, accepted: false, failure: None }
    }

    /// An answer that a step made of a value.
    pub fn of_value(value: impl Into<Data>) -> Self {
        Answer::new(StatusCode::OK, Fields::default(), value.into().into())
    }

    /// Prepares the head for another body: drops all fields that describe the old body, and replaces the statuses for a
    /// part (206) or for nothing (204, 205).
    pub fn redescribe(&mut self) {
        self.headers.remove_all(&OF_BODY);
        self.status = of_whole(self.status);
    }

    /// Whether steps use it: its status is 2xx, or the call accepts its status.
    pub fn is_usable(&self) -> bool {
        self.accepted || self.status.is_success()
    }
}

impl Producer {
    /// The same producer; maps its outcome once its head has arrived.
    #[must_use]
    pub fn then<F>(self, map: impl FnOnce(Outcome) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let outcome = match self.outcome {
            Awaited::Here(outcome) => Awaited::later(map(outcome)),
            Awaited::Later(outcome) => Awaited::later(async move { map(outcome.await).await }),
        };
        Producer { outcome, ..self }
    }

    /// A producer whose outcome is ready.
    pub fn here(id: u32, outcome: Outcome) -> Self {
        Producer { id, name: None, outcome: Awaited::Here(outcome) }
    }
}

impl Flow {
    /// A flow of producers that may all start at once.
    pub fn of(producers: Vec<Producer>) -> Self {
        Flow { at_once: producers.len().max(1), source: Source::List(producers.into_iter()) }
    }

    /// A flow of one producer.
    pub fn one(id: u32, outcome: impl Future<Output = Outcome> + Send + 'static) -> Self {
        let producer = Sole { id, name: None, outcome: Box::pin(outcome) };
        Flow { source: Source::One(Some(producer)), at_once: 1 }
    }

    /// A flow whose producers become known one after another; at most `at_once` run side by side.
    pub fn stream(producers: impl Stream<Item = Producer> + Send + 'static, at_once: usize) -> Self {
        Flow { source: Source::Stream(Box::pin(producers)), at_once: at_once.max(1) }
    }

    /// The outcome of a flow that has just one producer; otherwise returns the flow. The future is boxed, so that
    /// callers reserve no space for the outcome.
    pub fn only(mut self) -> Result<BoxFuture<'static, Outcome>, Self> {
        match &mut self.source {
            Source::One(producer) => producer.take().map(|producer| producer.outcome).ok_or(self),
            Source::List(list) if list.len() == 1 => list.next().map(|one| Sole::from(one).outcome).ok_or(self),
            _ => Err(self),
        }
    }

    /// How many producers may run side by side.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// The same flow with at most this many producers side by side.
    #[must_use]
    pub fn at_most(self, at_once: usize) -> Self {
        Flow { at_once: self.at_once.min(at_once.max(1)), ..self }
    }

    /// Maps every producer when it becomes known.
    #[must_use]
    pub fn map(self, mut map: impl FnMut(Producer) -> Producer + Send + 'static) -> Self {
        let source = match self.source {
            Source::One(producer) => Source::One(producer.map(|producer| map(producer.into()).into())),
            Source::List(list) => Source::List(list.map(map).collect::<Vec<_>>().into_iter()),
            Source::Stream(stream) => Source::Stream(Box::pin(futures_util::StreamExt::map(stream, map))),
        };
        Flow { source, at_once: self.at_once }
    }
}

/// What a consumer makes of a producer: a result at once, or a future to run side by side with others.
pub enum Taken<F: Future> {
    /// The result.
    Here(F::Output),
    /// A future to wait for.
    Later(F),
}

/// Drives the producers of a flow side by side, as many as it allows, each through `take`. It makes progress only while
/// it is polled, so a slow consumer slows down every call behind it.
pub struct SideBySide<M, F: Future> {
    flow: Option<Flow>,
    at_once: usize,
    take: M,
    running: Running<F>,
    /// Whether pending ones are polled first. Set after a producer was ready at once.
    turn: bool,
}

enum Running<F: Future> {
    Arrival(FuturesUnordered<F>),
    Request(FuturesOrdered<Either<Ready<F::Output>, F>>),
}

impl<F: Future> Running<F> {
    fn len(&self) -> usize {
        match self {
            Running::Arrival(running) => running.len(),
            Running::Request(running) => running.len(),
        }
    }

    /// Adds one, or returns its result if that may go out at once.
    fn add(&mut self, taken: Taken<F>) -> Option<F::Output> {
        match (self, taken) {
            (Running::Arrival(_), Taken::Here(made)) => return Some(made),
            (Running::Arrival(running), Taken::Later(future)) => running.push(future),
            (Running::Request(running), Taken::Here(made)) if running.is_empty() => return Some(made),
            (Running::Request(running), Taken::Here(made)) => running.push_back(Either::Left(ready(made))),
            (Running::Request(running), Taken::Later(future)) => running.push_back(Either::Right(future)),
        }
        None
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        match self {
            Running::Arrival(running) => Pin::new(running).poll_next(cx),
            Running::Request(running) => Pin::new(running).poll_next(cx),
        }
    }
}

impl Flow {
    /// Drives the producers side by side; `take` consumes each.
    pub fn drive<M, F>(self, order: Order, mut take: M) -> SideBySide<impl FnMut(Producer) -> Taken<F> + Unpin, F>
    where
        M: FnMut(Producer) -> F + Unpin,
        F: Future,
    {
        self.drive_at_once(order, move |producer| Taken::Later(take(producer)))
    }

    /// Like [`Flow::drive`], for a consumer that handles some producers at once.
    pub fn drive_at_once<M, F>(self, order: Order, take: M) -> SideBySide<M, F>
    where
        M: FnMut(Producer) -> Taken<F>,
        F: Future,
    {
        let running = match order {
            Order::Arrival => Running::Arrival(FuturesUnordered::new()),
            Order::Request => Running::Request(FuturesOrdered::new()),
        };
        SideBySide { at_once: self.at_once, flow: Some(self), take, running, turn: false }
    }
}

impl<M, F> Stream for SideBySide<M, F>
where
    M: FnMut(Producer) -> Taken<F> + Unpin,
    F: Future,
{
    type Item = F::Output;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = &mut *self;
        if std::mem::take(&mut this.turn)
            && this.running.len() > 0
            && let Poll::Ready(Some(made)) = this.running.poll(cx)
        {
            return Poll::Ready(Some(made));
        }
        while this.running.len() < this.at_once {
            let Some(flow) = &mut this.flow else { break };
            match Pin::new(flow).poll_next(cx) {
                Poll::Ready(Some(producer)) => {
                    if let Some(made) = this.running.add((this.take)(producer)) {
                        this.turn = true;
                        return Poll::Ready(Some(made));
                    }
                }
                Poll::Ready(None) => this.flow = None,
                Poll::Pending => break,
            }
        }
        match this.running.poll(cx) {
            Poll::Ready(None) if this.flow.is_some() => Poll::Pending,
            polled => polled,
        }
    }
}

impl Stream for Flow {
    type Item = Producer;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Producer>> {
        match &mut self.source {
            Source::One(producer) => Poll::Ready(producer.take().map(Producer::from)),
            Source::List(list) => Poll::Ready(list.next()),
            Source::Stream(stream) => stream.as_mut().poll_next(cx),
        }
    }
}

impl From<Data> for Body {
    fn from(data: Data) -> Self {
        match data {
            Data::Value(value) => Body::Value(value),
            Data::Json(raw) => Body::Json(raw),
        }
    }
}

impl Body {
    /// A body without bytes.
    pub fn empty() -> Self {
        Body::Bytes(Bytes::new())
    }

    /// The number of bytes, if it is known before the body is pulled.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Json(raw) => Some(raw.bytes().len() as u64),
            Body::Pulled(body) => body.size_hint().exact(),
            Body::Value(_) | Body::Tunnel(_) => None,
        }
    }

    /// Whether the body is known to have no bytes, or none left.
    pub fn is_empty(&self) -> bool {
        match self {
            Body::Bytes(bytes) => bytes.is_empty(),
            Body::Pulled(body) => body.is_end_stream(),
            Body::Tunnel(_) => true,
            Body::Value(_) | Body::Json(_) => false,
        }
    }

    /// The whole body as bytes, at most `bound` of them; a value is written as JSON.
    ///
    /// # Errors
    /// `Oversized` if the body is larger than `bound`, and any error that ends the body early.
    pub async fn collect(self, bound: usize) -> Result<Bytes, Error> {
        match self {
            Body::Bytes(bytes) if bytes.len() > bound => Err(oversized(bound)),
            Body::Bytes(bytes) => Ok(bytes),
            Body::Value(value) => json::to_bytes(&value),
            Body::Json(raw) => bounded(raw.bytes().clone(), bound),
            Body::Tunnel(_) => Err(Error::new(Kind::Unusable, "the upstream switched protocols")),
            Body::Pulled(body) => collect(body, bound).await,
        }
    }

    /// The same body as one to pull.
    pub fn into_pulled(self) -> Result<Pulled, Error> {
        match self {
            Body::Pulled(body) => Ok(body),
            Body::Bytes(bytes) => Ok(Box::pin(Whole(Some(bytes)))),
            Body::Json(raw) => Ok(Box::pin(Whole::new(raw.bytes().clone()))),
            Body::Tunnel(_) => Err(Error::new(Kind::Unusable, "the upstream switched protocols")),
            Body::Value(value) => Ok(Box::pin(Whole(Some(json::to_bytes(&value)?)))),
        }
    }
}

/// Bytes of a body that are read before other requests on this core get their turn: about a quarter of a millisecond.
const TURN: usize = 256 << 10;

/// The whole of a pulled body. The usual body is one chunk, which is passed on without a copy.
async fn collect(mut body: Pulled, bound: usize) -> Result<Bytes, Error> {
    if body.size_hint().lower() > bound as u64 {
        return Err(oversized(bound));
    }
    let Some(first) = data(&mut body).await.transpose()? else { return Ok(Bytes::new()) };
    let Some(second) = data(&mut body).await.transpose()? else { return bounded(first, bound) };
    let mut whole = BytesMut::from(first);
    let known = usize::try_from(body.size_hint().lower()).unwrap_or(0).saturating_add(second.len());
    whole.reserve(known.min(bound.saturating_sub(whole.len())));
    whole.extend_from_slice(&second);
    // The chunks so far, so that a large body of unknown length is not copied while it grows.
    let (mut before, mut length, mut turn) = (Vec::new(), whole.len(), TURN);
    while let Some(chunk) = data(&mut body).await.transpose()? {
        if whole.len() >= TURN && whole.len() + chunk.len() > whole.capacity() {
            before.push(std::mem::replace(&mut whole, BytesMut::with_capacity(TURN)));
        }
        whole.extend_from_slice(&chunk);
        length += chunk.len();
        // A nearby upstream sends faster than this reads, so the loop would never yield.
        if length > turn {
            turn = length + TURN;
            tokio::task::yield_now().await;
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
pub async fn data(body: &mut Pulled) -> Option<Result<Bytes, Error>> {
    poll_fn(|cx| poll_data(body, cx)).await
}

/// Polls for the next data of a body.
pub fn poll_data(body: &mut Pulled, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
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
pub struct Whole(Option<Bytes>);

impl Whole {
    /// A body of these bytes.
    pub fn new(bytes: Bytes) -> Self {
        Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl http_body::Body for Whole {
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
