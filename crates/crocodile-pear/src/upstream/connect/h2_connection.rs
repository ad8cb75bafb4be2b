//! A connection of HTTP/2 (RFC 9113), which many calls share. One task drives it, on the runtime that opened it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use super::io::Io;
use crate::error::{Error, Kind};

/// Calls on one connection, where the upstream allows more: beyond it a second connection and its share of the
/// upstream's threads serve better.
pub(crate) const MOST_STREAMS: usize = 1024;
/// The most that a call may receive before it is pulled: 17 MB/s at a round trip of 30 ms.
const STREAM_WINDOW: u32 = 512 * 1024;
/// The same for all calls of a connection together. It bounds what stalled readers hold; 32 of them may stall before
/// the others do.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// The most that is buffered for the socket, for each call.
pub(crate) const SEND_BUFFER: usize = 64 * 1024;
/// How often a connection with waiting calls is pinged, and how long the answer may take.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_WITHIN: Duration = Duration::from_secs(10);

/// A connection that many calls share.
pub(crate) struct Session {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// How many there may be, as last seen: a connection that is full is passed over without its lock.
    allowed: AtomicUsize,
    /// When the last call left, in milliseconds after `born`.
    left: AtomicU32,
    born: Instant,
    /// Notified when a stream is free.
    freed: Arc<Notify>,
}

/// How long a session is kept.
#[derive(Clone, Copy)]
pub(crate) struct SessionSpan {
    /// Without a call.
    pub(crate) idle: Duration,
    /// In total; calls in flight are completed.
    pub(crate) lifetime: Duration,
}

/// The limits of the server that other connections have learned, and the calls that wait for a free stream.
pub(crate) struct StreamLimits {
    /// Notified when a stream is free.
    pub(crate) freed: Arc<Notify>,
    /// How many calls the upstream allowed on another connection.
    pub(crate) most: Option<usize>,
}

/// A reserved stream of a session.
pub(crate) struct StreamSlot {
    pub(crate) sender: SendRequest<Bytes>,
    pub(crate) guard: StreamGuard,
}

/// Frees the stream when the call is over.
pub(crate) struct StreamGuard(Arc<Session>);

impl Session {
    /// Starts HTTP/2. The session ends with `span`, or when nothing refers to it any more, and only while it is driven.
    pub(crate) async fn open(
        io: Io,
        max_head: usize,
        span: SessionSpan,
        limits: StreamLimits,
    ) -> Result<(Arc<Self>, Driver), Error> {
        match io {
            Io::Clear(stream) => shake(stream, max_head, span, limits).await,
            Io::Tls(stream) => shake(stream, max_head, span, limits).await,
        }
    }

    /// How many calls the upstream allows at once.
    pub(crate) fn most(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Whether all streams were in use when that was last looked at.
    pub(crate) fn is_full(&self) -> bool {
        self.streams.load(Ordering::Relaxed) >= self.allowed.load(Ordering::Relaxed)
    }

    /// How many streams there may be, read anew.
    fn refresh(&self) -> usize {
        let allowed = self.most().min(MOST_STREAMS);
        self.allowed.store(allowed, Ordering::Relaxed);
        allowed
    }

    /// The sender, if the session accepts further calls.
    pub(crate) fn ready(&self, lifetime: Duration) -> Option<SendRequest<Bytes>> {
        let mut nobody = Context::from_waker(Waker::noop());
        let mut sender = self.sender.clone();
        let ready = matches!(sender.poll_ready(&mut nobody), Poll::Ready(Ok(())));
        (ready && self.born.elapsed() < lifetime).then_some(sender)
    }

    /// Reserves a stream, unless all are in use.
    pub(crate) fn reserve(self: &Arc<Self>, sender: SendRequest<Bytes>) -> Option<StreamSlot> {
        let most = self.refresh();
        let free = |streams| (streams < most).then_some(streams + 1);
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        Some(StreamSlot { sender, guard: StreamGuard(self.clone()) })
    }

    /// Reserves the first stream of a new session, if the server allows any.
    pub(crate) fn first(self: &Arc<Self>) -> Option<StreamSlot> {
        self.reserve(self.sender.clone())
    }

    fn over(&self, span: SessionSpan) -> bool {
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

/// Starts HTTP/2 on whatever carries bytes.
pub(crate) async fn shake<T>(
    io: T,
    max_head: usize,
    span: SessionSpan,
    limits: StreamLimits,
) -> Result<(Arc<Session>, Driver), Error>
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
    if let Some(most) = limits.most {
        builder.initial_max_send_streams(most);
    }
    let (sender, mut connection) = builder.handshake(io).await.map_err(|_| foreign())?;
    let mut pings = connection.ping_pong();
    // The settings come before the answer to a ping. Without them calls would queue up here that a second
    // connection could take.
    if let Some(pings) = pings.as_mut().filter(|_| limits.most.is_none()) {
        pings.send_ping(Ping::opaque()).map_err(|_| foreign())?;
        poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(_) => Poll::Ready(Err(foreign())),
            Poll::Pending => pings.poll_pong(cx).map_err(|_| foreign()),
        })
        .await?;
    }
    let (streams, allowed, left) = (AtomicUsize::new(0), AtomicUsize::new(MOST_STREAMS), AtomicU32::new(0));
    let session = Arc::new(Session { sender, streams, allowed, left, born: Instant::now(), freed: limits.freed });
    let watch = SessionWatch::new(&session, pings, span);
    Ok((session, Driver { connection: Box::pin(connection.map(drop)), watch }))
}

