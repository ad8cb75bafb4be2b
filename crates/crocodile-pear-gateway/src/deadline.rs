//! The time that a whole request may take, to the last byte of its answer.
//!
//! Calls keep to it by their own clocks. What is left is a client that takes its answer slowly, but takes it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use crocodile_pear::error::{Error, Kind};
use crocodile_pear::flow::Pulled;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// The response with the deadline on a body that is still to come: one that is late is broken off.
pub fn bound(response: Response<Pulled>, deadline: Option<Instant>) -> Response<Pulled> {
    match deadline {
        Some(deadline) if response.body().size_hint().exact().is_none_or(|size| size > AT_HAND) => {
            response.map(|body| Box::pin(Bound { body, deadline }) as Pulled)
        }
        _ => response,
    }
}

/// A body of this size leaves in one write, or nearly: it is not worth a clock.
const AT_HAND: u64 = 64 << 10;

struct Bound {
    body: Pulled,
    deadline: Instant,
}

impl Body for Bound {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.deadline <= Instant::now() {
            return Poll::Ready(Some(Err(Error::new(Kind::Timeout, "the deadline of the request has passed"))));
        }
        self.body.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
