//! HTTP/1.1 with one client: one request after the other on a connection, all handled by the connection's one task.
//!
//! An idle connection is a socket and a timer. Heads are read into the thread's buffer and parsed there, once. The head
//! of an answer is written together with the first piece of its body.

mod client;
mod head;
mod send;
mod tunnel;
mod upload;
mod wire;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::http::http1::request::{self, HeadBounds, Refusal, RequestHead};
use crocodile_pear::unstable::http::http1::{BodyDecoder, Framing, head_end};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::{Interim, Passage};
use http::header::{HeaderValue, ORIGIN};
use http::{StatusCode, Version};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use self::client::{Client, poll_client};
use self::head::ResponseConstraints;
use self::send::{ResponseSender, SendResult};
use self::upload::Upload;
use self::wire::BufferedIo;
use super::handler::Handler;
use super::http2;
use super::idle::IdleGuard;
use super::io::Io;
use super::reply::Reply;
use super::request::{ClientRequest, Connection};
use super::shared::CoreState;

/// How long the server reads and drops what a client still sends after the last answer. If it closed at once, the
/// kernel would reset the connection and the client could lose the answer.
const LINGER: Duration = Duration::from_secs(2);

const LATE_HEAD: Refusal =
    Refusal { status: StatusCode::REQUEST_TIMEOUT, detail: "the request's header took too long to arrive" };

const INTERIM: Refusal = Refusal { status: StatusCode::BAD_GATEWAY, detail: "the answer was an interim one" };
const PLAIN: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    detail: "this port speaks HTTPS, and the request came without TLS: use https://",
};
const UNFINISHED: Refusal =
    Refusal { status: StatusCode::BAD_GATEWAY, detail: "the protocol was changed before the request was whole" };

/// The time, from its beginning, in which a new connection may send its first request although the gateway stops.
const ARRIVING: Duration = Duration::from_secs(1);

/// Serves a connection until it ends.
pub async fn serve<H: Handler>(io: Io, connection: Arc<Connection>, core: Arc<CoreState<H>>, idle: &IdleGuard) {
    let mut wire = BufferedIo::new(io);
    let mut drain = pin!(core.drain.notified());
    let mut stage = ConnectionStage::Fresh(Instant::now());
    // Only registers this task, once. The flag `draining` says whether the core drains.
    poll_fn(|cx| {
        let _ = drain.as_mut().poll(cx);
        idle.register(cx);
        Poll::Ready(())
    })
    .await;
    // Request data leaves this future as early as possible: its size is the cost of an idle connection. The loop waits for nothing behind
    // its end, for which what it holds would be kept.
    let leaving = loop {
        let next = poll_fn(|cx| poll_request(&mut wire, &mut stage, (&core, idle), cx)).await;
        idle.end();
        let OpenedConnection { request, asked, mut upload } = match next {
            NextRequest::Request(mut head) => {
                head.trailers |= core.settings.trailers && head.version == Version::HTTP_11;
                open(&mut wire, head, &connection)
            }
            NextRequest::Refused(refusal) => OpenedConnection {
                request: Err(Box::new((refusal, origin(&wire.held)))),
                asked: ResponseConstraints::unread(),
                upload: None,
            },
            NextRequest::Nothing => break ConnectionEnd::Closed { more: false },
            NextRequest::Preface => break ConnectionEnd::Http2,
        };
        let handled = match request {
            Ok(request) => {
                let mut handling = pin!(core.handler.handle(request));
                poll_fn(|cx| poll_handler(handling.as_mut(), &mut wire, &mut upload, &connection, &core, cx)).await
            }
            Err(refused) => Handled::Refused(refused),
        };
        wire.look = None;
        let (reply, asked) = match handled {
            Handled::Reply(reply) => (final_answer(reply, upload.as_ref(), &connection, &core), asked),
            // The client may still be sending: the answer tells it that the connection closes.
            Handled::Refused(refused) => {
                (core.handler.refuse(refused.0, refused.1, &connection), ResponseConstraints::unread())
            }
            Handled::Gone => return,
        };
        let sent = match ResponseSender::new(reply, &asked, &mut wire, upload.as_mut(), &core) {
            Ok(mut sending) => poll_fn(|cx| sending.poll(&mut wire, &mut upload, &core, cx)).await,
            // Boxed: tunnels are rare, and their size would be added to every connection's future.
            Err(Some(switching)) => Box::pin(switching.run(&mut wire)).await,
            Err(None) => return,
        };
        let unread = asked.unread || upload.is_some_and(|upload| !upload.whole());
        match sent {
            SendResult::Broken => return,
            SendResult::Whole(since) if !unread => {
                stage = ConnectionStage::Idle(since);
                idle.rest(since);
            }
            SendResult::Whole(_) => break ConnectionEnd::Closed { more: true },
            SendResult::Last => break ConnectionEnd::Closed { more: unread || !wire.held.is_empty() },
            SendResult::Switched => break ConnectionEnd::Closed { more: false },
        }
    };
    match leaving {
        ConnectionEnd::Closed { more } => close(wire, more).await,
        // Boxed: HTTP/2 without TLS is rare, and its size would be added to every connection's future.
        ConnectionEnd::Http2 => Box::pin(http2::serve(wire.io, wire.held.into(), connection, core.clone(), idle)).await,
    }
}