/// Moves the frames of a session. Calls that wait learn from their streams when it has ended.
pub(crate) struct Driver {
    connection: Pin<Box<dyn Future<Output = ()> + Send>>,
    watch: SessionWatch,
}

impl Driver {
    /// Until it accepts no further call: its time is over, or the connection has ended.
    pub(crate) async fn until_over(&mut self) {
        self.run(WatchEnd::Over).await;
    }

    /// Until the connection ends: calls in flight are finished.
    pub(crate) async fn until_end(&mut self) {
        self.run(WatchEnd::Gone).await;
    }

    /// Until this is seen, or the connection has ended.
    async fn run(&mut self, wanted: WatchEnd) {
        if self.watch.gone {
            return;
        }
        poll_fn(|cx| {
            if self.connection.as_mut().poll(cx).is_ready() {
                self.watch.gone = true;
                return Poll::Ready(());
            }
            // The server may allow more calls by now, or fewer.
            if let Some(session) = self.watch.session.upgrade() {
                session.refresh();
            }
            loop {
                let seen = ready!(self.watch.poll(cx));
                self.watch.gone |= seen == WatchEnd::Gone;
                if seen == WatchEnd::Gone || seen == wanted {
                    return Poll::Ready(());
                }
            }
        })
        .await;
    }
}

/// The event that ends the watch of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchEnd {
    /// Its time is over.
    Over,
    /// The upstream does not answer.
    Gone,
}

/// Watches a session: sends pings, and ends it when its time is over.
struct SessionWatch {
    session: Weak<Session>,
    gone: bool,
    pings: Option<PingPong>,
    asked: bool,
    timer: Pin<Box<Sleep>>,
    span: SessionSpan,
    every: Duration,
}

impl SessionWatch {
    fn new(session: &Arc<Session>, pings: Option<PingPong>, span: SessionSpan) -> Self {
        let shortest = Duration::from_millis(1);
        let every = PING_EVERY.min(span.idle / 2).min(span.lifetime / 2).max(shortest);
        let timer = Box::pin(tokio::time::sleep(every));
        SessionWatch { session: Arc::downgrade(session), gone: false, pings, asked: false, timer, span, every }
    }

    /// Ready when its time is over, and when the upstream does not answer a ping.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WatchEnd> {
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
                return Poll::Ready(WatchEnd::Gone);
            }
            let (next, over) = self.tick();
            self.timer.as_mut().reset(Instant::now() + next);
            if over {
                return Poll::Ready(WatchEnd::Over);
            }
        }
    }

    /// Does what is due; returns how long until the next check, and whether its time is over.
    fn tick(&mut self) -> (Duration, bool) {
        // Without a session calls in flight are finished, and the connection ends with the last.
        let Some(session) = self.session.upgrade() else { return (PING_EVERY, false) };
        let waited_for = session.streams.load(Ordering::Relaxed) > 0;
        let pings = self.pings.as_mut().filter(|_| waited_for);
        self.asked = pings.is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok());
        (if self.asked { PING_WITHIN } else { self.every }, session.over(self.span))
    }
}
