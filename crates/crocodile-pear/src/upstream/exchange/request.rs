//! A request on its way out: its head rebuilt, never copied, its body pulled as the socket takes it.

use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, TE, VIA};
use http::uri::Authority;
use http::{HeaderValue, Method, Uri, Version};
use http_body::Frame;

use crate::error::{Error, Kind};
use crate::http::http1::answer::MethodKind;
use crate::http::http1::fields::rebuilt;
use crate::http::http1::write::{self, Unsent};
use crate::json;
use crate::message::body::{AnswerBody, BytesBody, PulledBody};
use crate::message::side_channel::{Passage, Upgrade};
use crate::telemetry::trace::Trace;
use crate::upstream::call::expecting::Expecting;
use crate::upstream::call::forward::Trailing;
use crate::upstream::call::{EventUse, TargetRoot, UpstreamCall};
use crate::upstream::connect::io::Io;
use crate::upstream::servers::server::Server;

thread_local! {
    /// Heads are put together here, then copied at their right size.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A request, from its first byte to its last; it may be sent again.
pub(crate) struct OutboundRequest {
    /// The parts of the head, as long as the HTTP version is not known.
    parts: Option<Box<RequestParts>>,
    /// Head and body as far as they are in memory; what a second sending needs.
    head: Bytes,
    body: Bytes,
    repeatable: Repeatable,
    pub(crate) method: Class,
    pub(crate) passage: Passage,
    /// How a stream of events is used.
    pub(crate) events: EventUse,
    stream: Option<BodyStream>,
    /// The body stays back until the server asks for it.
    expecting: Option<Box<Expecting>>,
    /// The client ended its body apart from the head, which HTTP/2 does with an empty frame.
    ends_apart: bool,
    out: Out,
    begun: bool,
    written: u64,
}

/// The head of a request, in no version of HTTP.
struct RequestParts {
    method: Method,
    target: String,
    headers: HeaderMap,
    root: TargetRoot,
    length: Option<Option<u64>>,
    host: Option<HeaderValue>,
    link: ConnectionOptions,
    /// The HTTP version of the client's request.
    received: Version,
}

/// The head's statements about the connection.
struct ConnectionOptions {
    /// The protocol to change to.
    upgrade: Option<Arc<Upgrade>>,
    /// Whether trailers are taken.
    trailers: bool,
    /// Whether the body waits for `100 Continue`.
    expects: bool,
}

/// The facts about a request that the record needs.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestFacts<'a> {
    /// Its trace, and its span there.
    pub(crate) trace: Option<(&'a Trace, u64)>,
    /// Whether its target is wanted afterwards.
    pub(crate) target: bool,
}

/// A piece of a body, for a connection that has framing of its own.
pub(crate) enum StreamPiece {
    Data(Bytes),
    Last(Bytes),
    Trailers(HeaderMap),
}

/// The meaning of a method for the connection.
#[derive(Clone, Copy)]
pub(crate) struct Class {
    pub(crate) asked: MethodKind,
    /// Whether doing it twice is the same as doing it once (RFC 9110, 9.2.2).
    pub(crate) idempotent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeatable {
    Yes,
    No,
}

/// A body that is still to come.
struct BodyStream {
    body: PulledBody,
    length: Length,
    trailing: Trailing,
}

enum Length {
    Left(u64),
    Chunked,
}

/// The next bytes for the socket.
#[derive(Default)]
struct Out {
    /// How much of the head has left; it goes before all else.
    head: usize,
    rest: Unsent,
}

/// How far sending has come.
pub(crate) enum SendProgress {
    /// Everything is written.
    All,
    /// The socket takes no more for now.
    Blocked,
    /// The body has nothing for now.
    Starved,
    /// The upstream accepts no more bytes. It may have answered nevertheless.
    Refused,
    /// The body failed: the request can never be whole.
    Failed(Error),
}

impl OutboundRequest {
    /// # Errors
    /// `BadRequest` if the call cannot be written in HTTP/1.1.
    ///
    /// Takes what it needs out of the call. If the call is noted, its method and its target stay there.
    pub(crate) fn new(server: &Server, call: &mut UpstreamCall, noted: RequestFacts<'_>) -> Result<Self, Error> {
        check(call)?;
        let ends_apart = matches!(&call.body, Some(AnswerBody::Pulled(body)) if body.is_end_stream());
        let (body, stream, json) = match call.body.take() {
            None => (Bytes::new(), None, false),
            Some(AnswerBody::Bytes(bytes)) => (bytes, None, false),
            Some(AnswerBody::Value(value)) => (json::to_bytes(&value)?, None, true),
            Some(AnswerBody::Json(raw)) => (raw.bytes().clone(), None, true),
            Some(AnswerBody::Pulled(body)) => {
                (Bytes::new(), BodyStream::new(body, std::mem::take(&mut call.trailing)), false)
            }
            Some(AnswerBody::Tunnel(_)) => return Err(Error::new(Kind::Unusable, "the upstream switched protocols")),
        };
        let length = match &stream {
            Some(stream) => stream.length.announced(),
            None if body.is_empty() && !meant_to_have_a_body(&call.method) => None,
            None => Some(Some(body.len() as u64)),
        };
        if json && !call.headers.contains_key(CONTENT_TYPE) {
            call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let method = Class {
            asked: if call.method == Method::HEAD { MethodKind::Head } else { MethodKind::Other },
            idempotent: call.method.is_idempotent(),
        };
        let (passage, events) = (std::mem::take(&mut call.passage), call.events);
        let once = stream.is_some() || passage.upgrade.is_some();
        let repeatable = if method.idempotent && !once { Repeatable::Yes } else { Repeatable::No };
        let expecting = stream.as_ref().filter(|_| passage.expects).map(|_| Box::<Expecting>::default());
        let link = ConnectionOptions {
            upgrade: passage.upgrade.clone(),
            trailers: passage.trailers,
            expects: expecting.is_some(),
        };
        let mut parts = RequestParts {
            method: call.method.clone(),
            target: std::mem::take(&mut call.target),
            headers: std::mem::take(&mut call.headers),
            root: call.root,
            length,
            host: call.host.take(),
            link,
            received: call.received,
        };
        let out = Out::from_bytes(body.clone());
        let head = Bytes::new();
        let mut request = OutboundRequest {
            parts: None,
            head,
            body,
            repeatable,
            method,
            passage,
            events,
            stream,
            expecting,
            ends_apart,
            out,
            begun: false,
            written: 0,
        };
        match server.pool.shares() || server.transport().is_some() {
            // If the version is known, the head is written at once: bytes are smaller than parts.
            false => {
                request.head = parts.write_traced(server, noted.trace);
                call.target = parts.target;
            }
            true => {
                if let Some((trace, span)) = noted.trace {
                    trace.insert(span, &mut parts.headers);
                }
                if noted.target {
                    call.target.clone_from(&parts.target);
                }
                request.parts = Some(Box::new(parts));
            }
        }
        Ok(request)
    }

    /// Gets ready for HTTP/1.1.
    pub(crate) fn write_head(&mut self, server: &Server) {
        if let Some(parts) = self.parts.as_mut().filter(|_| self.head.is_empty()) {
            self.head = parts.write(server);
        }
    }

    /// The head for HTTP/2.
    ///
    /// # Errors
    /// `Reset` if it was cancelled meanwhile.
    pub(crate) fn shared_head(&mut self, server: &Server) -> Result<http::Request<()>, Error> {
        let gone = || Error::new(Kind::Reset, "the request cannot be sent again");
        self.head = Bytes::new();
        self.out.head = 0;
        self.parts.as_ref().and_then(|parts| parts.share(server)).ok_or_else(gone)
    }

    /// The whole request, for a transport.
    ///
    /// # Errors
    /// The errors of [`shared_head`](Self::shared_head).
    pub(crate) fn carried(&mut self, server: &Server) -> Result<http::Request<PulledBody>, Error> {
        let (mut head, ()) = self.shared_head(server)?.into_parts();
        head.version = Version::HTTP_11;
        self.begun = true;
        let body: PulledBody = match self.stream.take() {
            Some(stream) => stream.body,
            None => Box::pin(BytesBody::new(self.body.clone())),
        };
        self.out = Out::default();
        self.written += 1;
        Ok(http::Request::from_parts(head, body))
    }

    /// Whether the connection will change its protocol.
    pub(crate) fn upgrades(&self) -> bool {
        self.passage.upgrade.is_some()
    }

    /// Whether the head is all there is.
    pub(crate) fn bodiless(&self) -> bool {
        self.stream.is_none() && self.out.rest.data.is_empty() && !self.ends_apart
    }

    /// Whether the body stays back.
    pub(crate) fn expects(&self) -> bool {
        self.expecting.is_some()
    }

    /// The server asks for the body, or has answered.
    pub(crate) fn go_on(&mut self) {
        self.expecting = None;
    }

    /// Whether the body stays back for now. The server may never ask for it: not every one knows `Expect`.
    fn waits(&mut self, cx: &mut Context<'_>) -> bool {
        let waits = self.expecting.as_mut().is_some_and(|expecting| expecting.poll_over(cx).is_pending());
        if !waits {
            self.expecting = None;
        }
        waits
    }

    /// The head has left.
    pub(crate) fn sent(&mut self) {
        self.written += 1;
    }

    /// The next piece of the body, without framing.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<StreamPiece, Error>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        self.written += 1;
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Ok(StreamPiece::Last(std::mem::take(&mut self.out.rest.data))));
        };
        self.begun = true;
        let piece = ready!(stream.poll_piece(cx))?;
        match &piece {
            StreamPiece::Data(data) => self.written += data.len() as u64,
            _ => self.stream = None,
        }
        Poll::Ready(Ok(piece))
    }

    /// Writes and pulls until one of the two must wait.
    pub(crate) fn poll_send(&mut self, io: &mut Io, cx: &mut Context<'_>) -> SendProgress {
        loop {
            let waits = self.expecting.is_some() && self.waits(cx);
            if waits && self.is_out() {
                return flush(io, cx, SendProgress::Starved);
            }
            // If a first piece is ready, it leaves together with the head.
            if (self.is_out() || !self.begun)
                && !waits
                && let Some(stream) = &mut self.stream
            {
                self.begun = true;
                match stream.poll_fill(&mut self.out, cx) {
                    Poll::Ready(Ok(More::Yes)) => {}
                    Poll::Ready(Ok(More::No)) => self.stream = None,
                    Poll::Ready(Err(error)) => return SendProgress::Failed(error),
                    Poll::Pending if self.is_out() => return flush(io, cx, SendProgress::Starved),
                    Poll::Pending => {}
                }
            }
            if self.is_out() {
                match self.stream {
                    None => return flush(io, cx, SendProgress::All),
                    Some(_) => continue,
                }
            }
            match self.out.poll_write(&self.head, io, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return SendProgress::Refused,
                Poll::Ready(Ok(written)) => self.written += written as u64,
                Poll::Pending => return SendProgress::Blocked,
            }
        }
    }

    /// Whether everything that is ready was sent.
    fn is_out(&self) -> bool {
        self.out.head == self.head.len() && self.out.rest.is_empty()
    }

    /// How many bytes have left.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Gets ready to be sent from its beginning, if that is safe and everything is still there.
    pub(crate) fn rewind(&mut self) -> bool {
        // The framing of one HTTP version does not fit the other.
        if self.written == 0 && !(self.begun && self.parts.is_some()) {
            return true;
        }
        if self.repeatable == Repeatable::No {
            return false;
        }
        self.reset();
        true
    }

    /// The same for a request that the server provably has not processed.
    pub(crate) fn rewind_unseen(&mut self) -> bool {
        let whole = !self.begun;
        if whole {
            self.reset();
        }
        whole
    }

    /// Whether the body is a stream of which nothing was pulled.
    pub(crate) fn has_whole_stream(&self) -> bool {
        self.stream.is_some() && !self.begun
    }

    /// The body, for another server; `None` unless it is such a stream.
    pub(crate) fn take_stream(&mut self) -> Option<(Option<AnswerBody>, Trailing)> {
        let stream = self.stream.take().filter(|_| !self.begun)?;
        Some((Some(AnswerBody::Pulled(stream.body)), stream.trailing))
    }

    fn reset(&mut self) {
        self.out = Out::from_bytes(self.body.clone());
        self.written = 0;
    }

    /// The answer has begun: there will be no second sending.
    pub(crate) fn settle(&mut self) {
        self.repeatable = Repeatable::No;
        self.parts = None;
        self.body = Bytes::new();
        // An answer may begin before the head has left.
        if self.out.head == self.head.len() {
            self.drop_head();
        }
    }

    /// Gives up what has not been sent.
    pub(crate) fn stop(&mut self) {
        self.stream = None;
        self.expecting = None;
        self.ends_apart = false;
        self.out = Out::default();
        self.drop_head();
    }

    fn drop_head(&mut self) {
        self.head = Bytes::new();
        self.out.head = 0;
    }
}

