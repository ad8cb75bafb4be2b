//! A request and its answer on one connection, driven by the future that wants the answer.
//!
//! An exchange has no task and no buffer: while it waits, it is a socket, the head of its request and one timer.

#[cfg(feature = "http2")]
pub(crate) mod h2_stream;
#[cfg(not(feature = "http2"))]
#[path = "exchange/h2_absent.rs"]
pub(crate) mod h2_stream;
pub(crate) mod request;
pub(crate) mod tunnel;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, UPGRADE};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::call::EventUse;
use super::call::clock::{Clock, Expired, Phase};
use super::call::outcome::{AttemptError, ConnectionFailure, ResponseHead, cut, cut_by, malformed, reset};
use super::call::timing::{Ended, Moments};
use super::connect::pool::{ConnectionOrigin, Lease, OwnConnection};
use super::program::{Transport, TransportCall};
use super::servers::Servers;
use super::servers::admission::{Admission, TrickleAdmission, admit};
use super::servers::server::Server;
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::http::http1::answer::{self, AnswerHead, MethodKind};
use crate::http::http1::{AnswerFields, BodyDecoder, Framing, Reuse, head_end};
use crate::http::media_type;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::message::side_channel::{Passage, Tunnel};
use crate::net::tls;
use h2_stream::{H2Stream, StreamFault};
use request::{OutboundRequest, SendProgress};
use tunnel::Switched;

/// The most interim answers before the final one: 100, 102 and 103 may repeat, but not endlessly.
const MAX_INTERIM: u8 = 16;
/// The most bytes that are read after the consumer has left, to keep the connection.
const DRAIN: u64 = 4 * 1024;

