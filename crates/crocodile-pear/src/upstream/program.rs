//! The parts that a Rust program puts around and below the calls of its upstreams: an observer of each call, and a transport instead
//! of sockets.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Frame, SizeHint};

use super::call::UpstreamCall;
use crate::error::Error;
use crate::http::http1::AnswerFields;
use crate::http::http1::fields::rebuilt;
use crate::http::loop_detection;
use crate::message::answer::Answer;
use crate::message::body::PulledBody;

/// A request that is on its way to an answer.
pub type ResponseFuture = BoxFuture<'static, Result<Response<PulledBody>, Error>>;

/// Sends requests instead of sockets.
pub trait Transport: Send + Sync {
    /// Sends one. Nothing happens before the future is polled.
    fn send(&self, request: Request<PulledBody>) -> ResponseFuture;
}

/// Stands around each call of an upstream, outside of its cache and its retries.
pub trait Interceptor: Send + Sync {
    /// Whether it has anything to do now. Calls are made without it otherwise.
    fn is_needed(&self) -> bool;

    fn call(
        self: Arc<Self>,
        callee: Arc<dyn Callee>,
        call: Box<UpstreamCall>,
    ) -> BoxFuture<'static, Result<Answer, Error>>;
}

/// An upstream, as an [`Interceptor`] sees it.
pub trait Callee: Send + Sync {
    /// The whole URL of a call.
    fn url(&self, call: &UpstreamCall) -> String;

    fn dispatch(self: Arc<Self>, call: Box<UpstreamCall>) -> BoxFuture<'static, Result<Answer, Error>>;
}

/// The value of `via` in calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// The name of this process, as gateways do.
    #[default]
    Own,
    /// There is no such field, as usual for clients.
    Absent,
    Text(HeaderValue),
}

impl Via {
    /// The value of the field, for a request that came in this version of HTTP.
    pub(crate) fn value(&self, received: Version) -> Option<&[u8]> {
        match self {
            Via::Own => Some(loop_detection::entry(received).as_bytes()),
            Via::Absent => None,
            Via::Text(value) => Some(value.as_bytes()),
        }
    }
}

/// The parts that a program puts around and below the calls of an upstream.
#[derive(Clone, Default)]
pub struct Program {
    /// Instead of sockets.
    pub transport: Option<Arc<dyn Transport>>,
    /// Around each call.
    pub interceptor: Option<Arc<dyn Interceptor>>,
    /// The value of `via`.
    pub via: Via,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("transport", &self.transport.is_some())
            .field("interceptor", &self.interceptor.is_some())
            .field("via", &self.via)
            .finish()
    }
}

/// A call that a transport makes.
pub(crate) enum TransportCall {
    Waiting(ResponseFuture),
    Body(PulledBody, State),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Done,
}

impl TransportCall {
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(StatusCode, AnswerFields), Error>> {
        let TransportCall::Waiting(sent) = self else { return Poll::Pending };
        let (mut head, body) = ready!(sent.as_mut().poll(cx))?.into_parts();
        let own: Vec<_> = head.headers.keys().filter(|name| rebuilt(name)).cloned().collect();
        // The length describes the body; the others describe the connection.
        for name in own.iter().filter(|name| **name != http::header::CONTENT_LENGTH) {
            head.headers.remove(name);
        }
        let state = if body.is_end_stream() { State::Done } else { State::Open };
        *self = TransportCall::Body(body, state);
        Poll::Ready(Ok((head.status, head.headers.into())))
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let TransportCall::Body(body, state) = self else { return Poll::Ready(None) };
        if *state == State::Done {
            return Poll::Ready(None);
        }
        let frame = ready!(body.as_mut().poll_frame(cx));
        if frame.is_none() || body.is_end_stream() {
            *state = State::Done;
        }
        Poll::Ready(frame)
    }

    pub(crate) fn done(&self) -> bool {
        matches!(self, TransportCall::Body(_, State::Done))
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            TransportCall::Body(body, _) => body.size_hint(),
            TransportCall::Waiting(_) => SizeHint::default(),
        }
    }
}