/// The end of HTTP/1.1 on a connection.
enum ConnectionEnd {
    /// The connection is closed; the client may have sent more.
    Closed { more: bool },
    /// The client speaks HTTP/2.
    Http2,
}

/// Answers a client that speaks HTTP without TLS where TLS is spoken, in words that a person can read.
pub async fn refuse_plain<H: Handler>(io: Io, connection: Arc<Connection>, core: Arc<CoreState<H>>, idle: &IdleGuard) {
    let (mut wire, mut stage) = (BufferedIo::new(io), ConnectionStage::Fresh(Instant::now()));
    let origin = match poll_fn(|cx| poll_request(&mut wire, &mut stage, (&core, idle), cx)).await {
        NextRequest::Request(head) => head.headers.map().get(ORIGIN).cloned(),
        NextRequest::Refused(_) | NextRequest::Preface => None,
        NextRequest::Nothing => return close(wire, false).await,
    };
    let reply = core.handler.refuse(PLAIN, origin, &connection);
    if let Ok(mut sending) = ResponseSender::new(reply, &ResponseConstraints::unread(), &mut wire, None, &core) {
        poll_fn(|cx| sending.poll(&mut wire, &mut None, &core, cx)).await;
    }
    close(wire, true).await;
}

/// The origin in the fields of a head that was refused, so that its page can read why.
fn origin(held: &[u8]) -> Option<HeaderValue> {
    let lines = held.split(|byte| *byte == b'\n').skip(1).map(<[u8]>::trim_ascii);
    let fields = lines.take_while(|line| !line.is_empty());
    let mut origins = fields.filter_map(|line| {
        let (name, value) = line.split_at_checked(7)?;
        name.eq_ignore_ascii_case(b"origin:").then(|| value.trim_ascii())
    });
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    HeaderValue::from_bytes(origin).ok()
}

/// The event that a connection waits for between two answers, and since when.
#[derive(Clone, Copy)]
enum ConnectionStage {
    /// Just accepted; nothing has arrived.
    Fresh(Instant),
    /// Part of the first head has arrived.
    Head(Instant),
    /// Waiting for another request.
    Idle(Instant),
    /// Part of a later head has arrived.
    LaterHead(Instant),
}

enum NextRequest {
    Request(Box<RequestHead>),
    Refused(Refusal),
    /// The client left or was silent for too long, or the gateway stops.
    Nothing,
    /// The client speaks HTTP/2 (RFC 9113, 3.3).
    Preface,
}

