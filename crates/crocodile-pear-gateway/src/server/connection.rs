//! One client's connection: hyper speaks HTTP, this holds the clock.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use crocodile_pear::flow::{Body, Pulled, Whole};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::admit::{Bounds, Refusal};
use super::body::{ReplyBody, RequestBody};
use super::gate::Gate;
use super::reply::Reply;
use super::request::{ClientRequest, Connection};
use super::watch::{Late, Stage, Watch};
use super::{Handler, Settings};

/// A connection that rested this long gives hyper's buffers back.
const REST: Duration = Duration::from_secs(1);

/// How often a connection's clock is looked at, at least, while it is not waiting for the handler.
const LOOK: Duration = Duration::from_secs(5);

/// What a refused client still sends is read away this long, or the kernel's reset would take the answer with it.
const LINGER: Duration = Duration::from_secs(2);

/// What the connections of one core share.
pub struct Core<H> {
    pub settings: Settings,
    pub handler: H,
    pub draining: std::sync::atomic::AtomicBool,
    pub drain: Notify,
    http: Builder,
}

impl<H: Handler> Core<H> {
    /// A core about to begin.
    pub fn new(settings: Settings, handler: H) -> Self {
        let mut http = Builder::new();
        http.max_buf_size(settings.buffer.max(8 * 1024)).header_read_timeout(None);
        Core { settings, handler, draining: false.into(), drain: Notify::new(), http }
    }

    /// Ends every connection of the core as soon as its request is answered.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        self.drain.notify_waiters();
    }

    fn bounds(&self) -> Bounds {
        let Settings { max_head, max_target, max_headers, buffer, .. } = self.settings;
        Bounds { head: max_head.min(buffer), target: max_target, headers: max_headers }
    }
}

/// How a stretch of HTTP ended.
enum End {
    /// With every answer whole.
    Clean(Gate),
    /// It rests: hyper is not needed until more comes.
    Rest(Gate),
    /// In the middle of something: dropping the gate reset the connection.
    Broken,
}

/// Serves a connection to its end.
pub async fn drive<H: Handler>(stream: TcpStream, peer: SocketAddr, core: Arc<Core<H>>) {
    let watch = Arc::new(Watch::new());
    // A socket without an address of its own is closed already.
    let local = stream.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into());
    let connection = Arc::new(Connection { peer, local });
    let mut gate = Gate::new(stream, watch.clone(), core.bounds());
    while comes(&mut gate, &watch, &core).await {
        match talk(gate, &watch, &connection, &core).await {
            End::Rest(resting) => gate = resting,
            End::Clean(gate) => return close(gate, &watch).await,
            End::Broken => return,
        }
    }
    close(gate, &watch).await;
}

/// Waits, with no buffer at all, until the client sends something.
async fn comes<H: Handler>(gate: &mut Gate, watch: &Watch, core: &Core<H>) -> bool {
    let mut drain = pin!(core.drain.notified());
    drain.as_mut().enable();
    let late = watch.due(&core.settings).map_or_else(Instant::now, |(at, _)| at);
    tokio::select! {
        biased;
        readable = gate.stream().readable() => readable.is_ok(),
        () = drain, if !core.draining.load(Relaxed) => false,
        () = sleep_until(if core.draining.load(Relaxed) { Instant::now() } else { late }) => false,
    }
}

async fn talk<H: Handler>(gate: Gate, watch: &Arc<Watch>, connection: &Arc<Connection>, core: &Arc<Core<H>>) -> End {
    let service = service_fn(|request| {
        let (watch, connection, core) = (watch.clone(), connection.clone(), core.clone());
        async move { Ok::<_, Infallible>(answer(request, connection, &watch, &core).await) }
    });
    let mut http = core.http.serve_connection(TokioIo::new(gate), service);
    let mut sleep = pin!(sleep_until(Instant::now() + LOOK.min(core.settings.header)));
    // Only for its waker: whether the core drains is a flag's to tell.
    let mut drain = pin!(core.drain.notified());
    drain.as_mut().enable();
    let mut listening = false;
    let mut ending = false;

    let whole = std::future::poll_fn(|cx| {
        if !listening {
            listening = true;
            let _ = drain.as_mut().poll(cx);
            let _ = sleep.as_mut().poll(cx);
        }
        let mut nudged = false;
        loop {
            if let Poll::Ready(result) = Pin::new(&mut http).poll(cx) {
                return Poll::Ready(Some(result.is_ok()));
            }
            // hyper waits for the socket, but what it waits for is in the gate.
            if !nudged && watch.held.load(Relaxed) && watch.stage() != Stage::Serving {
                nudged = true;
                continue;
            }
            // A head that has begun to come is still answered.
            if !ending && core.draining.load(Relaxed) && watch.stage() != Stage::Head {
                ending = true;
                Pin::new(&mut http).graceful_shutdown();
                continue;
            }
            match clock(sleep.as_mut(), watch, &core.settings, cx) {
                Tick::Wait => return Poll::Pending,
                Tick::Rest if ending => return Poll::Pending,
                Tick::Rest => return Poll::Ready(None),
                Tick::Late(Late::Idle) if !ending => {
                    ending = true;
                    Pin::new(&mut http).graceful_shutdown();
                }
                Tick::Late(Late::Head | Late::Body) if !watch.overdue.swap(true, Relaxed) => {}
                Tick::Late(late) => {
                    watch.slow.store(late == Late::Write, Relaxed);
                    return Poll::Ready(Some(false));
                }
            }
        }
    })
    .await;

    match whole {
        Some(false) => End::Broken,
        Some(true) => End::Clean(http.into_parts().io.into_inner()),
        None => {
            let parts = http.into_parts();
            if parts.read_buf.is_empty() { End::Rest(parts.io.into_inner()) } else { End::Broken }
        }
    }
}

