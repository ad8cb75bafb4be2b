//! A call over HTTP/2 (RFC 9113): one stream of a connection that others share, sent and read in the future that wants the
//! answer, as over HTTP/1.1.

#[cfg(test)]
mod model;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, StatusCode};
use http_body::Frame;

use super::request::{OutboundRequest, StreamPiece};
use crate::error::{Error, Kind};
use crate::http::http1::answer::MethodKind;
use crate::http::http1::fields::hop_by_hop;
use crate::http::http1::trailers;
use crate::message::side_channel::Interim;
use crate::upstream::call::outcome::{cut, malformed};
use crate::upstream::connect::h2_connection::{SEND_BUFFER, StreamGuard, StreamSlot};

/// A request and its answer on a session.
pub(crate) struct H2Stream {
    sender: SendStream<Bytes>,
    sending: Sending,
    receiving: Receiving,
    left: Option<u64>,
    // Last, so that it is free when the stream is gone.
    _guard: StreamGuard,
}

enum Sending {
    /// The bytes that the window does not allow yet; whether they are the last.
    Body(Option<(Bytes, StreamEnd)>),
    Done,
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    Last,
    More,
}

enum Receiving {
    Head(ResponseFuture),
    Body(RecvStream),
    Done,
}

/// How far sending has come.
pub(crate) enum StreamProgress {
    /// Everything has left, or the upstream waits for no more.
    All,
    /// The window is full.
    Blocked,
    /// The body has nothing for now.
    Starved,
}

/// Why a stream gave no answer.
pub(crate) enum StreamFault {
    /// The server provably has not processed it (RFC 9113, 8.7).
    Unprocessed,
    /// The connection ended; the request may have been processed.
    Ended,
    /// The upstream failed the stream.
    Failed(Error),
}

impl H2Stream {
    /// Sends the head, and what follows as the window allows.
    pub(crate) fn new(
        slot: StreamSlot,
        head: http::Request<()>,
        request: &mut OutboundRequest,
    ) -> Result<Self, StreamFault> {
        let bodiless = request.bodiless();
        let StreamSlot { mut sender, guard } = slot;
        let (response, sender) = sender.send_request(head, bodiless).map_err(|error| match error.is_io() {
            true => StreamFault::Unprocessed,
            false => explain(&error),
        })?;
        request.sent();
        let sending = if bodiless { Sending::Done } else { Sending::Body(None) };
        Ok(H2Stream { sender, sending, receiving: Receiving::Head(response), left: None, _guard: guard })
    }

    /// Sends on.
    ///
    /// # Errors
    /// The errors of the request's body: it can never be whole.
    pub(crate) fn poll_send(
        &mut self,
        request: &mut OutboundRequest,
        cx: &mut Context<'_>,
    ) -> Result<StreamProgress, Error> {
        loop {
            let Sending::Body(waiting) = &mut self.sending else { return Ok(StreamProgress::All) };
            let Some((bytes, end)) = waiting else {
                match request.poll_piece(cx) {
                    Poll::Pending => return Ok(StreamProgress::Starved),
                    Poll::Ready(piece) => self.accept(piece?),
                }
                continue;
            };
            if bytes.is_empty() {
                let end = *end == StreamEnd::Last;
                let done = !end || self.sender.send_data(Bytes::new(), true).is_ok();
                self.sending = match (done, end) {
                    (false, _) => Sending::Broken,
                    (true, true) => Sending::Done,
                    (true, false) => Sending::Body(None),
                };
                continue;
            }
            self.sender.reserve_capacity(bytes.len().min(SEND_BUFFER));
            if self.sender.capacity() == 0 {
                match self.sender.poll_capacity(cx) {
                    Poll::Pending => return Ok(StreamProgress::Blocked),
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => self.sending = Sending::Broken,
                }
                continue;
            }
            let part = bytes.split_to(self.sender.capacity().min(bytes.len()));
            let last = bytes.is_empty() && *end == StreamEnd::Last;
            if self.sender.send_data(part, last).is_err() {
                self.sending = Sending::Broken;
            } else if last {
                self.sending = Sending::Done;
            }
        }
    }

    fn accept(&mut self, piece: StreamPiece) {
        self.sending = match piece {
            StreamPiece::Data(bytes) => Sending::Body(Some((bytes, StreamEnd::More))),
            StreamPiece::Last(bytes) => Sending::Body(Some((bytes, StreamEnd::Last))),
            StreamPiece::Trailers(mut trailers) => {
                clean(&mut trailers);
                match self.sender.send_trailers(trailers) {
                    Ok(()) => Sending::Done,
                    Err(_) => Sending::Broken,
                }
            }
        };
    }

