//! HTTP/2 with one client (RFC 9113), using the crate `h2`: many concurrent requests on one connection, all handled by
//! the connection's one task. The limits and observations that `h2` lacks are added where its bytes pass (`wire`).

mod budget;
mod frames;
mod request;
mod send;
mod side_channel;
mod stream;
mod stream_end;
mod tunnel;
mod turn;
mod upload;
mod wire;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::runtime::deadline_timer::Alarm;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::{self, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::{Request, Version};
use tokio::time::{Instant, timeout};

pub use self::frames::PREFACE;
use self::stream_end::{StreamOutcome, UnsentAnswer};
use self::turn::{Turn, TurnPart};
use self::wire::SharedWire;
use super::handler::Handler;
use super::idle::IdleGuard;
use super::io::Io;
use super::reply::Ending;
use super::request::Connection;
use super::settings::Settings;
use super::shared::CoreState;

/// Concurrent requests per connection; further ones wait at the client.
const MOST_STREAMS: u32 = 128;
/// How much of a request's body may arrive before the handler reads it: enough for 8 MB/s at a round trip of 30 ms.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all requests of a connection together: the memory that one client can occupy.
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// How much of an answer is buffered for the socket.
const SEND_BUFFER: usize = 32 * 1024;
/// Overhead that small frames may cost before they are read; see `h2`.
const SMALL_FRAMES: usize = 512 * 1024;
/// Streams that may be reset because of errors of the client.
const MOST_MISTAKES: usize = 256;

/// A client with open requests that has been silent for so long gets a PING, and has as long again to answer it.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_WITHIN: Duration = Duration::from_secs(10);

/// How long a client may take to close the connection after GOAWAY.
const LINGER: Duration = Duration::from_secs(2);

/// A request that is given up within this time counts as abuse.
const IN_VAIN: Duration = Duration::from_secs(1);

/// How many rounds one turn may have before other connections get their turn.
const ROUNDS: usize = 16;

/// Serves a connection until it ends. The bytes in `early` have been read already.
pub async fn serve<H: Handler>(
    io: Io,
    early: Bytes,
    mut connection: Arc<Connection>,
    core: Arc<CoreState<H>>,
    idle: &IdleGuard,
) {
    // No request shares the connection yet, so it can still be changed.
    if let Some(own) = Arc::get_mut(&mut connection) {
        own.version = Version::HTTP_2;
    }
    let wire = SharedWire::new(io, early);
    let shaking = timeout(core.settings.header, shake(&wire, &core.settings));
    let Some(Ok(Some(h2))) = idle.until_told(shaking).await else {
        // The client did not send a valid preface. The connection is closed in the usual way.
        let _ = timeout(LINGER, close(wire)).await;
        return;
    };
    let mut streams = FuturesUnordered::new();
    let mut drain = pin!(core.drain.notified());
    let mut session = Session::new(h2, wire.clone());
    let turn = session.turn.clone();
    let open = |request, respond| {
        stream::serve(core.clone(), connection.clone(), wire.clone(), turn.clone(), request, respond)
    };
    let over = poll_fn(|cx| {
        let _ = drain.as_mut().poll(cx);
        idle.register(cx);
        session.poll(&mut streams, open, (&core, idle), cx)
    })
    .await;
    // Drops requests that were not answered.
    drop((streams, session));
    if let Over::Clean = over {
        let _ = timeout(LINGER, close(wire)).await;
    }
}

/// Exchanges the prefaces and settings.
async fn shake(wire: &SharedWire, settings: &Settings) -> Option<server::Connection<SharedWire, Bytes>> {
    let mut builder = server::Builder::new();
    // RFC 9113, 6.5.2 counts 32 bytes more for each field than HTTP/1.1 needs. Heads that exceed our limits by a
    // moderate amount still get an answer (431) instead of a connection error.
    let fields = 32 * (settings.max_headers + 64);
    builder
        .max_concurrent_streams(MOST_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(2 * settings.max_head + fields).unwrap_or(u32::MAX))
        .max_local_error_reset_streams(Some(MOST_MISTAKES))
        .max_pending_accept_reset_streams(MOST_STREAMS as usize)
        .data_frame_budget(SMALL_FRAMES)
        .enable_connect_protocol();
    let mut shaking = pin!(builder.handshake(wire.clone()));
    poll_fn(|cx| {
        wire.lock().begin(Instant::now());
        let shaken = shaking.as_mut().poll(cx);
        match wire.lock().poll_drain(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(None),
            _ => shaken.map(Result::ok),
        }
    })
    .await
}

/// How a connection ended.
enum Over {
    /// Everything has been sent.
    Clean,
    /// The stream is reset.
    Broken,
}

/// The purpose of the connection's timer.
#[derive(Clone, Copy)]
enum Due {
    /// The connection has been idle for too long.
    Idle,
    /// The time to send a PING.
    Ping,
    /// The client was told that the connection ends, and has used up its time.
    End,
    /// The client took too long for something.
    Late,
    /// An answer may have been stalled for too long.
    Stalled,
}

/// A connection.
struct Session {
    h2: server::Connection<SharedWire, Bytes>,
    wire: SharedWire,
    leaving: Vec<UnsentAnswer>,
    pings: Option<PingPong>,
    /// When the last PING was sent.
    asked: Option<Instant>,
    /// Since when the connection has had no requests.
    rests: Instant,
    /// Since when the client has known that the connection ends.
    ending: Option<Instant>,
    /// When the client was told ENHANCE_YOUR_CALM.
    calmed: Option<Instant>,
    alarm: Alarm,
    turn: Arc<Turn>,
    /// The wakers of the two parts of its work: the streams, and the frames.
    wakers: [Waker; 2],
}

impl Session {
    fn new(mut h2: server::Connection<SharedWire, Bytes>, wire: SharedWire) -> Self {
        let (rests, pings, turn) = (Instant::now(), h2.ping_pong(), Turn::new());
        let wakers = [turn.waker(TurnPart::Streams), turn.waker(TurnPart::Frames)];
        let (asked, ending, calmed) = (None, None, None);
        Session {
            h2,
            wire,
            leaving: Vec::new(),
            pings,
            asked,
            rests,
            ending,
            calmed,
            alarm: Alarm::default(),
            turn,
            wakers,
        }
    }

