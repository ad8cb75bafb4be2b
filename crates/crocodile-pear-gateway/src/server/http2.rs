//! HTTP/2 with one client (RFC 9113), by the crate `h2`: many requests at once on one connection, all driven by the
//! connection's one task. What `h2` does not bound or tell is done where its bytes pass (`wire`).

mod aside;
mod budget;
mod done;
mod frames;
mod request;
mod send;
mod stream;
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
use crocodile_pear::alarm::Alarm;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::{self, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::{Request, Version};
use tokio::time::{Instant, timeout};

use self::done::{Done, Leaving};
pub use self::frames::PREFACE;
use self::turn::Turn;
use self::wire::SharedWire;
use super::handler::Handler;
use super::io::Io;
use super::reply::Ending;
use super::request::Connection;
use super::settings::Settings;
use super::shared::Core;

/// Requests of one connection at once; a client waits with further ones.
const MOST_STREAMS: u32 = 128;
/// The most of a request's body that comes before it is pulled: 8 MB/s at a round trip of 30 ms.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all requests of a connection together: what one client can make us hold.
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// What is kept of an answer for the socket.
const SEND_BUFFER: usize = 32 * 1024;
/// What small frames may cost beside their bytes, before they are read: see `h2`.
const SMALL_FRAMES: usize = 512 * 1024;
/// Streams that the client's own mistakes made us reset.
const MOST_MISTAKES: usize = 256;

/// A client with requests under way that has been silent for so long is asked whether it is there, and has so long to
/// answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_WITHIN: Duration = Duration::from_secs(10);

/// How long a client that was told that the connection ends may take to end it.
const LINGER: Duration = Duration::from_secs(2);

/// A request that is given up so soon was no request.
const IN_VAIN: Duration = Duration::from_secs(1);

/// How often a turn goes round before other connections have theirs.
const ROUNDS: usize = 16;

/// Serves a connection to its end. `early` was read of it already.
pub async fn serve<H: Handler>(io: Io, early: Bytes, mut connection: Arc<Connection>, core: Arc<Core<H>>) {
    // Nobody else has it before the first request.
    if let Some(own) = Arc::get_mut(&mut connection) {
        own.version = Version::HTTP_2;
    }
    let wire = SharedWire::new(io, early);
    let Ok(Some(h2)) = timeout(core.settings.header, shake(&wire, &core.settings)).await else {
        // What came was no greeting: the connection ends as if it had been one.
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
        session.poll(&mut streams, open, &core, cx)
    })
    .await;
    // Requests that were not answered end here.
    drop((streams, session));
    if let Over::Clean = over {
        let _ = timeout(LINGER, close(wire)).await;
    }
}

/// Greets, and is greeted.
async fn shake(wire: &SharedWire, settings: &Settings) -> Option<server::Connection<SharedWire, Bytes>> {
    let mut builder = server::Builder::new();
    // RFC 9113, 6.5.2 counts 32 bytes more for each field than HTTP/1.1 writes. Heads that are too large for us, but not
    // beyond all measure, are answered like any other request.
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
    /// All that was to be said was said.
    Clean,
    /// It is reset.
    Broken,
}

/// What becomes due.
#[derive(Clone, Copy)]
enum Due {
    /// The connection rests for too long.
    Idle,
    /// It is time to ask whether the client is there.
    Ping,
    /// The client was told that the connection ends, and has had its time.
    End,
    /// Something took the client too long.
    Late,
    /// An answer may have stood still for too long.
    Stalled,
}

/// One connection.
struct Session {
    h2: server::Connection<SharedWire, Bytes>,
    wire: SharedWire,
    leaving: Vec<Leaving>,
    pings: Option<PingPong>,
    /// When the client was asked whether it is there.
    asked: Option<Instant>,
    /// Since when there has been no request.
    rests: Instant,
    /// Since when the client has known that the connection ends.
    ending: Option<Instant>,
    /// When it was told to calm down.
    calmed: Option<Instant>,
    alarm: Alarm,
    turn: Arc<Turn>,
    waker: Waker,
}

