//! `max_body`: the largest allowed request body, also for bodies that are streamed to an upstream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Node, Size};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use crocodile_pear::unstable::request::context::Scope;
use http_body::{Frame, SizeHint};

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};
use crate::telemetry::metrics::{Metrics, RefusedBy};

/// The limit in bytes, if there is one.
#[derive(Clone, Debug)]
pub struct MaxBody(Option<Size>);

impl Decode for MaxBody {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        Size::decode(node, problems).map(|size| MaxBody(Some(size)))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        Size::schema(definitions)
    }
}

impl Spec for MaxBody {
    type Ready = BodyBound;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "max_body",
        "The maximum size of a request's body, also of one that is streamed to an upstream. A larger body \
             gets 413. No limit by default. Endpoints can set their own.",
    ));

    // An endpoint may have its own limit even if the document has none.
    fn unwritten() -> Option<Self> {
        Some(MaxBody(None))
    }

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<BodyBound>> {
        Some(Arc::new(BodyBound { most: self.0.as_ref().map(|size| size.bytes() as u64), metrics: cx.metrics() }))
    }

    fn around(ready: &Arc<BodyBound>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let most = at.written_max_body.map(|bytes| bytes as u64).or(ready.most)?;
        Some(Arc::new(BodyBound { most: Some(most), metrics: ready.metrics.clone() }))
    }
}

/// Refuses bodies that are too large: at once if the length is known, otherwise as soon as the limit is exceeded.
pub struct BodyBound {
    most: Option<u64>,
    metrics: Arc<Metrics>,
}

impl Layer for BodyBound {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let (Some(most), Some(body)) = (self.most, scope.take_body()) else { return Verdict::Pass };
        match (body.length(), body) {
            (Some(length), body) if length <= most => scope.put_body(body),
            (None, AnswerBody::Pulled(body)) => {
                let metrics = self.metrics.clone();
                scope.put_body(AnswerBody::Pulled(Box::pin(Bounded { body, left: most, most, metrics })));
            }
            _ => {
                self.metrics.count_refused(RefusedBy::MaxBody);
                return Verdict::Answer(response::fail(&too_large(most)));
            }
        }
        Verdict::Pass
    }

    fn outline(&self) -> Option<String> {
        self.most.map(|most| format!("refuses bodies of more than {most} bytes"))
    }
}

fn too_large(most: u64) -> Error {
    Error::new(Kind::BodyTooLarge, format!("the body is larger than {most} bytes"))
}

/// A body of unknown length that fails when it exceeds the limit.
struct Bounded {
    body: PulledBody,
    left: u64,
    most: u64,
    metrics: Arc<Metrics>,
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = std::task::ready!(self.body.as_mut().poll_frame(cx));
        let length = frame.iter().flatten().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        match self.left.checked_sub(length) {
            Some(left) => self.left = left,
            None => {
                self.metrics.count_refused(RefusedBy::MaxBody);
                return Poll::Ready(Some(Err(too_large(self.most))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
