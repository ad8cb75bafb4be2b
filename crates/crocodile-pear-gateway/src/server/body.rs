//! The bodies of a request and of its answer, each watched on its way.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use crocodile_pear::error::{Error, Kind};
use crocodile_pear::flow::Pulled;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::reply::{End, Ending, Observer};
use super::watch::Watch;

/// The body of a client's request. Its trailers are not handed on: nothing in a configuration can name them.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    watch: Arc<Watch>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, watch: Arc<Watch>) -> Self {
        RequestBody { body, watch }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            self.watch.want();
            return Poll::Pending;
        };
        self.watch.sate();
        Poll::Ready(match frame {
            Some(Ok(frame)) if frame.is_trailers() => None,
            Some(Ok(frame)) => Some(Ok(frame)),
            Some(Err(_)) => Some(Err(Error::new(Kind::BadRequest, "the request's body is malformed or cut off"))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.watch.sate();
    }
}

/// The body of an answer, held to the length that its head promised.
pub struct ReplyBody {
    body: Option<Pulled>,
    left: Option<u64>,
    failed: Option<Error>,
    bytes: u64,
    how: Option<Ending>,
    observer: Option<Box<dyn Observer>>,
    watch: Arc<Watch>,
}

impl ReplyBody {
    /// `length` is the Content-Length that goes out with it, if any.
    pub fn new(
        body: Option<Pulled>,
        length: Option<u64>,
        observer: Option<Box<dyn Observer>>,
        watch: Arc<Watch>,
    ) -> Self {
        ReplyBody { body, left: length, failed: None, bytes: 0, how: None, observer, watch }
    }

    /// Waits once more before it fails, so that hyper writes out what came before.
    fn fail(&mut self, error: Error, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.body = None;
        self.how = Some(Ending::Failed(error.clone()));
        self.failed = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.watch.overdue.swap(false, Relaxed) {
            let failed = self.fail(Error::new(Kind::BadRequest, "the request's body stalled"), cx);
            self.how = Some(Ending::ClientSlow);
            return failed;
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = match ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return self.fail(error, cx),
            None if self.left.is_some_and(|left| left > 0) => {
                return self.fail(Error::new(Kind::Cut, "the answer ended before its length"), cx);
            }
            None => {
                self.how = Some(Ending::Whole);
                return Poll::Ready(None);
            }
        };
        self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        if let (Some(left), Some(data)) = (self.left, frame.data_ref()) {
            let Some(left) = left.checked_sub(data.len() as u64) else {
                return self.fail(Error::new(Kind::Malformed, "the answer is longer than its length"), cx);
            };
            self.left = Some(left);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.left.unwrap_or(0) == 0 && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (self.left, &self.body) {
            (Some(left), _) => SizeHint::with_exact(left),
            (None, Some(body)) => body.size_hint(),
            (None, None) => SizeHint::with_exact(0),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.watch.finish();
        let Some(observer) = self.observer.take() else { return };
        let how = match self.how.take() {
            Some(how) => how,
            None if self.is_end_stream() => Ending::Whole,
            None if self.watch.slow.load(Relaxed) => Ending::ClientSlow,
            None => Ending::ClientGone,
        };
        observer.ended(&End { bytes: self.bytes, how });
    }
}
