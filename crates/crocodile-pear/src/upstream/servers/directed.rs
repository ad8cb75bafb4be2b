//! A call and where it leads: to the upstream that a choice made, to the server of its client, and its copy.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method};
use http_body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::mirror::Mirror;
use crate::error::Error;
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};
use crate::request::context::Scope;
use crate::upstream::call::UpstreamCall;
use crate::upstream::call::forward::Likeness;
use crate::upstream::connect::counters::ConnectionEvent;
use crate::upstream::ready::ReadyUpstream;

/// A call that knows where it leads.
pub(crate) struct Directed {
    pub(crate) call: Box<UpstreamCall>,
    /// The upstream that a choice made; `None` for the one that was named.
    to: Option<Arc<ReadyUpstream>>,
    copy: Option<Box<Copied>>,
}

/// The fields that a call sets itself.
pub(crate) type SetFields = Vec<(HeaderName, Option<HeaderValue>)>;

impl Directed {
    /// Directs a call that was made for `chosen`, by the settings of that and of the upstream that was named.
    ///
    /// # Errors
    /// `BadRequest` if an expression fails.
    #[inline]
    pub(crate) fn new(
        named: &Arc<ReadyUpstream>,
        chosen: &Arc<ReadyUpstream>,
        mut call: Box<UpstreamCall>,
        (scope, likeness): (&Scope, Likeness),
        set: impl FnOnce() -> SetFields,
    ) -> Result<Self, Error> {
        call.affinity = chosen.affinity(scope)?;
        let to = (!Arc::ptr_eq(named, chosen)).then(|| chosen.clone());
        let mirror = named.mirror().or_else(|| chosen.mirror());
        let copy = mirror.and_then(|mirror| Copied::of(mirror, &mut call, scope, likeness, set));
        Ok(Directed { call, to, copy })
    }

    pub(crate) fn upstream<'a>(&'a self, named: &'a Arc<ReadyUpstream>) -> &'a Arc<ReadyUpstream> {
        self.to.as_ref().unwrap_or(named)
    }

    /// Sends it.
    ///
    /// # Errors
    /// The errors of [`ReadyUpstream::call`].
    #[inline]
    pub(crate) fn send(
        self,
        named: &Arc<ReadyUpstream>,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        if let Some(copy) = self.copy {
            copy.send();
        }
        self.to.as_ref().unwrap_or(named).send(self.call)
    }
}

impl ReadyUpstream {
    /// Makes a call for `chosen`, which this upstream has chosen for the request: at the server of the client, and with the
    /// copies of both.
    ///
    /// # Errors
    /// `BadRequest` if an expression fails; later as [`ReadyUpstream::call`].
    pub fn call_chosen(
        self: &Arc<Self>,
        chosen: &Arc<Self>,
        call: UpstreamCall,
        scope: &Scope,
    ) -> Result<impl Future<Output = Result<Answer, Error>> + Send + 'static + use<>, Error> {
        let copies = self.mirror().or_else(|| chosen.mirror()).is_some();
        let fields = call.headers.iter().filter(|_| copies);
        let set: SetFields = fields.map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        let directed = Directed::new(self, chosen, Box::new(call), (scope, Likeness::Other), || set)?;
        Ok(directed.send(self))
    }
}

/// The most bytes of the answer to a copy that are read, so that its connection is kept.
const ANSWER: usize = 256 << 10;

/// A copy that leaves with its call.
struct Copied {
    to: Arc<ReadyUpstream>,
    call: Box<UpstreamCall>,
    place: OwnedSemaphorePermit,
}

impl Copied {
    /// The copy of a call, unless chance or a bound decides against it. One of a streamed body leaves at the body's end.
    fn of(
        mirror: &Mirror<ReadyUpstream>,
        call: &mut UpstreamCall,
        scope: &Scope,
        likeness: Likeness,
        set: impl FnOnce() -> SetFields,
    ) -> Option<Box<Self>> {
        // A connection that changes its protocol has no copy.
        let to = mirror.choose().filter(|_| call.passage.upgrade.is_none())?;
        let to = to.chosen(scope).ok()?.clone();
        let mut fields = to.fields(scope, likeness).ok()?;
        set().into_iter().for_each(|(name, value)| fields.write(&name, value));
        if call.body.is_some() {
            for name in [CONTENT_TYPE, CONTENT_ENCODING] {
                fields.hand_on(&name, &call.headers);
            }
        }
        to.keep(scope, &mut fields).ok()?;
        let Some(place) = mirror.enter() else {
            to.count(ConnectionEvent::Rejected);
            return None;
        };
        let own = Box::new(UpstreamCall {
            method: call.method.clone(),
            headers: fields.into_map(),
            timeouts: Some(mirror.timeouts.clone()),
            host: to.host(scope),
            received: call.received,
            affinity: to.affinity(scope).ok()?,
            ..UpstreamCall::get(call.target.clone())
        });
        let mut copied = Box::new(Copied { to, call: own, place });
        copied.call.body = match call.body.take() {
            None => None,
            Some(AnswerBody::Pulled(body)) => {
                let fits = body.size_hint().lower() <= mirror.max_body as u64;
                let tee = Tee { body, read: BytesMut::new(), most: mirror.max_body, copied: fits.then_some(copied) };
                call.body = Some(AnswerBody::Pulled(Box::pin(tee)));
                return None;
            }
            Some(body) => {
                let again = match &body {
                    AnswerBody::Bytes(bytes) => AnswerBody::Bytes(bytes.clone()),
                    AnswerBody::Value(value) => AnswerBody::Value(value.clone()),
                    AnswerBody::Json(raw) => AnswerBody::Json(raw.clone()),
                    AnswerBody::Pulled(_) | AnswerBody::Tunnel(_) => AnswerBody::empty(),
                };
                call.body = Some(body);
                if let AnswerBody::Bytes(bytes) = &again
                    && bytes.len() > mirror.max_body
                {
                    return None;
                }
                Some(again)
            }
        };
        Some(copied)
    }

    /// Sends it, beside everything else.
    fn send(self) {
        let Copied { to, call, place } = self;
        let head = call.method == Method::HEAD;
        tokio::spawn(async move {
            // An answer that is longer closes its connection.
            if let Ok(answer) = to.send(call).await
                && !head
            {
                let _ = answer.body.collect(ANSWER).await;
            }
            drop(place);
        });
    }
}

/// A body that is read once and copied, up to a bound.
struct Tee {
    body: PulledBody,
    read: BytesMut,
    most: usize,
    /// `None` once the copy has left, or if the body is too large for one.
    copied: Option<Box<Copied>>,
}

impl Tee {
    fn note(&mut self, piece: &Bytes) {
        if self.read.len() + piece.len() > self.most {
            self.copied = None;
            self.read = BytesMut::new();
        } else if self.copied.is_some() {
            self.read.extend_from_slice(piece);
        }
    }

    fn finish(&mut self) {
        if let Some(mut copied) = self.copied.take() {
            copied.call.body = Some(AnswerBody::Bytes(std::mem::take(&mut self.read).freeze()));
            copied.send();
        }
    }
}

impl http_body::Body for Tee {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(piece) = frame.data_ref() {
                    let piece = piece.clone();
                    self.note(&piece);
                }
                if self.body.is_end_stream() {
                    self.finish();
                }
            }
            // A body that broke off has no copy.
            Some(Err(_)) => self.copied = None,
            None => self.finish(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.copied.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