/// What the clock says.
enum Tick {
    Wait,
    Rest,
    Late(Late),
}

/// Looks at the clock only when the timer fired or a nearer deadline appeared: most requests cost no timer at all.
fn clock(mut sleep: Pin<&mut Sleep>, watch: &Watch, settings: &Settings, cx: &mut std::task::Context<'_>) -> Tick {
    let Some((due, late)) = watch.due(settings) else { return Tick::Wait };
    if !sleep.is_elapsed() && sleep.deadline() <= due {
        return Tick::Wait;
    }
    let now = Instant::now();
    if due <= now {
        return Tick::Late(late);
    }
    if watch.rests() && due + REST <= now + settings.keep_alive {
        return Tick::Rest;
    }
    sleep.as_mut().reset(due.min(now + LOOK));
    // Registers the waker; a timer just set has not fired.
    let _ = sleep.poll(cx);
    Tick::Wait
}

async fn answer<H: Handler>(
    request: Request<Incoming>,
    connection: Arc<Connection>,
    watch: &Arc<Watch>,
    core: &Core<H>,
) -> Response<ReplyBody> {
    let refuse = |refusal| refused(core.handler.refuse(refusal, &connection), watch);
    if let Some(refusal) = watch.refusal.get() {
        return refuse(*refusal);
    }
    let (head, body) = request.into_parts();
    let method = head.method.clone();
    let slash = || PathAndQuery::from_static("/");
    let body = match body.is_end_stream() {
        true => Body::empty(),
        false => Body::Pulled(Box::pin(RequestBody::new(body, watch.clone()))),
    };
    let request = ClientRequest {
        method: head.method,
        target: head.uri.into_parts().path_and_query.unwrap_or_else(slash),
        version: head.version,
        headers: head.headers,
        body,
        connection: connection.clone(),
    };
    let mut handled = pin!(core.handler.handle(request));
    let reply = std::future::poll_fn(|cx| match watch.overdue.swap(false, Relaxed) {
        true => Poll::Ready(None),
        false => handled.as_mut().poll(cx).map(Some),
    })
    .await;
    let Some(reply) = reply else {
        let detail = "the request's body took too long to arrive";
        return refuse(Refusal { status: StatusCode::REQUEST_TIMEOUT, detail });
    };
    if reply.response.status().is_informational() {
        return refuse(Refusal { status: StatusCode::BAD_GATEWAY, detail: "the answer was an interim one" });
    }
    let mut response = frame(&method, reply, watch);
    if core.draining.load(Relaxed) || watch.broken.load(Relaxed) {
        response.headers_mut().insert(CONNECTION, CLOSE);
    }
    response
}

const CLOSE: HeaderValue = HeaderValue::from_static("close");

fn refused(reply: Reply, watch: &Arc<Watch>) -> Response<ReplyBody> {
    let mut response = frame(&Method::GET, reply, watch);
    response.headers_mut().insert(CONNECTION, CLOSE);
    response
}

/// Rebuilds the framing of an answer, whatever the handler copied from elsewhere.
fn frame(method: &Method, reply: Reply, watch: &Arc<Watch>) -> Response<ReplyBody> {
    let (mut parts, body) = reply.response.into_parts();
    // A value that cannot be written is refused by whoever made the answer: here it would be too late for a status.
    let body: Pulled = body.into_pulled().unwrap_or_else(|_| Box::pin(Whole::new(Default::default())));
    let declared = settle(&mut parts.headers);
    let bodiless = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless || *method == Method::HEAD {
        if let (None, Some(exact), false) = (declared, body.size_hint().exact(), bodiless) {
            parts.headers.insert(CONTENT_LENGTH, exact.into());
        }
        return Response::from_parts(parts, ReplyBody::new(None, None, reply.observer, watch.clone()));
    }
    Response::from_parts(parts, ReplyBody::new(Some(body), declared, reply.observer, watch.clone()))
}

/// The one Content-Length of an answer, and no other word about its framing left.
fn settle(headers: &mut HeaderMap) -> Option<u64> {
    // Names first: most answers have neither, and three lookups cost more than a glance.
    if !headers.keys().any(|name| *name == TRANSFER_ENCODING || *name == CONTENT_LENGTH) {
        return None;
    }
    headers.remove(TRANSFER_ENCODING);
    let declared = length(headers);
    if declared.is_none() {
        headers.remove(CONTENT_LENGTH);
    }
    declared
}

/// The one Content-Length of an answer.
fn length(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let first = values.next()?.to_str().ok()?;
    let plain = values.next().is_none() && first.bytes().all(|byte| byte.is_ascii_digit());
    if plain { first.parse().ok() } else { None }
}

async fn close(mut gate: Gate, watch: &Watch) {
    gate.settle();
    // Whoever is gone needs no goodbye.
    let _ = gate.stream().shutdown().await;
    let more = watch.refusal.get().is_some() || watch.unread.load(Relaxed) || watch.held.load(Relaxed);
    if more {
        let _ = timeout(LINGER, discard(gate.stream())).await;
    }
}

async fn discard(stream: &mut TcpStream) {
    let mut waste = [0; 1024];
    while matches!(stream.read(&mut waste).await, Ok(1..)) {}
}
