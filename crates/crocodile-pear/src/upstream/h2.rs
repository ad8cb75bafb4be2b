//! HTTP/2 (RFC 9113): calls that share a connection.
//!
//! A connection is driven by one task on the runtime that opened it. A call holds one of its streams, and sends and reads
//! in the future that wants its answer, as over HTTP/1.1.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, Method, StatusCode};
use http_body::Frame;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use super::exchange::{cut, malformed};
use super::io::Io;
use super::pool::Pool;
use super::request::{Piece, Request};
use crate::error::{Error, Kind};
use crate::flow::Interim;
use crate::http1::answer::Asked;
use crate::http1::fields::hop_by_hop;

/// Calls on one connection, where the upstream allows more: beyond it a second connection and its share of the
/// upstream's threads serve better.
const MOST_STREAMS: usize = 1024;
/// The most that a call may receive before it is pulled: 17 MB/s at a round trip of 30 ms.
const STREAM_WINDOW: u32 = 512 * 1024;
/// The same for all calls of a connection together. It bounds what stalled readers hold; 32 of them may stall before
/// the others do.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// The most that is buffered for the socket, for each call.
const SEND_BUFFER: usize = 64 * 1024;
/// How often a connection with waiting calls is pinged, and how long the answer may take.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_WITHIN: Duration = Duration::from_secs(10);

/// A connection that many calls share.
pub(super) struct Session {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// When the last call left, in milliseconds after `born`.
    left: AtomicU32,
    born: Instant,
    /// Notified when a stream is free.
    freed: Arc<Notify>,
}

/// How long a session is kept.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Without a call.
    pub(super) idle: Duration,
    /// Altogether; calls under way are finished.
    pub(super) lifetime: Duration,
}

/// Where a session belongs.
pub(super) struct Home {
    pub(super) pool: Weak<Pool>,
    pub(super) thread: usize,
    /// Notified when a stream is free.
    pub(super) freed: Arc<Notify>,
    /// How many calls the upstream allowed on another connection.
    pub(super) most: Option<usize>,
}

/// A reserved stream of a session.
pub(super) struct StreamSlot {
    sender: SendRequest<Bytes>,
    guard: StreamGuard,
}

/// Frees the stream when the call is over.
struct StreamGuard(Arc<Session>);

impl Session {
    /// Starts HTTP/2. The session ends with `span`, or when nothing refers to it any more.
    pub(super) async fn open(io: Io, max_head: usize, span: Span, home: Home) -> Result<Arc<Self>, Error> {
        match io {
            Io::Clear(stream) => shake(stream, max_head, span, home).await,
            Io::Tls(stream) => shake(stream, max_head, span, home).await,
        }
    }