    /// A turn: accepts requests, polls each stream, and sends everything they produce in one write.
    fn poll<H: Handler, F: Future<Output = StreamOutcome>>(
        &mut self,
        streams: &mut FuturesUnordered<F>,
        open: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
        (core, idle): (&CoreState<H>, &IdleGuard),
        cx: &mut Context<'_>,
    ) -> Poll<Over> {
        let now = Instant::now();
        self.wire.lock().begin(now);
        self.turn.begin(now, cx);
        if core.draining.load(Relaxed) {
            self.end(now);
        }
        let over = self.rounds(streams, open, core, now);
        self.turn.end();
        if self.wire.lock().tired() {
            cx.waker().wake_by_ref();
        }
        if let Some(over) = over {
            return Poll::Ready(over);
        }
        if !streams.is_empty() || !self.leaving.is_empty() {
            self.rests = now;
            idle.end();
        } else if idle.must_leave() {
            return Poll::Ready(self.close_now(cx));
        } else {
            idle.rest(self.rests);
        }
        self.poll_due(streams.is_empty(), &core.settings, cx)
    }

    /// Repeats while there is work: passes the output of streams to `h2`, and the input from `h2` to streams.
    fn rounds<H: Handler, F: Future<Output = StreamOutcome>>(
        &mut self,
        streams: &mut FuturesUnordered<F>,
        open: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
        core: &CoreState<H>,
        now: Instant,
    ) -> Option<Over> {
        let wakers = self.wakers.clone();
        let [mut of_streams, mut of_frames] = wakers.each_ref().map(Context::from_waker);
        for round in 0..ROUNDS {
            let first = round == 0;
            if !first && !self.turn.woken() {
                break;
            }
            if self.turn.take(TurnPart::Streams) || first {
                while let Poll::Ready(Some(done)) = streams.poll_next_unpin(&mut of_streams) {
                    self.finish(done, now);
                }
            }
            // A long turn keeps its wakes and continues after the other connections.
            if !first && self.turn.is_long() {
                break;
            }
            if !self.turn.take(TurnPart::Frames) && !first {
                continue;
            }
            let over = self.poll_frames(streams, &open, core, now, &mut of_frames);
            if over.is_some() {
                return over;
            }
        }
        None
    }

    /// Accepts requests, and sends what `h2` has.
    fn poll_frames<H: Handler, F: Future<Output = StreamOutcome>>(
        &mut self,
        streams: &mut FuturesUnordered<F>,
        open: &impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
        core: &CoreState<H>,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Option<Over> {
        let ended = loop {
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    streams.push(open(request, respond));
                    // A new future is not woken when it is added.
                    self.turn.wake(TurnPart::Streams);
                }
                Poll::Ready(Some(Err(error))) => {
                    break Some(if error.is_io() { Over::Broken } else { Over::Clean });
                }
                Poll::Ready(None) => break Some(Over::Clean),
                Poll::Pending => break None,
            }
        };
        if let Poll::Ready(Err(_)) = self.wire.lock().poll_drain(cx) {
            return Some(Over::Broken);
        }
        self.settle(core.settings.write, now, cx);
        if ended.is_none() && self.calmed.is_none() && self.wire.lock().budget.spent(now) {
            self.calmed = Some(now);
            tracing::debug!("closing an HTTP/2 connection with ENHANCE_YOUR_CALM");
            self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            self.turn.wake(TurnPart::Frames);
        }
        ended
    }

    /// Tells the client once that no more requests are accepted.
    fn end(&mut self, now: Instant) {
        if self.ending.is_none() {
            self.ending = Some(now);
            self.h2.graceful_shutdown();
        }
    }

