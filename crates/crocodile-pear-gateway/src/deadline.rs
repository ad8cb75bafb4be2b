//! The time that a whole request may take, to the last byte of its answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use crocodile_pear::error::{Error, Kind};
use crocodile_pear::flow::Pulled;
use crocodile_pear::spec::Timeout;
use http::Response;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

/// A clock that runs; `None` where there is no end to the time.
pub type Deadline = Option<Pin<Box<Sleep>>>;

/// Runs the future within the time; `None` if it is over. The clock starts when the future first has to wait.
pub async fn within<F: Future>(timeout: Timeout, future: F) -> (Option<F::Output>, Deadline) {
    let mut future = pin!(future);
    let mut clock: Deadline = None;
    let output = poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if let (None, Timeout::After(duration)) = (&clock, timeout) {
            clock = Some(Box::pin(tokio::time::sleep(duration)));
        }
        match &mut clock {
            Some(clock) => clock.as_mut().poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    });
    let output = output.await;
    (output, clock)
}

/// The response with the clock on its body: a body that is late is broken off.
pub fn bound(response: Response<Pulled>, deadline: Deadline) -> Response<Pulled> {
    match deadline {
        Some(clock) if !response.body().is_end_stream() => {
            response.map(|body| Box::pin(Bound { body, clock }) as Pulled)
        }
        _ => response,
    }
}

struct Bound {
    body: Pulled,
    clock: Pin<Box<Sleep>>,
}

impl http_body::Body for Bound {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let late = || Error::new(Kind::Timeout, "the request took longer than it may");
        self.clock.as_mut().poll(cx).map(|()| Some(Err(late())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