impl RequestParts {
    /// The path before the target. A target without a path means the upstream's own path, or the server's root.
    fn base<'a>(&self, server: &'a Server) -> &'a str {
        let base = match self.root {
            TargetRoot::Upstream => &server.face.base,
            TargetRoot::Server => "",
        };
        if base.is_empty() && !self.target.starts_with('/') { "/" } else { base }
    }

    fn host<'a>(&'a self, server: &'a Server) -> &'a [u8] {
        self.host.as_ref().map_or(server.host.as_bytes(), HeaderValue::as_bytes)
    }

    fn write(&mut self, server: &Server) -> Bytes {
        self.write_traced(server, None)
    }

    /// The same with a span for the server. It is written directly, without a header field.
    fn write_traced(&mut self, server: &Server, trace: Option<(&Trace, u64)>) -> Bytes {
        SCRATCH.with_borrow_mut(|out| {
            out.clear();
            write_line(out, &self.method, [self.base(server), &self.target], self.host(server));
            if let Some((trace, span)) = trace {
                trace.write(span, &mut self.headers, out);
            }
            write_fields(out, &self.headers);
            self.link.write(out);
            if let Some(via) = server.via(self.received) {
                out.extend_from_slice(b"via: ");
                out.extend_from_slice(via);
                out.extend_from_slice(b"\r\n");
            }
            write_length(out, self.length);
            out.extend_from_slice(b"\r\n");
            Bytes::copy_from_slice(out)
        })
    }

    fn share(&self, server: &Server) -> Option<http::Request<()>> {
        let path = [self.base(server), &self.target].concat();
        let uri = Uri::builder().scheme(server.face.origin.scheme()).authority(self.host(server)).path_and_query(path);
        let fields = self.headers.iter().filter(|(name, _)| !rebuilt(name));
        let mut headers: HeaderMap = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        // The name of a process and a checked value are valid.
        if let Some(via) = server.via(self.received).and_then(|via| HeaderValue::from_bytes(via).ok()) {
            headers.append(VIA, via);
        }
        if self.link.trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        if let Some(Some(length)) = self.length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        if self.link.expects {
            headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        Some(shared_head(self.method.clone(), uri.build().ok()?, headers))
    }
}