    /// How many calls the upstream allows at once.
    pub(super) fn most(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// The sender, if the session accepts further calls.
    pub(super) fn ready(&self, lifetime: Duration) -> Option<SendRequest<Bytes>> {
        let mut nobody = Context::from_waker(Waker::noop());
        let mut sender = self.sender.clone();
        let ready = matches!(sender.poll_ready(&mut nobody), Poll::Ready(Ok(())));
        (ready && self.born.elapsed() < lifetime).then_some(sender)
    }

    /// Reserves a stream, unless all are in use.
    pub(super) fn reserve(self: &Arc<Self>, sender: SendRequest<Bytes>) -> Option<StreamSlot> {
        let most = self.most().min(MOST_STREAMS);
        let free = |streams| (streams < most).then_some(streams + 1);
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        Some(StreamSlot { sender, guard: StreamGuard(self.clone()) })
    }

    fn over(&self, span: Span) -> bool {
        let left = Duration::from_millis(self.left.load(Ordering::Relaxed).into());
        let idle = self.streams.load(Ordering::Relaxed) == 0 && self.born.elapsed().saturating_sub(left) >= span.idle;
        idle || self.born.elapsed() >= span.lifetime
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let session = &self.0;
        let since = u32::try_from(session.born.elapsed().as_millis()).unwrap_or(u32::MAX);
        session.left.store(since, Ordering::Relaxed);
        session.streams.fetch_sub(1, Ordering::Relaxed);
        session.freed.notify_one();
    }
}

async fn shake<T>(io: T, max_head: usize, span: Span, home: Home) -> Result<Arc<Session>, Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let foreign = || Error::new(Kind::Unreachable, "the upstream does not speak HTTP/2");
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(max_head).unwrap_or(u32::MAX))
        .enable_push(false);
    if let Some(most) = home.most {
        builder.initial_max_send_streams(most);
    }
    let (sender, mut connection) = builder.handshake(io).await.map_err(|_| foreign())?;
    let mut pings = connection.ping_pong();
    // The settings come before the answer to a ping. Without them calls would queue up here that a second
    // connection could take.
    if let Some(pings) = pings.as_mut().filter(|_| home.most.is_none()) {
        pings.send_ping(Ping::opaque()).map_err(|_| foreign())?;
        poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(_) => Poll::Ready(Err(foreign())),
            Poll::Pending => pings.poll_pong(cx).map_err(|_| foreign()),
        })
        .await?;
    }
    let (streams, left) = (AtomicUsize::new(0), AtomicU32::new(0));
    let session = Arc::new(Session { sender, streams, left, born: Instant::now(), freed: home.freed.clone() });
    tokio::spawn(drive(connection, Watch::new(&session, pings, span, home)));
    Ok(session)
}

/// Moves frames until the connection ends. Calls that wait learn of it from their streams.
async fn drive<T>(connection: Connection<T, Bytes>, mut watch: Watch)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = pin!(connection);
    poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => watch.poll(cx),
    })
    .await;
}

/// Watches a session: pings it, and retires it when its time is over.
struct Watch {
    session: Weak<Session>,
    home: Home,
    pings: Option<PingPong>,
    asked: bool,
    timer: Pin<Box<Sleep>>,
    span: Span,
    every: Duration,
}

impl Watch {
    fn new(session: &Arc<Session>, pings: Option<PingPong>, span: Span, home: Home) -> Self {
        let shortest = Duration::from_millis(1);
        let every = PING_EVERY.min(span.idle / 2).min(span.lifetime / 2).max(shortest);
        let timer = Box::pin(tokio::time::sleep(every));
        Watch { session: Arc::downgrade(session), home, pings, asked: false, timer, span, every }
    }

    /// Ready when the upstream does not answer a ping.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.asked
                && let Some(pings) = &mut self.pings
                && let Poll::Ready(Ok(_)) = pings.poll_pong(cx)
            {
                self.asked = false;
                self.timer.as_mut().reset(Instant::now() + self.every);
            }
            ready!(self.timer.as_mut().poll(cx));
            if self.asked {
                return Poll::Ready(());
            }
            let next = self.tick();
            self.timer.as_mut().reset(Instant::now() + next);
        }
    }

    /// No further call begins here; calls that wait for a stream look elsewhere.
    fn retire(&self) {
        if let (Some(session), Some(pool)) = (self.session.upgrade(), self.home.pool.upgrade()) {
            pool.retire(self.home.thread, &session);
        }
    }

    /// Does what is due; returns how long until the next check.
    fn tick(&mut self) -> Duration {
        // The session is retired: calls in flight are finished, and the connection ends with the last.
        let Some(session) = self.session.upgrade() else { return PING_EVERY };
        if session.over(self.span) {
            self.retire();
        }
        let waited_for = session.streams.load(Ordering::Relaxed) > 0;
        let pings = self.pings.as_mut().filter(|_| waited_for);
        self.asked = pings.is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok());
        if self.asked { PING_WITHIN } else { self.every }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.retire();
    }
}

/// A request and its answer on a session.
pub(super) struct Stream {
    sender: SendStream<Bytes>,
    sending: Sending,
    receiving: Receiving,
    left: Option<u64>,
    // Last, so that it is free when the stream is gone.
    _guard: StreamGuard,
}

