//! `Server-Timing` (W3C): the timers of a pipeline, told to its client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use crocodile_pear::error::Error;
use crocodile_pear::flow::{Body, Pulled};
use crocodile_pear::scope::Scope;
use crocodile_pear::spec;
use http::header::{HeaderName, HeaderValue, TE, TRAILER};
use http::{HeaderMap, Method, Response};
use http_body::Frame;

use crate::layer::{Around, Compile, Layer, Passage, Spec};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

spec! {
    /// The timers, told to clients. There is nothing to write: pipelines with timers have it.
    pub struct Timing {}
}

impl Spec for Timing {
    type Ready = Self;

    fn unwritten() -> Option<Self> {
        Some(Timing {})
    }

    fn compile(&self, _: &mut Compile<'_>) -> Option<Arc<Self>> {
        Some(Arc::new(Timing {}))
    }

    fn around(ready: &Arc<Self>, at: &Around<'_>) -> Option<Arc<dyn Layer>> {
        at.plan.filter(|plan| plan.is_timed()).map(|_| ready.clone() as Arc<dyn Layer>)
    }
}

impl Layer for Timing {
    /// Adds to the head what has been passed, and to the trailer the whole.
    fn answer<'a>(&'a self, response: &'a mut Response<Body>, scope: &'a Arc<Scope>) -> Passage<'a> {
        if let Some(timing) = timing(scope) {
            response.headers_mut().append(SERVER_TIMING, timing);
        }
        // An answer to HEAD has no trailer.
        let bodiless = *scope.call_method() == Method::HEAD || response.body().is_empty();
        if bodiless || !takes_trailers(scope.headers()) {
            return Passage::Done;
        }
        if let Ok(body) = std::mem::replace(response.body_mut(), Body::empty()).into_pulled() {
            response.headers_mut().append(TRAILER, HeaderValue::from_static("server-timing"));
            *response.body_mut() = Body::Pulled(Box::pin(Timed { body, scope: Some(scope.clone()) }));
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        Some("tells the timers in Server-Timing".to_owned())
    }
}

fn timing(scope: &Scope) -> Option<HeaderValue> {
    HeaderValue::from_str(&scope.timeline().server_timing()?).ok()
}

/// Whether the client said `TE: trailers` (RFC 9110, 6.5.1).
fn takes_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// A body with the timers in its trailer. Its length is not told: trailers need chunks.
struct Timed {
    body: Pulled,
    scope: Option<Arc<Scope>>,
}

impl Timed {
    fn trailer(&mut self, before: Option<HeaderMap>) -> Option<Frame<Bytes>> {
        let mut trailers = before.unwrap_or_default();
        let timing = self.scope.take().and_then(|scope| timing(&scope));
        trailers.extend(timing.map(|timing| (SERVER_TIMING, timing)));
        Some(trailers).filter(|trailers| !trailers.is_empty()).map(Frame::trailers)
    }
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.scope.is_none() {
            return Poll::Ready(None);
        }
        let frame = std::task::ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(match frame {
            None => self.trailer(None).map(Ok),
            Some(Ok(frame)) => match frame.into_trailers() {
                Ok(trailers) => self.trailer(Some(trailers)).map(Ok),
                Err(data) => Some(Ok(data)),
            },
            failed => failed,
        })
    }
}