/// A call in flight; after its head, the body of its answer.
pub(super) struct Exchange {
    pub(super) servers: Arc<Servers>,
    /// Which of its servers is called.
    pub(super) at: usize,
    pub(super) admission: Option<Admission>,
    pub(super) request: OutboundRequest,
    pub(super) clock: Clock,
    pub(super) moments: Moments,
    own: Option<OwnConnection>,
    origin: ConnectionOrigin,
    sending: SendState,
    reading: ReadState,
    reuse: Reuse,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SendState {
    Busy,
    Done,
    /// The request ended early; the connection cannot be kept.
    Broken,
}

enum ReadState {
    /// The bytes of a head that arrived in pieces; how many of them were searched; the number of interim answers so
    /// far.
    Head {
        partial: Vec<u8>,
        seen: usize,
        interim: u8,
    },
    Body(ArrivingBody),
    /// On a connection that other calls share.
    Shared(H2Stream),
    /// The connection has changed its protocol; the first bytes of the new one.
    Switched(Bytes),
    /// A transport of the program makes the call.
    Carried(Box<TransportCall>),
}

struct ArrivingBody {
    decoder: BodyDecoder,
    /// Read from the socket, not yet pulled.
    ready: Bytes,
}

impl Exchange {
    pub(super) fn new(
        servers: Arc<Servers>,
        at: usize,
        request: OutboundRequest,
        clock: Clock,
        moments: Moments,
    ) -> Self {
        Exchange {
            servers,
            at,
            admission: None,
            request,
            clock,
            moments,
            own: None,
            origin: ConnectionOrigin::Fresh,
            sending: SendState::Busy,
            reading: ReadState::start(),
            reuse: Reuse::Close,
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.servers.list[self.at]
    }

    /// Waits until the call may be in flight.
    ///
    /// # Errors
    /// `Busy`, if the limit is still reached when the time is over.
    pub(super) async fn admit(&mut self, limit: Timeout) -> Result<(), Error> {
        let admission = admit(&self.servers, self.at, &mut self.clock, limit).await;
        self.admission = Some(admission.inspect_err(|error| self.moments.fail(error.kind()))?);
        if self.servers.in_flight.is_limited() {
            self.moments.admit();
        }
        Ok(())
    }

    /// There is no answer so far.
    pub(super) fn lose(&mut self, error: Error, unsent: bool) -> AttemptError {
        self.moments.fail(error.kind());
        AttemptError { error, unsent }
    }

    /// Puts the exchange on a connection.
    ///
    /// # Errors
    /// A shared connection may have ended by now.
    pub(super) fn attach(
        &mut self,
        mut lease: Lease,
        origin: ConnectionOrigin,
        now: Instant,
    ) -> Result<(), ConnectionFailure> {
        let opening = if let Lease::Own(own) = &mut lease { own.opening.take() } else { None };
        if let Some(waited) = self.moments.connect(now, origin == ConnectionOrigin::Kept, opening) {
            self.servers.waits.count(waited);
        }
        self.origin = origin;
        self.sending = SendState::Busy;
        self.reading = ReadState::start();
        let server = &self.servers.list[self.at];
        match lease {
            Lease::Own(mut own) => {
                self.request.write_head(server);
                self.clock.borrow(&mut own.wire.alarm);
                self.own = Some(own);
            }
            Lease::Shared(slot) => {
                let head = self.request.shared_head(server)?;
                let stream = H2Stream::new(slot, head, &mut self.request).map_err(|broken| self.broken(broken))?;
                self.reading = ReadState::Shared(stream);
            }
        }
        Ok(())
    }

    /// Hands the request to a transport.
    ///
    /// # Errors
    /// If it was cancelled meanwhile.
    pub(super) fn carry(&mut self, transport: &dyn Transport) -> Result<(), Error> {
        let now = Instant::now();
        self.moments.connect(now, false, None);
        self.clock.begin(now);
        let request = self.request.carried(&self.servers.list[self.at])?;
        self.sending = SendState::Done;
        self.reading = ReadState::Carried(Box::new(TransportCall::Waiting(transport.send(request))));
        Ok(())
    }

    fn poll_carried_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, ConnectionFailure>> {
        let ReadState::Carried(carried) = &mut self.reading else { return Poll::Ready(Err(gone().into())) };
        match carried.poll_head(cx) {
            Poll::Pending => self.wait(Phase::FirstByte, Starved::No, cx).map(|error| Err(error.into())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok((status, headers))) => {
                self.begun();
                let now = self.clock.paused();
                self.moments.answer(status, now);
                if headers.media().is_some_and(media_type::is_events) {
                    self.clock.lift(self.request.events);
                }
                self.finish(|| now);
                self.moments.go_on();
                Poll::Ready(Ok((status, headers)))
            }
        }
    }

    /// Counts a frame of an answer that another protocol carries, or its end.
    fn note_frame(&mut self, came: Option<Result<Frame<Bytes>, Error>>) -> Option<Result<Frame<Bytes>, Error>> {
        let came = came.transpose().map_err(|error| self.fail(error));
        if let Ok(frame) = &came {
            let bytes = frame.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
            self.moments.bytes += bytes;
            self.clock.moved(bytes);
            self.finish(Instant::now);
        }
        came.transpose()
    }

    fn poll_carried_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let ReadState::Carried(carried) = &mut self.reading else { return Poll::Ready(None) };
        match carried.poll_frame(cx) {
            Poll::Pending => self.wait(Phase::Body, Starved::No, cx).map(|error| Some(Err(self.fail(error)))),
            Poll::Ready(came) => Poll::Ready(self.note_frame(came)),
        }
    }

