//! `timeout`: how long a request may take as a whole, until the last byte of its answer.
//!
//! Calls watch the deadline themselves. This layer handles clients that read their answer slowly but steadily.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Node, Timeout};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::media_type::has_events;
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use crocodile_pear::unstable::request::context::Scope;
use http::Response;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};

/// How long the whole request may take.
#[derive(Clone, Debug)]
pub struct Deadline {
    timeout: Timeout,
    /// Whether it is written, for `explain`: the default is not mentioned.
    written: bool,
}

impl Decode for Deadline {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        Timeout::decode(node, problems).map(|timeout| Deadline { timeout, written: true })
    }

    fn schema(definitions: &mut Definitions) -> Json {
        Timeout::schema(definitions)
    }

    fn written(&self) -> Option<Json> {
        self.timeout.written()
    }
}

impl Spec for Deadline {
    type Ready = Self;

    const AT_ENDPOINT: Option<Field> =
        Some(Field::new("timeout", "Timeout for the whole request, up to the last byte of its answer."));

    fn unwritten() -> Option<Self> {
        Some(Deadline { timeout: Timeout::After(Duration::from_secs(3600)), written: false })
    }

    fn compile(&self, _: &mut Compile<'_>) -> Option<Arc<Self>> {
        self.timeout.duration().map(|_| Arc::new(self.clone()))
    }

    fn around(ready: &Arc<Self>, around: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        // An endless stream has no last byte.
        let endless = around.plan.is_some_and(|plan| plan.is_endless());
        (!endless).then(|| ready.clone() as Arc<dyn Layer>)
    }
}

impl Layer for Deadline {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        scope.set_timeout(self.timeout);
        Verdict::Pass
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let pulled = |body: &AnswerBody| {
            matches!(body, AnswerBody::Pulled(_)) && body.length().is_none_or(|size| size > AT_HAND)
        };
        // To an event stream the deadline applied until its head.
        if let (Some(deadline), true) = (scope.deadline(), pulled(response.body()) && !has_events(response.headers()))
            && let AnswerBody::Pulled(body) = std::mem::replace(response.body_mut(), AnswerBody::empty())
        {
            *response.body_mut() = AnswerBody::Pulled(Box::pin(DeadlineBody { body, deadline, unwatched: 0 }));
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        let time = self.timeout.written().filter(|_| self.written)?;
        Some(format!("the request ends within {}", time.as_str()?))
    }
}

/// A body up to this size leaves in about one write and needs no deadline.
const AT_HAND: u64 = 64 << 10;

/// The clock is read again after so many bytes, or when the body made its client wait: bodies may have many short
/// items.
const WATCHED: usize = 8 << 10;

/// A body with a deadline: it is cut off if it is late.
struct DeadlineBody {
    body: PulledBody,
    deadline: Instant,
    /// How many more bytes may come before the clock is read again.
    unwatched: usize,
}

impl http_body::Body for DeadlineBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.unwatched == 0 {
            if self.deadline <= Instant::now() {
                return Poll::Ready(Some(Err(Error::new(Kind::Timeout, "the deadline of the request has passed"))));
            }
            self.unwatched = WATCHED;
        }
        let polled = self.body.as_mut().poll_frame(cx);
        self.unwatched = match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                // Empty frames count as one byte, so that they cannot avoid the check.
                let bytes = frame.data_ref().map_or(0, Bytes::len).max(1);
                self.unwatched.saturating_sub(bytes)
            }
            _ => 0,
        };
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