impl ConnectionOptions {
    /// `upgrade` and `te` are for this connection only, and must be named in `connection` (RFC 9110, 7.8 and 10.1.4).
    fn write(&self, out: &mut Vec<u8>) {
        if self.expects {
            out.extend_from_slice(b"expect: 100-continue\r\n");
        }
        match (&self.upgrade, self.trailers) {
            (None, false) => return,
            (None, true) => out.extend_from_slice(b"connection: te\r\n"),
            (Some(_), false) => out.extend_from_slice(b"connection: upgrade\r\n"),
            (Some(_), true) => out.extend_from_slice(b"connection: upgrade, te\r\n"),
        }
        if let Some(upgrade) = &self.upgrade {
            write::field(out, b"upgrade", &upgrade.protocol);
        }
        if self.trailers {
            out.extend_from_slice(b"te: trailers\r\n");
        }
    }
}

impl Out {
    /// A body behind the head.
    fn from_bytes(data: Bytes) -> Self {
        Out { head: 0, rest: Unsent { data, ..Unsent::default() } }
    }

    fn poll_write(&mut self, head: &[u8], io: &mut Io, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let head = &head[self.head..];
        let parts = [head, &self.rest.lead, &self.rest.data, self.rest.tail].map(IoSlice::new);
        // One part alone, as a head mostly is, takes the cheaper system call.
        let used = if self.rest.is_empty() { 1 } else { 4 };
        let written = io.poll_write(cx, &parts[..used]);
        if let Poll::Ready(Ok(written)) = written {
            let of_head = written.min(head.len());
            self.head += of_head;
            self.rest.advance(written - of_head);
        }
        written
    }
}

