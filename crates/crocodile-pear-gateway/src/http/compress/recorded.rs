//! A compressed answer of which a copy is kept while it leaves.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use crocodile_pear::unstable::cache::Making;
use crocodile_pear::unstable::error::Error;
use http_body::{Body, Frame};

use super::coded::Coded;

/// Its copy is complete with its end; a client that leaves before gives it up.
pub struct Recorded {
    inner: Coded,
    copy: Option<Making>,
}

impl Recorded {
    /// This answer, and its copy.
    pub fn new(inner: Coded, copy: Making) -> Self {
        Recorded { inner, copy: Some(copy) }
    }

    fn note(&mut self, frame: Option<&Result<Frame<Bytes>, Error>>) {
        match frame {
            Some(Ok(frame)) => {
                if let (Some(bytes), Some(copy)) = (frame.data_ref(), &mut self.copy) {
                    copy.push(bytes);
                } else if let (Some(trailers), Some(copy)) = (frame.trailers_ref(), self.copy.take()) {
                    copy.finish(Some(trailers.clone()));
                }
            }
            Some(Err(_)) => self.copy = None,
            None => self.copy.take().into_iter().for_each(|copy| copy.finish(None)),
        }
    }
}

impl Body for Recorded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        self.note(frame.as_ref());
        Poll::Ready(frame)
    }
}
