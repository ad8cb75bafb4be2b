//! A body whose errors say which call it belongs to.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body::{Frame, SizeHint};

use crate::error::{CallId, Error};
use crate::message::body::PulledBody;

/// A body whose errors say which call it belongs to.
pub struct BodyWithCall {
    pub body: PulledBody,
    pub url: Option<Uri>,
    pub id: CallId,
    pub status: StatusCode,
}

impl http_body::Body for BodyWithCall {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = std::task::ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|error| {
                self.url.iter().cloned().fold(error, Error::at_url).at_call(self.id.clone()).answered(self.status)
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