enum More {
    Yes,
    No,
}

impl BodyStream {
    /// Makes the stream; `None` if the body is known to be empty.
    fn new(body: PulledBody, trailing: Trailing) -> Option<Self> {
        if body.is_end_stream() {
            return None;
        }
        let length = body.size_hint().exact().map_or(Length::Chunked, Length::Left);
        Some(BodyStream { body, length, trailing })
    }

    fn poll_fill(&mut self, out: &mut Out, cx: &mut Context<'_>) -> Poll<Result<More, Error>> {
        if let Length::Left(0) = self.length {
            return Poll::Ready(Ok(More::No));
        }
        self.body.as_mut().poll_frame(cx).map(|frame| match frame {
            Some(frame) => self.fill(frame?, out),
            None => self.end(None, out),
        })
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<StreamPiece, Error>> {
        let last = || StreamPiece::Last(Bytes::new());
        let piece = match ready!(self.body.as_mut().poll_frame(cx)).transpose()?.map(Frame::into_data) {
            None => last(),
            Some(Err(frame)) => {
                let trailers = frame.into_trailers().ok().and_then(|trailers| self.trailing.pass(trailers));
                trailers.map_or_else(last, StreamPiece::Trailers)
            }
            Some(Ok(data)) => StreamPiece::Data(data),
        };
        Poll::Ready(self.length.check(piece))
    }

    fn fill(&mut self, frame: Frame<Bytes>, out: &mut Out) -> Result<More, Error> {
        let data = match frame.into_data() {
            // An empty chunk would end the body.
            Ok(data) if data.is_empty() => return Ok(More::Yes),
            Ok(data) => data,
            Err(frame) => {
                let trailers = frame.into_trailers().ok().and_then(|trailers| self.trailing.pass(trailers));
                return self.end(trailers.as_ref(), out);
            }
        };
        match &mut self.length {
            Length::Left(left) => take(left, &data)?,
            Length::Chunked => {
                let mut line = Vec::with_capacity(18);
                write::chunk_size(&mut line, data.len());
                out.rest.lead = line.into();
                out.rest.tail = b"\r\n";
            }
        }
        out.rest.data = data;
        Ok(More::Yes)
    }

    fn end(&mut self, trailers: Option<&HeaderMap>, out: &mut Out) -> Result<More, Error> {
        match self.length {
            Length::Left(0) => Ok(More::No),
            Length::Left(_) => Err(uneven("shorter")),
            Length::Chunked => {
                let mut last = b"0\r\n".to_vec();
                trailers.into_iter().for_each(|trailers| write_fields(&mut last, trailers));
                last.extend_from_slice(b"\r\n");
                out.rest.lead = last.into();
                Ok(More::No)
            }
        }
    }
}

impl Length {
    /// The piece again, unless the body is of another length than announced.
    fn check(&mut self, piece: StreamPiece) -> Result<StreamPiece, Error> {
        match (self, &piece) {
            (Length::Left(left), StreamPiece::Data(data)) => take(left, data)?,
            (Length::Left(1..), _) => return Err(uneven("shorter")),
            _ => {}
        }
        Ok(piece)
    }