    /// Sends the request and waits for the head of the answer, both at once.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, ConnectionFailure>> {
        if let ReadState::Shared(_) = self.reading {
            return self.poll_shared_head(cx);
        }
        if let ReadState::Carried(_) = self.reading {
            return self.poll_carried_head(cx);
        }
        loop {
            let starved = match self.poll_send(cx) {
                Ok(starved) => starved,
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            let Some(own) = &mut self.own else { return Poll::Ready(Err(gone().into())) };
            let wanted = HeadConditions {
                asked: self.request.method.asked,
                passage: &self.request.passage,
                sent: self.sending == SendState::Done,
                most: self.servers.max_head,
                asked_on: Cell::new(false),
            };
            let ReadState::Head { partial, seen, interim } = &mut self.reading else {
                return Poll::Ready(Err(gone().into()));
            };
            let before = *interim;
            let read = own.wire.io.poll_read_head(cx, |bytes| match bytes {
                [] => Ok::<_, Error>(Came::End),
                bytes if partial.is_empty() => {
                    let came = heads(bytes, seen, interim, &wanted)?;
                    if let Came::Part(used) = came {
                        partial.extend_from_slice(&bytes[used..]);
                    }
                    Ok(came)
                }
                bytes => {
                    partial.extend_from_slice(bytes);
                    let came = heads(partial, seen, interim, &wanted)?;
                    if let Came::Part(used) = came {
                        partial.drain(..used);
                    }
                    Ok(came)
                }
            });
            if wanted.asked_on.get() {
                self.request.go_on();
            }
            match read {
                Poll::Pending => return self.wait(Phase::FirstByte, starved, cx).map(|error| Err(error.into())),
                // A head that trickles is not there sooner.
                Poll::Ready(Ok(Ok(Came::Part(_)))) if *interim == before => self.settle(),
                Poll::Ready(Ok(Ok(Came::Part(_)))) => self.begun(),
                Poll::Ready(Ok(Ok(Came::Answer(head, opened)))) => {
                    self.begun();
                    return Poll::Ready(Ok(self.open(head, opened)));
                }
                Poll::Ready(Ok(Ok(Came::Switched(headers, early)))) => {
                    self.begun();
                    self.moments.answer(StatusCode::SWITCHING_PROTOCOLS, self.clock.paused());
                    self.reading = ReadState::Switched(early);
                    return Poll::Ready(Ok((StatusCode::SWITCHING_PROTOCOLS, headers)));
                }
                Poll::Ready(Ok(Err(error))) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(Ok(Came::End))) => return Poll::Ready(Err(self.ended(None))),
                // In TLS 1.3 a server checks the client's certificate after the client's side of the handshake is complete.
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(match tls::refusal(&error) {
                        Some(refusal) => ConnectionFailure::Final(refusal.caused_by(error)),
                        None => self.ended(Some(error)),
                    }));
                }
            }
        }
    }

    /// The answer, once its head is there.
    pub(super) fn into_answer(mut self: Box<Self>, (status, headers): ResponseHead) -> Answer {
        let (upstream, lists) = (Some(self.servers.name.clone()), self.servers.lists.clone());
        let body = match &mut self.reading {
            // All of it came with the head: the connection has gone back already.
            ReadState::Body(ArrivingBody { decoder, ready }) if decoder.done() && decoder.trailers.is_none() => {
                AnswerBody::Bytes(std::mem::take(ready))
            }
            ReadState::Switched(early) => {
                let early = std::mem::take(early);
                self.into_tunnel(early).map_or_else(AnswerBody::empty, AnswerBody::Tunnel)
            }
            _ => AnswerBody::Pulled(Pin::from(self)),
        };
        Answer { upstream, lists, ..Answer::new(status, headers, body) }
    }

    /// The connection, after a 101.
    fn into_tunnel(mut self: Box<Self>, early: Bytes) -> Option<Tunnel> {
        let upgrade = self.request.passage.upgrade.take()?;
        // From here on, the connection is not a call.
        self.end(Ended::Whole, Instant::now);
        let stream = Switched::new(self.own.take()?, self.admission.take(), self.servers.clone());
        Some(Tunnel { stream: Box::new(stream), early, idle: upgrade.idle })
    }

    /// Sends on; returns whether it waits for the request's body.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<Starved, Error> {
        let Some(own) = &mut self.own else { return Ok(Starved::No) };
        if self.sending != SendState::Busy {
            return Ok(Starved::No);
        }
        let before = self.request.written();
        let sent = self.request.poll_send(&mut own.wire.io, cx);
        if self.request.written() != before {
            self.clock.moved(self.request.written() - before);
        }
        match sent {
            SendProgress::All => self.sending = SendState::Done,
            SendProgress::Blocked => {}
            SendProgress::Starved => return Ok(Starved::Yes),
            SendProgress::Refused => self.sending = SendState::Broken,
            SendProgress::Failed(error) => return Err(error),
        }
        Ok(Starved::No)
    }

    /// Waits with the clock running, after a read that brought no bytes.
    fn wait(&mut self, phase: Phase, starved: Starved, cx: &mut Context<'_>) -> Poll<Error> {
        let phase = if let Starved::Yes = starved { Phase::Upload } else { phase };
        loop {
            match ready!(self.clock.poll_expired(phase, cx)) {
                Expired::Failed(error) => return Poll::Ready(error),
                Expired::Trickles => match self.admission.as_mut().map(|own| own.step_aside(&self.servers)) {
                    Some(TrickleAdmission::Enough) => self.clock.wait_on(),
                    Some(TrickleAdmission::Made) | None => self.clock.accept(),
                    Some(TrickleAdmission::None) => return Poll::Ready(in_the_way(phase)),
                },
            }
        }
    }

    /// Part of the answer is here.
    fn begun(&mut self) {
        self.clock.pause();
        self.settle();
    }

    /// There will be no second sending.
    fn settle(&mut self) {
        self.origin = ConnectionOrigin::Fresh;
        self.request.settle();
    }

    /// The connection ended inside or before the head.
    fn ended(&mut self, error: Option<io::Error>) -> ConnectionFailure {
        self.own = None;
        let partly =
            matches!(&self.reading, ReadState::Head { partial, interim, .. } if !partial.is_empty() || *interim > 0);
        if partly {
            return ConnectionFailure::Final(error.map_or_else(cut, cut_by));
        }
        if self.origin == ConnectionOrigin::Kept && self.request.rewind() {
            return ConnectionFailure::Stale;
        }
        ConnectionFailure::Final(reset(error))
    }

    /// From the head to the body, of which a part may have come already.
    fn open(&mut self, head: AnswerHead, opened: OpenedExchange) -> ResponseHead {
        let OpenedExchange { decoder, ready, surplus } = opened;
        // A server that declines an upgrade may be in doubt about the connection.
        let last = surplus || self.request.upgrades();
        self.request.go_on();
        self.reuse = if last { Reuse::Close } else { head.reuse };
        // A refusal is final: the rest of the request is not sent.
        if self.sending == SendState::Busy && head.status.as_u16() >= 300 {
            self.request.stop();
            self.sending = SendState::Broken;
        }
        if head.events {
            self.clock.lift(self.request.events);
        }
        let now = self.clock.paused();
        self.moments.answer(head.status, now);
        self.moments.bytes += ready.len() as u64;
        self.reading = ReadState::Body(ArrivingBody { decoder, ready });
        self.finish(|| now);
        self.moments.go_on();
        (head.status, head.headers)
    }

    /// Sends what it can, and reads once into `ready`.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let starved = self.poll_send(cx)?;
        match self.poll_part(cx) {
            Poll::Pending => self.wait(Phase::Body, starved, cx).map(Err),
            came => {
                let bytes =
                    if let ReadState::Body(ArrivingBody { ready, .. }) = &self.reading { ready.len() } else { 0 };
                self.clock.moved(bytes as u64);
                came
            }
        }
    }

    /// Reads once, without regard to clock and request.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (Some(own), ReadState::Body(ArrivingBody { decoder, ready })) = (&mut self.own, &mut self.reading) else {
            return Poll::Ready(Err(gone()));
        };
        let read = ready!(own.wire.io.poll_read(cx, |bytes| {
            if bytes.is_empty() {
                return decoder.end().map(|()| Reuse::Close).map_err(|_| cut());
            }
            let found = decoder.decode(bytes).map_err(|fault| malformed(fault.0))?;
            *ready = Bytes::copy_from_slice(&bytes[found.data]);
            Ok(if found.used == bytes.len() { Reuse::Keep } else { Reuse::Close })
        }));
        self.moments.bytes += ready.len() as u64;
        if read.unwrap_or_else(|error: io::Error| Err(cut_by(error)))? == Reuse::Close {
            self.reuse = Reuse::Close;
        }
        self.finish(Instant::now);
        Poll::Ready(Ok(()))
    }

    /// Lets go of connection and admission when the answer is whole.
    fn finish(&mut self, now: impl FnOnce() -> Instant) {
        if !self.done() {
            return;
        }
        self.end(Ended::Whole, now);
        if let Some(mut own) = self.own.take()
            && self.reuse == Reuse::Keep
            && self.sending == SendState::Done
        {
            self.clock.give_back(&mut own.wire.alarm);
            self.server().pool.put(own, self.clock.paused());
        }
        if let ReadState::Shared(_) | ReadState::Carried(_) = self.reading {
            self.reading = ReadState::end();
        }
        self.request.stop();
        self.release_admission();
    }

    /// Ends the exchange, if it was not over before.
    fn end(&mut self, how: Ended, now: impl FnOnce() -> Instant) {
        if let Some((end, time)) = self.moments.end(how, now) {
            self.server().figures.times.count(end, time);
        }
    }

    /// The call is no longer in flight.
    fn release_admission(&mut self) {
        if let Some(admission) = self.admission.take() {
            admission.give_back(&self.servers);
        }
    }

    fn done(&self) -> bool {
        match &self.reading {
            ReadState::Head { .. } | ReadState::Switched(_) => false,
            ReadState::Body(ArrivingBody { decoder, .. }) => decoder.done(),
            ReadState::Shared(stream) => stream.done(),
            ReadState::Carried(carried) => carried.done(),
        }
    }

    /// The same as `poll_head` on a shared connection.
    fn poll_shared_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, ConnectionFailure>> {
        let starved = self.poll_shared_send(cx)?;
        let ReadState::Shared(stream) = &mut self.reading else { return Poll::Ready(Err(gone().into())) };
        let before = self.request.expects();
        let polled = stream.poll_head(&mut self.request, cx);
        if before && !self.request.expects() && polled.is_pending() {
            // The body may leave now.
            return self.poll_shared_head(cx);
        }
        match polled {
            Poll::Pending => self.wait(Phase::FirstByte, starved, cx).map(|error| Err(error.into())),
            Poll::Ready(Err(broken)) => Poll::Ready(Err(self.broken(broken))),
            Poll::Ready(Ok((status, headers))) => {
                self.begun();
                let now = self.clock.paused();
                self.moments.answer(status, now);
                let media = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
                if media.is_some_and(media_type::is_events) {
                    self.clock.lift(self.request.events);
                } else if media.is_some_and(media_type::is_grpc) {
                    // It may be a stream, which rests as long as it likes; its deadline is its client's.
                    self.clock.lift(EventUse::Read);
                }
                self.finish(|| now);
                self.moments.go_on();
                Poll::Ready(Ok((status, headers.into())))
            }
        }
    }

    fn poll_shared_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let starved = match self.poll_shared_send(cx) {
            Ok(starved) => starved,
            Err(error) => return Poll::Ready(Some(Err(self.fail(error)))),
        };
        let ReadState::Shared(stream) = &mut self.reading else { return Poll::Ready(None) };
        match stream.poll_body(cx) {
            Poll::Pending => self.wait(Phase::Body, starved, cx).map(|error| Some(Err(self.fail(error)))),
            Poll::Ready(came) => Poll::Ready(self.note_frame(came)),
        }
    }

    fn poll_shared_send(&mut self, cx: &mut Context<'_>) -> Result<Starved, Error> {
        let ReadState::Shared(stream) = &mut self.reading else { return Ok(Starved::No) };
        let before = self.request.written();
        let sent = stream.poll_send(&mut self.request, cx)?;
        if self.request.written() != before {
            self.clock.moved(self.request.written() - before);
        }
        Ok(if let h2_stream::StreamProgress::Starved = sent { Starved::Yes } else { Starved::No })
    }

    /// A stream gave no answer.
    fn broken(&mut self, broken: StreamFault) -> ConnectionFailure {
        self.reading = ReadState::start();
        match broken {
            StreamFault::Failed(error) => ConnectionFailure::Final(error),
            StreamFault::Ended => self.ended(None),
            StreamFault::Unprocessed if self.request.rewind_unseen() => ConnectionFailure::Stale,
            StreamFault::Unprocessed => ConnectionFailure::Final(Error::new(
                Kind::Reset,
                "the upstream accepts no more calls on this connection",
            )),
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        self.end(Ended::Failed(error.kind()), Instant::now);
        self.own = None;
        self.release_admission();
        self.request.stop();
        self.reading = ReadState::end();
        error.of_upstream(&self.servers.name)
    }

    /// Whether so little can be left that reading it costs less than a new connection.
    fn worth_draining(&self) -> bool {
        let ReadState::Body(ArrivingBody { decoder, .. }) = &self.reading else { return false };
        let small = decoder.left().map_or_else(|| decoder.delimited(), |left| left <= DRAIN);
        small && !decoder.done() && self.reuse == Reuse::Keep && self.sending == SendState::Done
    }
}

