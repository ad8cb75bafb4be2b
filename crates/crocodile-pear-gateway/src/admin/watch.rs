//! `/events`: the status once a second, as server-sent events, made only while somebody watches.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::message::body::AnswerBody;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::snapshot::{self, ServerTimes};
use crate::gateway::current_gateway::Live;
use crate::http::response;
use crate::server::NoMinimumRate;

/// How often.
const EVERY: Duration = Duration::from_secs(1);

/// Watchers at once; of the 64 connections the others are for scrapes and probes.
const MOST: usize = 16;

/// The browsers that watch, and the last status that was sent.
#[derive(Default)]
pub struct Watchers {
    count: AtomicUsize,
    last: Mutex<LastStatus>,
}

/// The last status, which the next one is compared with.
#[derive(Default)]
struct LastStatus {
    status: Option<(Instant, Bytes)>,
    times: ServerTimes,
}

impl Watchers {
    /// The status, made anew if it is older than a second.
    pub fn status(&self, live: &Live) -> Bytes {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &last.status {
            // A little less: all are told at their own times.
            Some((at, status)) if at.elapsed() < EVERY * 9 / 10 => status.clone(),
            _ => {
                let status = Bytes::from(snapshot::take(live, &mut last.times).to_string());
                last.status.insert((Instant::now(), status)).1.clone()
            }
        }
    }

    /// A stream of it.
    pub fn follow(self: &Arc<Self>, live: &Arc<Live>) -> Response<AnswerBody> {
        let place = WatcherPlace(self.clone());
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            return response::unavailable("as many watch as may");
        }
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stream = StatusStream { live: live.clone(), place, ticks };
        let mut response = Response::new(AnswerBody::Pulled(Box::pin(stream)));
        *response.status_mut() = StatusCode::OK;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(NoMinimumRate);
        response
    }
}

struct WatcherPlace(Arc<Watchers>);

impl Drop for WatcherPlace {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream of one watcher.
struct StatusStream {
    live: Arc<Live>,
    place: WatcherPlace,
    ticks: Interval,
}

impl http_body::Body for StatusStream {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        ready!(self.ticks.poll_tick(cx));
        let status = self.place.0.status(&self.live);
        // JSON has no line breaks of its own.
        let event = [b"retry: 1000\ndata: ", &status[..], b"\n\n"].concat();
        Poll::Ready(Some(Ok(Frame::data(event.into()))))
    }
}