enum Sending {
    /// What the window does not take yet; whether it is the last.
    Body(Option<(Bytes, End)>),
    Done,
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Last,
    More,
}

enum Receiving {
    Head(ResponseFuture),
    Body(RecvStream),
    Done,
}

/// How far sending has come.
pub(super) enum Sent {
    /// Everything has left, or the upstream waits for no more.
    All,
    /// The window is full.
    Blocked,
    /// The body has nothing for now.
    Starved,
}

/// Why a stream gave no answer.
pub(super) enum Broken {
    /// The server provably has not processed it (RFC 9113, 8.7).
    Unprocessed,
    /// The connection ended; the request may have been processed.
    Ended,
    /// The upstream failed the stream.
    Failed(Error),
}

impl Stream {
    /// Sends the head, and what follows as the window allows.
    pub(super) fn new(slot: StreamSlot, head: http::Request<()>, request: &mut Request) -> Result<Self, Broken> {
        let bodiless = request.bodiless();
        let StreamSlot { mut sender, guard } = slot;
        let (response, sender) = sender.send_request(head, bodiless).map_err(|error| match error.is_io() {
            true => Broken::Unprocessed,
            false => explain(&error),
        })?;
        request.sent();
        let sending = if bodiless { Sending::Done } else { Sending::Body(None) };
        Ok(Stream { sender, sending, receiving: Receiving::Head(response), left: None, _guard: guard })
    }

    /// Sends on.
    ///
    /// # Errors
    /// Those of the request's body: it can never be whole.
    pub(super) fn poll_send(&mut self, request: &mut Request, cx: &mut Context<'_>) -> Result<Sent, Error> {
        loop {
            let Sending::Body(waiting) = &mut self.sending else { return Ok(Sent::All) };
            let Some((bytes, end)) = waiting else {
                match request.poll_piece(cx) {
                    Poll::Pending => return Ok(Sent::Starved),
                    Poll::Ready(piece) => self.accept(piece?),
                }
                continue;
            };
            if bytes.is_empty() {
                let end = *end == End::Last;
                let done = !end || self.sender.send_data(Bytes::new(), true).is_ok();
                self.sending = match (done, end) {
                    (false, _) => Sending::Broken,
                    (true, true) => Sending::Done,
                    (true, false) => Sending::Body(None),
                };
                continue;
            }
            self.sender.reserve_capacity(bytes.len().min(SEND_BUFFER));
            if self.sender.capacity() == 0 {
                match self.sender.poll_capacity(cx) {
                    Poll::Pending => return Ok(Sent::Blocked),
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => self.sending = Sending::Broken,
                }
                continue;
            }
            let part = bytes.split_to(self.sender.capacity().min(bytes.len()));
            let last = bytes.is_empty() && *end == End::Last;
            if self.sender.send_data(part, last).is_err() {
                self.sending = Sending::Broken;
            } else if last {
                self.sending = Sending::Done;
            }
        }
    }

    fn accept(&mut self, piece: Piece) {
        self.sending = match piece {
            Piece::Data(bytes) => Sending::Body(Some((bytes, End::More))),
            Piece::Last(bytes) => Sending::Body(Some((bytes, End::Last))),
            Piece::Trailers(mut trailers) => {
                clean(&mut trailers);
                match self.sender.send_trailers(trailers) {
                    Ok(()) => Sending::Done,
                    Err(_) => Sending::Broken,
                }
            }
        };
    }