/// Waits for the next head. Uses no buffer until a part of it arrives.
#[inline(always)]
fn poll_request<H: Handler>(
    wire: &mut BufferedIo,
    stage: &mut ConnectionStage,
    (core, idle): (&CoreState<H>, &IdleGuard),
    cx: &mut Context<'_>,
) -> Poll<NextRequest> {
    let bounds = core.bounds();
    loop {
        // Bytes that were read after the last request, or part of a head.
        if wire.held.len() > wire.searched {
            match parse(&wire.held, wire.searched, bounds) {
                Ok(Some((head, length))) => {
                    wire.used(length);
                    return Poll::Ready(NextRequest::Request(head));
                }
                Ok(None) => wire.searched = wire.held.len(),
                Err(refusal) => match other(refusal, wire, *stage) {
                    Some(next) => return Poll::Ready(next),
                    None => wire.searched = wire.held.len(),
                },
            }
            *stage = match *stage {
                ConnectionStage::Fresh(since) => ConnectionStage::Head(since),
                ConnectionStage::Idle(_) => ConnectionStage::LaterHead(Instant::now()),
                stage => stage,
            };
        }
        if wire.ended.is_some() {
            return Poll::Ready(NextRequest::Nothing);
        }
        let read = match wire.held.is_empty() {
            true => poll_head(wire, bounds, cx),
            false => wire.poll_hold(cx).map_ok(|_| None),
        };
        match read {
            // If the head was refused, check whether it is the start of HTTP/2.
            Poll::Ready(Ok(None | Some(NextRequest::Refused(_)))) => {}
            Poll::Ready(Ok(Some(next))) => return Poll::Ready(next),
            Poll::Ready(Err(_)) => return Poll::Ready(NextRequest::Nothing),
            Poll::Pending if idle.must_leave() => return Poll::Ready(NextRequest::Nothing),
            Poll::Pending => return poll_late(wire, *stage, core, cx),
        }
    }
}

/// The next step when the bytes are not an HTTP/1.1 request: the first bytes of a connection may start HTTP/2. `None`
/// while that is not clear yet.
fn other(refusal: Refusal, wire: &BufferedIo, stage: ConnectionStage) -> Option<NextRequest> {
    let first = matches!(stage, ConnectionStage::Fresh(_) | ConnectionStage::Head(_));
    let common = wire.held.len().min(http2::PREFACE.len());
    if !first || wire.held[..common] != http2::PREFACE[..common] {
        return Some(if first && foreign(&wire.held) { NextRequest::Nothing } else { NextRequest::Refused(refusal) });
    }
    (common == http2::PREFACE.len()).then_some(NextRequest::Preface)
}

/// Whether the first line has three words but no version of HTTP. Its sender would not understand an answer.
fn foreign(held: &[u8]) -> bool {
    let line = held.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let mut words = line.split(|byte| *byte == b' ');
    let (_, target, version) = (words.next(), words.next(), words.next());
    let path = target.is_none_or(|target| target.contains(&b'/') || target == b"*");
    !path && version.is_some_and(|version| !version.is_empty() && !version.contains(&b'/')) && words.next().is_none()
}

/// The common case: the head arrives whole and is parsed in the read buffer.
fn poll_head(wire: &mut BufferedIo, bounds: HeadBounds, cx: &mut Context<'_>) -> Poll<io::Result<Option<NextRequest>>> {
    let BufferedIo { io, held, .. } = wire;
    let read = ready!(io.poll_read(cx, |bytes| {
        if bytes.is_empty() {
            return None;
        }
        Some(match parse(bytes, 0, bounds) {
            Ok(Some((head, length))) => {
                held.extend_from_slice(&bytes[length..]);
                Some(NextRequest::Request(head))
            }
            Ok(None) => {
                held.extend_from_slice(bytes);
                None
            }
            Err(refusal) => {
                held.extend_from_slice(bytes);
                Some(NextRequest::Refused(refusal))
            }
        })
    }))?;
    if read.is_none() {
        wire.end();
    }
    Poll::Ready(Ok(read.flatten()))
}