    /// Ends a connection without requests at once: others need its descriptor.
    fn close_now(&mut self, cx: &mut Context<'_>) -> Over {
        self.h2.abrupt_shutdown(Reason::NO_ERROR);
        let _ = self.h2.poll_accept(cx);
        // The client learns from GOAWAY that no request was begun. It is not waited for.
        let _ = self.wire.lock().poll_close(cx);
        Over::Broken
    }

    /// Handles the end of a stream's work.
    fn finish(&mut self, done: StreamOutcome, now: Instant) {
        match done {
            StreamOutcome::Over => {}
            StreamOutcome::GivenUp(began) if now.saturating_duration_since(began) < IN_VAIN => {
                self.wire.lock().budget.given_up();
            }
            StreamOutcome::GivenUp(_) => {}
            StreamOutcome::Leaving(leaving) => {
                self.leaving.push(leaving);
                // All of it may have left already: then no frame follows that would end it.
                self.turn.wake(TurnPart::Frames);
            }
        }
    }

    /// Reports answers that have left completely.
    fn settle(&mut self, limit: Duration, now: Instant, cx: &mut Context<'_>) {
        if self.leaving.is_empty() {
            return;
        }
        let mut wire = self.wire.lock();
        self.leaving.retain_mut(|leaving| {
            let stream = leaving.stream.stream_id().as_u32();
            let Some(answer) = wire.answer(stream).copied() else { return false };
            let whole = answer.ended || (leaving.reset.is_some() && answer.head && answer.bytes >= leaving.total);
            let how = if whole {
                leaving.how.clone()
            } else if let Poll::Ready(reason) = leaving.stream.poll_reset(cx) {
                reason.map_or(Ending::ClientGone, Ending::ClientReset)
            } else if now >= answer.moved + limit {
                leaving.reset = Some(Reason::CANCEL);
                Ending::ClientSlow
            } else {
                return true;
            };
            if let Some(reason) = leaving.reset {
                leaving.stream.send_reset(reason);
            }
            leaving.observed.bytes = answer.bytes;
            leaving.observed.end(how);
            wire.forget(stream);
            false
        });
    }

    /// Waits for the next timer.
    fn poll_due(&mut self, alone: bool, settings: &Settings, cx: &mut Context<'_>) -> Poll<Over> {
        loop {
            let Some((at, due)) = self.due(alone, settings) else { return Poll::Pending };
            if self.alarm.poll(at, cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            match due {
                Due::Late => return Poll::Ready(Over::Broken),
                Due::Idle => {
                    self.end(now);
                    cx.waker().wake_by_ref();
                }
                // The client is silent, so the rest of the closing sequence is skipped.
                Due::End => {
                    self.h2.abrupt_shutdown(Reason::NO_ERROR);
                    self.rests = now;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Due::Ping => {
                    let Some(pings) = &mut self.pings else { return Poll::Pending };
                    // If the previous PING was answered, this clears it so that another can be sent.
                    let _ = pings.poll_pong(cx);
                    // It fails while an earlier one is not answered, which the client then has to do.
                    let _ = pings.send_ping(Ping::opaque());
                    self.asked = Some(now);
                }
                Due::Stalled => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    /// The timer that is due first. `alone`: no request is being handled.
    fn due(&mut self, alone: bool, settings: &Settings) -> Option<(Instant, Due)> {
        let wire = self.wire.lock();
        // Any bytes since the PING count as an answer.
        self.asked = self.asked.filter(|asked| *asked > wire.heard);
        let idle = alone && self.leaving.is_empty();
        let quiet = match (idle, self.ending, self.asked) {
            (true, Some(since), _) => (self.rests.max(since) + LINGER, Due::End),
            (true, None, _) => (self.rests + settings.keep_alive, Due::Idle),
            (false, _, Some(asked)) => (asked + PING_WITHIN, Due::Late),
            (false, _, None) => (wire.heard + PING_EVERY, Due::Ping),
        };
        let block = wire.block.map(|since| (since + settings.header, Due::Late));
        let stalled = wire.stalled.map(|since| (since + settings.write, Due::Late));
        let calmed = self.calmed.map(|since| (since + LINGER, Due::Late));
        let still = self.leaving.iter().filter_map(|leaving| wire.answer(leaving.stream.stream_id().as_u32()));
        let still = still.map(|answer| (answer.moved + settings.write, Due::Stalled));
        still.chain([quiet]).chain(block).chain(stalled).chain(calmed).min_by_key(|(at, _)| *at)
    }
}

/// Ends the connection, then reads and drops what still arrives. Otherwise the kernel would reset the connection, and
/// the client could lose our last frames.
async fn close(wire: SharedWire) {
    if poll_fn(|cx| wire.lock().poll_close(cx)).await.is_ok() {
        poll_fn(|cx| wire.lock().poll_discard(cx)).await;
    }
}