    /// The head of the answer; the interim ones before it go to `interim`.
    pub(crate) fn poll_head(
        &mut self,
        request: &mut OutboundRequest,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(StatusCode, HeaderMap), StreamFault>> {
        let asked = request.method.asked;
        let Receiving::Head(response) = &mut self.receiving else { return Poll::Pending };
        if request.passage.interim.is_some() || request.expects() {
            // The answer reports what went wrong.
            while let Poll::Ready(Some(Ok(head))) = response.poll_informational(cx) {
                let (head, ()) = head.into_parts();
                if head.status == StatusCode::CONTINUE {
                    request.go_on();
                }
                if let Some(interim) = request.passage.interim.as_deref() {
                    hand_on(head.status, head.headers, interim);
                }
            }
        }
        let (head, body) = ready!(Pin::new(response).poll(cx)).map_err(|error| explain(&error))?.into_parts();
        let mut headers = head.headers;
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        self.left = length.filter(|_| asked != MethodKind::Head);
        // As over HTTP/1.1: elsewhere the body itself knows its length.
        let informs = asked == MethodKind::Head || head.status == StatusCode::NOT_MODIFIED;
        headers.remove(HOST);
        if let Some(length) = clean(&mut headers).filter(|_| informs) {
            headers.insert(CONTENT_LENGTH, length);
        }
        self.receiving = if body.is_end_stream() { Receiving::Done } else { Receiving::Body(body) };
        // A refusal is final: the rest of the request is not sent.
        if head.status.as_u16() >= 300 && matches!(self.sending, Sending::Body(_)) {
            self.sending = Sending::Broken;
        }
        request.go_on();
        Poll::Ready(Ok((head.status, headers)))
    }

    /// The next piece of the body, or its trailers.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Receiving::Body(body) = &mut self.receiving else { return Poll::Ready(None) };
        if let Some(data) = ready!(body.poll_data(cx)) {
            let data = match data {
                Ok(data) => data,
                Err(error) => return Poll::Ready(Some(Err(body_error(&error)))),
            };
            // The window opens as the body is pulled: a consumer that does not pull stops the sender.
            let _ = body.flow_control().release_capacity(data.len());
            self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
            if body.is_end_stream() {
                self.receiving = Receiving::Done;
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(body.poll_trailers(cx));
        self.receiving = Receiving::Done;
        Poll::Ready(match trailers {
            Err(error) => Some(Err(body_error(&error))),
            Ok(None) => None,
            Ok(Some(trailers)) => trailers::pass(trailers, |_| true).map(|passed| Ok(Frame::trailers(passed))),
        })
    }

    /// Whether the answer is whole.
    pub(crate) fn done(&self) -> bool {
        matches!(self.receiving, Receiving::Done)
    }

    /// How many bytes are still to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        if self.done() { Some(0) } else { self.left }
    }
}

/// Hands on an interim answer, unless it is for us.
fn hand_on(status: StatusCode, mut headers: HeaderMap, interim: &dyn Interim) {
    if status != StatusCode::CONTINUE {
        clean(&mut headers);
        interim.interim(status, &headers);
    }
}

/// Takes out what belongs to one connection or frames one message; answers the length.
fn clean(headers: &mut HeaderMap) -> Option<http::HeaderValue> {
    let gone: Vec<_> = headers.keys().filter(|name| hop_by_hop(name)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
    headers.remove(CONTENT_LENGTH)
}

fn explain(error: &h2::Error) -> StreamFault {
    match error.reason() {
        // RFC 9113, 6.8: a stream learns of GOAWAY only if its number is above the last one that was processed.
        _ if error.is_go_away() && error.is_remote() => StreamFault::Unprocessed,
        Some(Reason::REFUSED_STREAM) if error.is_remote() => StreamFault::Unprocessed,
        Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => {
            StreamFault::Failed(Error::new(Kind::Reset, "the upstream requires HTTP/1.1 for this call"))
        }
        _ if error.is_io() => StreamFault::Ended,
        _ if error.is_remote() => StreamFault::Failed(Error::new(Kind::Reset, "the upstream reset the stream")),
        _ => StreamFault::Failed(malformed("the upstream violates the HTTP/2 protocol")),
    }
}

/// The same inside a body.
fn body_error(error: &h2::Error) -> Error {
    match error.is_io() || error.is_remote() {
        true => cut(),
        false => malformed("the upstream violates the HTTP/2 protocol"),
    }
}