/// Parses a head. The first `searched` bytes have been searched for its end before.
fn parse(bytes: &[u8], searched: usize, bounds: HeadBounds) -> Result<Option<(Box<RequestHead>, usize)>, Refusal> {
    if searched > 0 && bytes.len() < bounds.head && head_end(bytes, searched).is_none() {
        return Ok(None);
    }
    request::parse(bytes, bounds)
}

/// Checks whether the wait has been too long, after no bytes have arrived.
fn poll_late<H: Handler>(
    wire: &mut BufferedIo,
    stage: ConnectionStage,
    core: &CoreState<H>,
    cx: &mut Context<'_>,
) -> Poll<NextRequest> {
    let (due, late) = match stage {
        // If part of a head has arrived, the timeout is answered.
        ConnectionStage::Head(since) | ConnectionStage::LaterHead(since) => {
            (since + core.settings.header, NextRequest::Refused(LATE_HEAD))
        }
        // The first request of a client that has just connected is on its way.
        ConnectionStage::Fresh(since) if core.draining.load(Relaxed) => {
            (since + core.settings.header.min(ARRIVING), NextRequest::Nothing)
        }
        _ if core.draining.load(Relaxed) => return Poll::Ready(NextRequest::Nothing),
        ConnectionStage::Fresh(since) => (since + core.settings.header, NextRequest::Nothing),
        ConnectionStage::Idle(since) => (since + core.settings.keep_alive, NextRequest::Nothing),
    };
    wire.alarm.poll(due, cx).map(|()| late)
}

/// The reason for a refusal, and the origin of the page that may read it. Boxed: refusals are rare, and the size would be added to every
/// connection's future.
type RefusedRequest = Box<(Refusal, Option<HeaderValue>)>;

/// A request that is ready for the handler.
struct OpenedConnection {
    request: Result<ClientRequest, RefusedRequest>,
    asked: ResponseConstraints,
    /// The part of its body that is still to come.
    upload: Option<Upload>,
}

fn open(wire: &mut BufferedIo, head: Box<RequestHead>, connection: &Arc<Connection>) -> OpenedConnection {
    let asked = ResponseConstraints::from_head(&head);
    let (body, upload) = match take_body(wire, &head) {
        Ok(taken) => taken,
        Err(refusal) => {
            let origin = head.headers.map().get(ORIGIN).cloned();
            return OpenedConnection { request: Err(Box::new((refusal, origin))), asked, upload: None };
        }
    };
    let expects = head.expects && upload.as_ref().is_some_and(Upload::untouched);
    let RequestHead { method, target, version, headers, upgrades: upgrade, trailers, .. } = *head;
    let interim = (version == Version::HTTP_11).then(|| connection.clone() as Arc<dyn Interim>);
    let side_channel = Passage { interim, upgrade: None, trailers, expects };
    let (connection, pace) = (connection.clone(), upload.as_ref().map(Upload::body_pace));
    let request = ClientRequest { method, target, version, headers, body, connection, side_channel, upgrade, pace };
    OpenedConnection { request: Ok(request), asked, upload }
}

/// The result of handling a request.
enum Handled {
    Reply(Reply),
    Refused(RefusedRequest),
    /// The client left.
    Gone,
}

/// Waits for the handler, and watches the client meanwhile.
fn poll_handler<H: Handler>(
    mut handling: Pin<&mut impl Future<Output = Reply>>,
    wire: &mut BufferedIo,
    upload: &mut Option<Upload>,
    connection: &Connection,
    core: &CoreState<H>,
    cx: &mut Context<'_>,
) -> Poll<Handled> {
    loop {
        let polled = handling.as_mut().poll(cx);
        // Interim answers that are ready are sent before the answer.
        if connection.has_interim() && flush_interim(wire, connection, cx).is_err() {
            return Poll::Ready(Handled::Gone);
        }
        if let Poll::Ready(reply) = polled {
            return Poll::Ready(Handled::Reply(reply));
        }
        match ready!(poll_client(wire, upload, core, cx)) {
            Client::Moved => {}
            Client::Gone => return Poll::Ready(Handled::Gone),
            // The handler sees the error when it reads the body, and answers like for any other error of the body.
            Client::LateBody => upload.iter_mut().for_each(|upload| upload.give_up(&core.settings)),
        }
    }
}