impl Session {
    fn new(mut h2: server::Connection<SharedWire, Bytes>, wire: SharedWire) -> Self {
        let (rests, pings, turn) = (Instant::now(), h2.ping_pong(), Turn::new());
        let waker = Waker::from(turn.clone());
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
            waker,
        }
    }

    /// One turn: requests come in, each goes on as far as it can, and what there is to say leaves in one write.
    fn poll<H: Handler, F: Future<Output = Done>>(
        &mut self,
        streams: &mut FuturesUnordered<F>,
        open: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
        core: &Core<H>,
        cx: &mut Context<'_>,
    ) -> Poll<Over> {
        let now = Instant::now();
        self.wire.lock().begin(now);
        self.turn.begin(now, cx);
        if core.draining.load(Relaxed) {
            self.end(now);
        }
        let waker = self.waker.clone();
        let over = self.rounds(streams, open, core, now, &mut Context::from_waker(&waker));
        self.turn.end();
        if self.wire.lock().tired() {
            cx.waker().wake_by_ref();
        }
        if let Some(over) = over {
            return Poll::Ready(over);
        }
        if !streams.is_empty() || !self.leaving.is_empty() {
            self.rests = now;
        }
        self.poll_due(streams.is_empty(), &core.settings, cx)
    }

    /// Goes round as long as there is something to do: what streams say goes to `h2`, what `h2` brings goes to streams.
    fn rounds<H: Handler, F: Future<Output = Done>>(
        &mut self,
        streams: &mut FuturesUnordered<F>,
        open: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
        core: &Core<H>,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Option<Over> {
        let mut ended = None;
        for round in 0..ROUNDS {
            while let Poll::Ready(Some(done)) = streams.poll_next_unpin(cx) {
                self.finish(done, now);
            }
            // One that is long stays woken, and has another behind the other connections'.
            if round > 0 && self.turn.is_long() {
                break;
            }
            // What streams have woken `h2` for is done below.
            if !self.turn.woken() && round > 0 {
                break;
            }
            ended = loop {
                match self.h2.poll_accept(cx) {
                    Poll::Ready(Some(Ok((request, respond)))) => streams.push(open(request, respond)),
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
            if ended.is_some() {
                return ended;
            }
            if self.calmed.is_none() && self.wire.lock().budget.spent(now) {
                self.calmed = Some(now);
                tracing::debug!("closing an HTTP/2 connection with ENHANCE_YOUR_CALM");
                self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                cx.waker().wake_by_ref();
            }
        }
        ended
    }

    /// Tells the client that no further request is taken, once.
    fn end(&mut self, now: Instant) {
        if self.ending.is_none() {
            self.ending = Some(now);
            self.h2.graceful_shutdown();
        }
    }

    /// A stream's work is done.
    fn finish(&mut self, done: Done, now: Instant) {
        match done {
            Done::Over => {}
            Done::GivenUp(began) if now.saturating_duration_since(began) < IN_VAIN => {
                self.wire.lock().budget.given_up();
            }
            Done::GivenUp(_) => {}
            Done::Leaving(leaving) => self.leaving.push(leaving),
        }
    }

    /// Ends the answers that have left.
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

    /// Waits for what becomes due.
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
                // The rest of the farewell waits for the client, which says nothing.
                Due::End => {
                    self.h2.abrupt_shutdown(Reason::NO_ERROR);
                    self.rests = now;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Due::Ping => {
                    let Some(pings) = &mut self.pings else { return Poll::Pending };
                    // The answer to the one before, if it was one, makes room for another.
                    let _ = pings.poll_pong(cx);
                    if pings.send_ping(Ping::opaque()).is_err() {
                        return Poll::Pending;
                    }
                    self.asked = Some(now);
                }
                Due::Stalled => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    /// What becomes due first. `alone`: no request is worked at.
    fn due(&mut self, alone: bool, settings: &Settings) -> Option<(Instant, Due)> {
        let wire = self.wire.lock();
        // Whatever came since is an answer.
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

/// Ends the connection, and reads away what still comes: a reset by the kernel would take our last words with it.
async fn close(wire: SharedWire) {
    if poll_fn(|cx| wire.lock().poll_close(cx)).await.is_ok() {
        poll_fn(|cx| wire.lock().poll_discard(cx)).await;
    }
}
