//! The body of a request, read on demand: as the handler takes data, the client may send more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::http1::trailers;
use crocodile_pear::unstable::runtime::deadline_timer::Alarm;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::super::pace::{MinRate, TimeBalance};
use super::super::settings::Settings;
use super::side_channel::Aside;
use super::wire::SharedWire;

/// The part of the body that arrived with the head.
pub enum Came {
    /// The whole body.
    Whole(Bytes),
    Part(Bytes),
}

/// Takes the part of a body that has arrived. If all of it is here, it has a length now, also for servers that would read
/// nothing without one. A call of gRPC stays as it was sent: its end may stand apart from its head.
pub fn take(recv: &mut RecvStream, grpc: bool) -> Came {
    let mut nobody = Context::from_waker(Waker::noop());
    let (mut first, mut more) = (Bytes::new(), BytesMut::new());
    let mut whole = false;
    while !whole
        && first.len() + more.len() < MOST_AT_ONCE
        && let Poll::Ready(Some(Ok(data))) = recv.poll_data(&mut nobody)
    {
        let _ = recv.flow_control().release_capacity(data.len());
        match first.is_empty() {
            true => first = data,
            false => more.extend_from_slice(&data),
        }
        whole = recv.is_end_stream();
    }
    let came = if more.is_empty() { first } else { [first.as_ref(), more.as_ref()].concat().into() };
    if whole && !grpc { Came::Whole(came) } else { Came::Part(came) }
}

/// Larger bodies are read on demand.
const MOST_AT_ONCE: usize = 64 * 1024;

/// A body that is read on demand.
pub struct StreamBody {
    recv: RecvStream,
    first: Bytes,
    /// Bytes still to come, if known.
    left: Option<u64>,
    aside: Arc<Aside>,
    /// The client waits for `100 Continue`.
    expected: bool,
    wire: SharedWire,
    /// How long the next bytes may take.
    limit: Duration,
    rate: Option<MinRate>,
    pace: TimeBalance,
    /// Since when the handler has been waiting for them.
    since: Option<Instant>,
    alarm: Alarm,
    ended: bool,
}

impl StreamBody {
    pub fn new(
        recv: RecvStream,
        first: Bytes,
        length: Option<u64>,
        expected: bool,
        aside: Arc<Aside>,
        wire: SharedWire,
        settings: &Settings,
    ) -> Self {
        let expected = expected && first.is_empty();
        StreamBody {
            recv,
            first,
            left: length,
            aside,
            expected,
            wire,
            limit: settings.body,
            rate: settings.min_rate.clone(),
            pace: TimeBalance::default(),
            since: None,
            alarm: Alarm::default(),
            ended: false,
        }
    }

    fn hand_on(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let (Some(since), Some(rate)) = (self.since.take(), &self.rate) {
            self.pace.moved(since.elapsed(), data.len() as u64, rate, self.limit);
        }
        self.expected = false;
        self.aside.received.fetch_add(data.len() as u64, Relaxed);
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    /// Checks whether the wait has been too long, after no bytes have arrived.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        if std::mem::take(&mut self.expected) {
            self.aside.go_on();
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        loop {
            let due = self.due(since);
            ready!(self.alarm.poll(due, cx));
            // Part of a frame may have arrived: a slow frame is not a late one.
            if due == self.due(since) {
                return Poll::Ready(Error::new(Kind::SlowBody, "the request's body took too long to arrive"));
            }
        }
    }

    /// When the next bytes are late, if the wait began at `since`.
    fn due(&self, since: Instant) -> Instant {
        let came = self.wire.lock().data_of(self.recv.stream_id().as_u32()).filter(|came| came.at >= since);
        let due = came.map_or(since, |came| came.at) + self.limit;
        match &self.rate {
            Some(rate) if self.aside.hurried() => {
                let mut pace = self.pace;
                pace.moved(Duration::ZERO, came.map_or(0, |came| came.part as u64), rate, self.limit);
                due.min(pace.due(since, rate))
            }
            _ => due,
        }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        if !this.first.is_empty() {
            let first = std::mem::take(&mut this.first);
            return this.hand_on(first);
        }
        loop {
            match this.recv.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) if data.is_empty() => {}
                Poll::Ready(Some(Ok(data))) => {
                    let data = gather(&mut this.recv, data, cx);
                    return this.hand_on(data);
                }
                Poll::Ready(Some(Err(error))) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(broken(&error))));
                }
                Poll::Ready(None) => break,
                Poll::Pending => {
                    let late = ready!(this.poll_late(cx));
                    this.ended = true;
                    return Poll::Ready(Some(Err(late)));
                }
            }
        }
        let trailers = match this.recv.poll_trailers(cx) {
            Poll::Ready(trailers) => trailers,
            Poll::Pending => return this.poll_late(cx).map(|late| Some(Err(late))),
        };
        this.ended = true;
        Poll::Ready(match trailers {
            Ok(came) => came.and_then(|came| trailers::pass(came, |_| true)).map(|passed| Ok(Frame::trailers(passed))),
            Err(error) => Some(Err(broken(&error))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.first.is_empty() && self.recv.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Joins small frames that have arrived.
fn gather(recv: &mut RecvStream, first: Bytes, cx: &mut Context<'_>) -> Bytes {
    const SMALL: usize = 4 * 1024;
    const BATCH: usize = 16 * 1024;
    let _ = recv.flow_control().release_capacity(first.len());
    if first.len() >= SMALL || recv.is_end_stream() {
        return first;
    }
    let mut more = BytesMut::new();
    while let Poll::Ready(Some(Ok(data))) = recv.poll_data(cx) {
        let _ = recv.flow_control().release_capacity(data.len());
        if more.is_empty() {
            more.extend_from_slice(&first);
        }
        more.extend_from_slice(&data);
        if more.len() >= BATCH {
            break;
        }
    }
    if more.is_empty() { first } else { more.freeze() }
}

fn broken(error: &h2::Error) -> Error {
    match error.is_remote() || error.is_io() {
        true => Error::new(Kind::BadRequest, "the request's body was cut off"),
        false => Error::new(Kind::BadRequest, "the request's body is malformed"),
    }
}
