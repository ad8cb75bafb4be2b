//! A stream: a request, its handler, and its answer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::http::http1::request::Refusal;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::{BodyPace, Passage};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderValue, Method, Request, StatusCode, Version};
use tokio::time::{Instant, timeout};

use super::super::handler::Handler;
use super::super::reply::Reply;
use super::super::request::{ClientRequest, Connection};
use super::super::shared::CoreState;
use super::request::{self, Head};
use super::send::{BodySender, ResponseMode};
use super::side_channel::Aside;
use super::stream_end::StreamOutcome;
use super::tunnel;
use super::turn::Turn;
use super::upload::{self, Came, StreamBody};
use super::wire::SharedWire;

/// How long a complete answer waits for the end of its request, which usually follows at once. Without the wait, the
/// stream would be reset in the middle of the request. RFC 9113, 8.1 allows that, but some clients treat it as an
/// error.
const SOON: Duration = Duration::from_millis(20);

const INTERIM: Refusal = Refusal { status: StatusCode::BAD_GATEWAY, detail: "the answer was an interim one" };
const NO_TUNNEL: Refusal =
    Refusal { status: StatusCode::NOT_IMPLEMENTED, detail: "the endpoint does not change to this protocol" };

/// A request that is ready for the handler.
struct OpenedStream {
    /// If it is refused: why, and for a page of which origin.
    request: Result<ClientRequest, (Refusal, Option<HeaderValue>)>,
    asked: ResponseMode,
    aside: Arc<Aside>,
    /// The client's side of a tunnel.
    tunnel: Option<RecvStream>,
}

/// Serves one request until `h2` has its answer.
pub async fn serve<H: Handler>(
    core: Arc<CoreState<H>>,
    connection: Arc<Connection>,
    wire: SharedWire,
    turn: Arc<Turn>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> StreamOutcome {
    let began = Instant::now();
    let id = respond.stream_id().as_u32();
    let mut noted = Noted { wire: &wire, id, leaves: false };
    let OpenedStream { request, asked, aside, tunnel } = open(&core, &connection, &wire, request);
    let reply = match request {
        Ok(request) => {
            let mut handling = pin!(core.handler.handle(request));
            let handled = poll_fn(|cx| match turn.defers(cx) {
                true => Poll::Pending,
                false => poll_handler(handling.as_mut(), &mut respond, &aside, cx),
            });
            match handled.await {
                Some(reply) => final_answer(reply, tunnel.is_some(), &connection, &core),
                None => return StreamOutcome::GivenUp(began),
            }
        }
        Err((refusal, origin)) => core.handler.refuse(refusal, origin, &connection),
    };
    let at_hand = !matches!(reply.response.body(), AnswerBody::Pulled(_) | AnswerBody::Tunnel(_));
    if at_hand && wire.lock().is_coming(id) {
        // Boxed: answers are rarely complete that early.
        let ended = Box::pin(timeout(SOON, poll_fn(|cx| wire.lock().poll_came(id, cx))));
        let _ = ended.await;
    }
    wire.lock().follow(id);
    let agreed = matches!(reply.response.body(), AnswerBody::Tunnel(_));
    let done = match tunnel.filter(|_| agreed) {
        // Boxed: tunnels are rare, and their size would be added to every stream's future.
        Some(recv) => Box::pin(tunnel::run(reply, recv, respond)).await,
        None => match BodySender::new(reply, asked, respond) {
            Ok(mut sending) => {
                let sent = poll_fn(|cx| match turn.defers(cx) {
                    true => Poll::Pending,
                    false => sending.poll(&core.settings, cx),
                });
                sent.await
            }
            Err(done) => done,
        },
    };
    noted.leaves = matches!(done, StreamOutcome::Leaving(_));
    done
}

/// The wire's notes on a stream. They are forgotten with the stream's work, however that ends, unless the answer still has
/// to leave.
struct Noted<'a> {
    wire: &'a SharedWire,
    id: u32,
    leaves: bool,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if !self.leaves {
            self.wire.lock().forget(self.id);
        }
    }
}

fn open<H: Handler>(
    core: &CoreState<H>,
    connection: &Arc<Connection>,
    wire: &SharedWire,
    request: Request<RecvStream>,
) -> OpenedStream {
    let (head, mut recv) = request.into_parts();
    let id = recv.stream_id().as_u32();
    let aside = Arc::new(Aside::default());
    let mut asked = ResponseMode { head_only: head.method == Method::HEAD, grpc: false };
    let head = match request::admit(head, core.bounds()) {
        Ok(head) => head,
        Err(refusal) => return OpenedStream { request: Err(refusal), asked, aside, tunnel: None },
    };
    asked.grpc = head.grpc;
    let Head { method, target, headers, length, expects, trailers, tunnel, grpc } = head;
    let (body, tunnel) = if tunnel {
        (AnswerBody::empty(), Some(recv))
    } else if recv.is_end_stream() {
        (AnswerBody::empty(), None)
    } else {
        let body = match upload::take(&mut recv, grpc) {
            Came::Whole(bytes) => AnswerBody::Bytes(bytes),
            Came::Part(first) => {
                let (aside, wire) = (aside.clone(), wire.clone());
                AnswerBody::Pulled(Box::pin(StreamBody::new(recv, first, length, expects, aside, wire, &core.settings)))
            }
        };
        (body, None)
    };
    let pulled = matches!(body, AnswerBody::Pulled(_));
    if pulled && !expects {
        wire.lock().expect_end(id);
    }
    let request = ClientRequest {
        method,
        target,
        version: Version::HTTP_2,
        headers: headers.into(),
        body,
        connection: connection.clone(),
        side_channel: Passage { interim: Some(aside.clone()), upgrade: None, trailers, expects: expects && pulled },
        upgrade: tunnel.is_some(),
        pace: pulled.then(|| aside.clone() as Arc<dyn BodyPace>),
    };
    OpenedStream { request: Ok(request), asked, aside, tunnel }
}

/// Waits for the handler. `None` if the client gives the request up.
fn poll_handler(
    handling: Pin<&mut impl Future<Output = Reply>>,
    respond: &mut SendResponse<Bytes>,
    aside: &Aside,
    cx: &mut Context<'_>,
) -> Poll<Option<Reply>> {
    if respond.poll_reset(cx).is_ready() {
        return Poll::Ready(None);
    }
    let polled = handling.poll(cx);
    // Interim answers that are ready are sent before the answer.
    aside.send(respond);
    polled.map(Some)
}

/// The reply, unless its status cannot be final or would tell the client that it has a tunnel.
fn final_answer<H: Handler>(reply: Reply, tunnel: bool, connection: &Arc<Connection>, core: &CoreState<H>) -> Reply {
    let status = reply.response.status();
    match matches!(reply.response.body(), AnswerBody::Tunnel(_)) {
        true if tunnel && status == StatusCode::SWITCHING_PROTOCOLS => reply,
        false if tunnel && status.is_success() => core.handler.refuse(NO_TUNNEL, None, connection).readable_as(&reply),
        false if !status.is_informational() => reply,
        _ => core.handler.refuse(INTERIM, None, connection).readable_as(&reply),
    }
}