impl http_body::Body for Exchange {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let ReadState::Shared(_) = self.reading {
            return self.poll_shared_frame(cx);
        }
        if let ReadState::Carried(_) = self.reading {
            return self.poll_carried_frame(cx);
        }
        loop {
            let ReadState::Body(ArrivingBody { decoder, ready }) = &mut self.reading else { return Poll::Ready(None) };
            if !ready.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(ready)))));
            }
            if decoder.done() {
                let trailers = decoder.trailers.take();
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(*trailers))));
            }
            if let Err(error) = ready!(self.poll_fill(cx)) {
                return Poll::Ready(Some(Err(self.fail(error))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let ReadState::Body(ArrivingBody { decoder, ready }) = &self.reading else { return false };
        ready.is_empty() && decoder.done() && decoder.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = match &self.reading {
            ReadState::Head { .. } | ReadState::Switched(_) => None,
            // An answer with trailers leaves in chunks: nothing follows a length.
            ReadState::Body(ArrivingBody { decoder, .. }) if decoder.trailers.is_some() => None,
            ReadState::Body(ArrivingBody { decoder, ready }) => decoder.left().map(|left| left + ready.len() as u64),
            // A client that takes trailers may get some, though the length is known.
            ReadState::Shared(stream) if self.request.passage.trailers && !stream.done() => None,
            ReadState::Shared(stream) => stream.left(),
            ReadState::Carried(carried) => return carried.size_hint(),
        };
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Exchange {
    /// A consumer that has what it needs often leaves before the last chunk: it is read if it is there.
    fn drop(&mut self) {
        if self.worth_draining() {
            // The connection is kept by `finish` if that was the end, and closed if not.
            let _ = self.poll_part(&mut Context::from_waker(Waker::noop()));
        }
        self.end(Ended::Dropped, Instant::now);
        self.release_admission();
    }
}

#[derive(Clone, Copy)]
enum Starved {
    Yes,
    No,
}

impl ReadState {
    fn end() -> Self {
        ReadState::Body(ArrivingBody { decoder: BodyDecoder::new(Framing::Empty), ready: Bytes::new() })
    }

    fn start() -> Self {
        ReadState::Head { partial: Vec::new(), seen: 0, interim: 0 }
    }
}

/// The result of one read while the head was waited for.
enum Came {
    /// The connection's end.
    End,
    /// A part of a head, after this many bytes of interim answers.
    Part(usize),
    /// The final head, and the part of the body that arrived with it.
    Answer(AnswerHead, OpenedExchange),
    /// The fields of a 101, and what came of the other protocol.
    Switched(AnswerFields, Bytes),
}

/// A body as it was found behind its head.
struct OpenedExchange {
    decoder: BodyDecoder,
    ready: Bytes,
    surplus: bool,
}

impl OpenedExchange {
    fn new(framing: Framing, bytes: &mut [u8]) -> Result<Self, Error> {
        let mut decoder = BodyDecoder::new(framing);
        let found = decoder.decode(bytes).map_err(|fault| malformed(fault.0))?;
        let ready = Bytes::copy_from_slice(&bytes[found.data]);
        Ok(OpenedExchange { decoder, ready, surplus: found.used < bytes.len() })
    }
}

/// The conditions that the head must match.
struct HeadConditions<'a> {
    asked: MethodKind,
    passage: &'a Passage,
    /// Whether the request has left to its end.
    sent: bool,
    /// Bytes that a head may have.
    most: usize,
    /// Set by `100 Continue`.
    asked_on: Cell<bool>,
}

impl HeadConditions<'_> {
    /// The fields of a 101, which is only right for a request that asked for it and is whole (RFC 9110, 7.8).
    fn switch(&self, head: AnswerHead) -> Result<AnswerFields, Error> {
        let asked =
            self.passage.upgrade.as_deref().ok_or_else(|| malformed("the upstream switched protocols unasked"))?;
        let named = head.upgrade.filter(|named| named.as_bytes().eq_ignore_ascii_case(asked.protocol.as_bytes()));
        let named =
            named.ok_or_else(|| malformed("the upstream switched to another protocol than it was asked for"))?;
        if !self.sent {
            return Err(malformed("the upstream switched protocols before it had the request"));
        }
        let mut headers = head.headers;
        headers.insert(UPGRADE, named);
        Ok(headers)
    }

    /// Hands on an interim answer, except 100: the client gets its own when its body is read.
    fn hand_on(&self, head: &AnswerHead) {
        if head.status == StatusCode::CONTINUE {
            self.asked_on.set(true);
        }
        if let (Some(interim), true) = (&self.passage.interim, head.status != StatusCode::CONTINUE) {
            interim.interim(head.status, &head.headers);
        }
    }
}

/// Reads the heads in `bytes` up to the final one.
fn heads(bytes: &mut [u8], seen: &mut usize, interim: &mut u8, wanted: &HeadConditions<'_>) -> Result<Came, Error> {
    let mut start = 0;
    loop {
        let rest = &mut bytes[start..];
        // A head that arrives in pieces is parsed when its end may be there, not with each piece.
        let may_end = *seen == 0 || head_end(rest, *seen).is_some();
        let parsed =
            if may_end { answer::parse(rest, wanted.asked).map_err(|fault| malformed(fault.0))? } else { None };
        if parsed.as_ref().map_or(rest.len(), |(_, end)| *end) > wanted.most {
            return Err(malformed("the head of the answer is too large"));
        }
        let Some((head, end)) = parsed else {
            *seen = rest.len();
            return Ok(Came::Part(start));
        };
        let body = &mut rest[end..];
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return wanted.switch(head).map(|headers| Came::Switched(headers, Bytes::copy_from_slice(body)));
        }
        if !head.status.is_informational() {
            let opened = OpenedExchange::new(head.framing, body)?;
            return Ok(Came::Answer(head, opened));
        }
        *interim += 1;
        if *interim > MAX_INTERIM {
            return Err(malformed("the upstream sent too many interim answers"));
        }
        wanted.hand_on(&head);
        *seen = 0;
        start += end;
    }
}

/// The call trickles, and so do as many others as may, while calls wait.
fn in_the_way(phase: Phase) -> Error {
    match phase {
        Phase::Upload => Error::new(Kind::SlowBody, "the request's body came too slowly while other calls waited"),
        _ => Error::new(Kind::Busy, "the upstream's answer came too slowly while other calls waited"),
    }
}

fn gone() -> Error {
    Error::new(Kind::Internal, "the call was polled after its end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_is_small() {
        // Beside it there are a socket and a timer; thousands wait at the same time.
        let size = size_of::<Exchange>();
        assert!(size <= 808, "{size} bytes");
    }
}