    /// The head of the answer; the interim ones before it go to `interim`.
    pub(super) fn poll_head(
        &mut self,
        asked: Asked,
        interim: Option<&dyn Interim>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(StatusCode, HeaderMap), Broken>> {
        let Receiving::Head(response) = &mut self.receiving else { return Poll::Pending };
        if let Some(interim) = interim {
            // What is wrong is told by the answer.
            while let Poll::Ready(Some(Ok(head))) = response.poll_informational(cx) {
                let (head, ()) = head.into_parts();
                hand_on(head.status, head.headers, interim);
            }
        }
        let (head, body) = ready!(Pin::new(response).poll(cx)).map_err(|error| explain(&error))?.into_parts();
        let mut headers = head.headers;
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        self.left = length.filter(|_| asked != Asked::Head);
        // As over HTTP/1.1: elsewhere the body itself knows its length.
        let informs = asked == Asked::Head || head.status == StatusCode::NOT_MODIFIED;
        headers.remove(HOST);
        if let Some(length) = clean(&mut headers).filter(|_| informs) {
            headers.insert(CONTENT_LENGTH, length);
        }
        self.receiving = if body.is_end_stream() { Receiving::Done } else { Receiving::Body(body) };
        // A refusal is final: the rest of the request is not sent.
        if head.status.as_u16() >= 300 && matches!(self.sending, Sending::Body(_)) {
            self.sending = Sending::Broken;
        }
        Poll::Ready(Ok((head.status, headers)))
    }

    /// The next piece of the body, or its trailers.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Receiving::Body(body) = &mut self.receiving else { return Poll::Ready(None) };
        if let Some(data) = ready!(body.poll_data(cx)) {
            let data = match data {
                Ok(data) => data,
                Err(error) => return Poll::Ready(Some(Err(told(&error)))),
            };
            // The window opens as the body is pulled: a consumer that does not pull stops the sender.
            let _ = body.flow_control().release_capacity(data.len());
            self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
            if body.is_end_stream() {
                self.receiving = Receiving::Done;
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(body.poll_trailers(cx));
        self.receiving = Receiving::Done;
        Poll::Ready(match trailers {
            Err(error) => Some(Err(told(&error))),
            Ok(None) => None,
            Ok(Some(mut trailers)) => {
                clean(&mut trailers);
                (!trailers.is_empty()).then(|| Ok(Frame::trailers(trailers)))
            }
        })
    }

    /// Whether the answer is whole.
    pub(super) fn done(&self) -> bool {
        matches!(self.receiving, Receiving::Done)
    }

    /// How many bytes are still to come, where that is known.
    pub(super) fn left(&self) -> Option<u64> {
        if self.done() { Some(0) } else { self.left }
    }
}

/// Hands on an interim answer, unless it is for us.
fn hand_on(status: StatusCode, mut headers: HeaderMap, interim: &dyn Interim) {
    if status != StatusCode::CONTINUE {
        clean(&mut headers);
        interim.interim(status, &headers);
    }
}

/// Takes out what belongs to one connection or frames one message; answers the length.
fn clean(headers: &mut HeaderMap) -> Option<http::HeaderValue> {
    let gone: Vec<_> = headers.keys().filter(|name| hop_by_hop(name)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
    headers.remove(CONTENT_LENGTH)
}

/// The fields of a request, without those that only an HTTP/1.1 connection has.
pub(super) fn head(method: Method, uri: http::Uri, headers: HeaderMap) -> http::Request<()> {
    let mut head = http::Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = uri;
    *head.version_mut() = http::Version::HTTP_2;
    *head.headers_mut() = headers;
    head
}

fn explain(error: &h2::Error) -> Broken {
    match error.reason() {
        // RFC 9113, 6.8: a stream learns of GOAWAY only if its number is above the last one that was processed.
        _ if error.is_go_away() && error.is_remote() => Broken::Unprocessed,
        Some(Reason::REFUSED_STREAM) if error.is_remote() => Broken::Unprocessed,
        Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => {
            Broken::Failed(Error::new(Kind::Reset, "the upstream requires HTTP/1.1 for this call"))
        }
        _ if error.is_io() => Broken::Ended,
        _ if error.is_remote() => Broken::Failed(Error::new(Kind::Reset, "the upstream reset the stream")),
        _ => Broken::Failed(malformed("the upstream violates the HTTP/2 protocol")),
    }
}

/// The same inside a body.
fn told(error: &h2::Error) -> Error {
    match error.is_io() || error.is_remote() {
        true => cut(),
        false => malformed("the upstream violates the HTTP/2 protocol"),
    }
}