/// The reply, unless its status cannot be final. A change of protocol needs a tunnel, and a request that is `whole`.
fn final_answer<H: Handler>(
    reply: Reply,
    upload: Option<&Upload>,
    connection: &Arc<Connection>,
    core: &CoreState<H>,
) -> Reply {
    let interim = reply.response.status().is_informational();
    match matches!(reply.response.body(), AnswerBody::Tunnel(_)) {
        true if !upload.is_none_or(Upload::whole) => {
            core.handler.refuse(UNFINISHED, None, connection).readable_as(&reply)
        }
        tunnel if tunnel != interim => core.handler.refuse(INTERIM, None, connection).readable_as(&reply),
        _ => reply,
    }
}

/// The body of a request: in memory if it came with the head, otherwise read on demand.
fn take_body(wire: &mut BufferedIo, head: &RequestHead) -> Result<(AnswerBody, Option<Upload>), Refusal> {
    if head.framing == Framing::Empty {
        return Ok((AnswerBody::empty(), None));
    }
    let mut decoder = BodyDecoder::new(head.framing);
    let mut held = std::mem::take(&mut wire.held);
    let malformed = |broken: crocodile_pear::unstable::http::http1::MalformedMessage| Refusal {
        status: StatusCode::BAD_REQUEST,
        detail: broken.0,
    };
    let decoded = decoder.decode(&mut held).map_err(malformed)?;
    let data = Bytes::copy_from_slice(&held[decoded.data]);
    held.drain(..decoded.used);
    wire.held = held;
    // A body in chunks that is here as a whole has a length now: some servers read nothing without one.
    let length = match head.framing {
        _ if decoder.done() && decoder.trailers.is_none() => return Ok((AnswerBody::Bytes(data), None)),
        Framing::Length(length) => Some(length),
        _ => None,
    };
    let (upload, body) = Upload::new(decoder, data, length, head.expects);
    Ok((AnswerBody::Pulled(Box::pin(body)), Some(upload)))
}

/// Sends the waiting interim answers.
fn flush_interim(wire: &mut BufferedIo, connection: &Connection, cx: &mut Context<'_>) -> io::Result<()> {
    let bytes = connection.take_interim();
    // While the client does not read, interim answers are dropped: no client depends on them.
    match wire.unsent() == 0 {
        true => wire.send(cx, &bytes, Bytes::new(), b""),
        false => Ok(()),
    }
}

async fn close(mut wire: BufferedIo, more: bool) {
    wire.io.close();
    // A failure does not matter: either the client is gone or it does not read.
    let _ = timeout(LINGER, wire.io.shutdown()).await;
    if more && wire.ended.is_none() {
        let _ = timeout(LINGER, poll_fn(|cx| poll_discard(&mut wire, cx))).await;
    }
}

fn poll_discard(wire: &mut BufferedIo, cx: &mut Context<'_>) -> Poll<()> {
    while let Ok(1..) = ready!(wire.io.poll_read(cx, |bytes| bytes.len())) {}
    Poll::Ready(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::current_gateway;

    fn size<A, T>(_: impl FnOnce(A) -> T) -> usize {
        size_of::<T>()
    }

    /// Together with the socket's registration and a timer, this stays within 4 KiB.
    #[test]
    fn a_connection_at_rest_is_small() {
        type Given<'a> = (Io, Arc<Connection>, Arc<CoreState<current_gateway::CoreHandler>>, &'a IdleGuard);
        let serving = size(|(io, connection, core, idle): Given<'_>| serve(io, connection, core, idle));
        assert!(serving <= 2576, "{serving} bytes");
    }
}