    /// The framing in the head: a length, or chunks.
    fn announced(&self) -> Option<Option<u64>> {
        match self {
            Length::Left(length) => Some(Some(*length)),
            Length::Chunked => Some(None),
        }
    }
}

fn take(left: &mut u64, data: &Bytes) -> Result<(), Error> {
    *left = left.checked_sub(data.len() as u64).ok_or_else(|| uneven("longer"))?;
    Ok(())
}

/// `then`, once the socket has all that was written.
fn flush(io: &mut Io, cx: &mut Context<'_>, then: SendProgress) -> SendProgress {
    match io.poll_flush(cx) {
        Poll::Ready(Ok(())) => then,
        Poll::Ready(Err(_)) => SendProgress::Refused,
        Poll::Pending => SendProgress::Blocked,
    }
}

fn check(call: &UpstreamCall) -> Result<(), Error> {
    // Nothing in it may end the request line or become a second one.
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
    let begins = matches!(call.target.as_bytes().first(), None | Some(b'/' | b'?'));
    if !begins || !call.target.as_bytes().iter().all(plain) {
        return Err(Error::new(Kind::BadRequest, "the path of the call is not valid"));
    }
    let host = call.host.as_ref().map(|host| Authority::try_from(host.as_bytes()));
    if host.is_some_and(|host| host.is_err()) {
        return Err(Error::new(Kind::BadRequest, "the host of the call is not valid"));
    }
    if call.method == Method::CONNECT {
        return Err(Error::new(Kind::BadRequest, "the method cannot be used for a call"));
    }
    Ok(())
}

/// RFC 9110, 8.6: these say that their body is empty.
fn meant_to_have_a_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn write_line(out: &mut Vec<u8>, method: &Method, path: [&str; 2], host: &[u8]) {
    for part in [method.as_str(), " ", path[0], path[1], " HTTP/1.1\r\nhost: "] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
}

fn write_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields.iter().filter(|(name, _)| !rebuilt(name)) {
        write::field(out, name.as_str().as_bytes(), value);
    }
}

fn write_length(out: &mut Vec<u8>, length: Option<Option<u64>>) {
    match length {
        None => {}
        Some(None) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Some(Some(length)) => write::content_length(out, length),
    }
}

fn uneven(how: &str) -> Error {
    Error::new(Kind::BadRequest, format!("the request's body is {how} than announced"))
}

/// The fields of a request, without those that only an HTTP/1.1 connection has.
fn shared_head(method: Method, uri: http::Uri, headers: HeaderMap) -> http::Request<()> {
    let mut head = http::Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = uri;
    *head.version_mut() = http::Version::HTTP_2;
    *head.headers_mut() = headers;
    head
}

#[cfg(test)]
impl OutboundRequest {
    /// A request whose head is sent by someone else, for tests.
    pub(crate) fn of_body(body: PulledBody) -> Self {
        OutboundRequest {
            parts: None,
            head: Bytes::new(),
            body: Bytes::new(),
            repeatable: Repeatable::No,
            method: Class { asked: MethodKind::Other, idempotent: false },
            passage: Passage::default(),
            events: EventUse::default(),
            stream: BodyStream::new(body, Trailing::default()),
            expecting: None,
            ends_apart: false,
            out: Out::default(),
            begun: false,
            written: 0,
        }
    }
}
