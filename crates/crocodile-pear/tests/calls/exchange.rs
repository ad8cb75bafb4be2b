//! Calls over real sockets: what is written, what is read, what is kept, and what is told when it breaks.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::loop_detection;
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::upstream::{ReadyUpstream, Timeouts, UpstreamCall, UpstreamSettings};
use crocodile_pear_peers::absent::full;
use http::{HeaderMap, HeaderValue, Method, Version};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::call::{get, with};

/// A scripted upstream, and the client's view of it.
struct Stage {
    listener: TcpListener,
    upstream: Arc<ReadyUpstream>,
}

impl Stage {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(set: impl FnOnce(&mut UpstreamSettings)) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut settings = UpstreamSettings::new("books", format!("http://127.0.0.1:{port}/api").parse().unwrap());
        set(&mut settings);
        Stage { listener, upstream: ReadyUpstream::new(settings).unwrap() }
    }

    async fn accept(&self) -> Peer {
        Peer { stream: self.listener.accept().await.unwrap().0 }
    }

    async fn call(&self, call: UpstreamCall) -> Result<Answer, Error> {
        self.upstream.call(call).await
    }

    /// Makes a call whose connection is accepted, asked, answered with `pieces` and then left to `end`.
    async fn exchange(&self, call: UpstreamCall, pieces: &[&[u8]], end: End) -> Result<Whole, Error> {
        let serve = async {
            let mut peer = self.accept().await;
            peer.head().await;
            for piece in pieces {
                peer.send(piece).await;
            }
            peer.end(end)
        };
        let fetch = async { whole(self.call(call).await?).await };
        let (whole, _peer) = tokio::join!(fetch, serve);
        whole
    }

    /// Connections opened, calls on kept ones, calls sent again.
    fn count(&self) -> [u64; 3] {
        let counters = self.upstream.counters();
        [counters.opened, counters.reused, counters.retried]
    }

    fn in_flight(&self) -> u64 {
        self.upstream.counters().in_flight
    }
}

#[derive(Clone, Copy)]
enum End {
    Stay,
    Fin,
    Rst,
}

/// The upstream's end of one connection.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// A request's head, lines ending in LF.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.expect("a whole head comes"));
        }
        String::from_utf8(head).unwrap().replace('\r', "")
    }

    async fn exactly(&mut self, wire: &str) {
        let mut there = vec![0; wire.len()];
        self.stream.read_exact(&mut there).await.unwrap();
        assert_eq!(String::from_utf8(there).unwrap(), wire);
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The client may have left: that is what some tests are about.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    fn end(self, end: End) -> Option<Self> {
        match end {
            End::Stay => return Some(self),
            End::Fin => {}
            End::Rst => self.stream.set_zero_linger().unwrap(),
        }
        None
    }

    /// Waits until the client has closed.
    async fn left(&mut self) {
        let mut rest = [0; 4096];
        while matches!(self.stream.read(&mut rest).await, Ok(read) if read > 0) {}
    }
}

/// An answer read to its end.
#[derive(Debug)]
struct Whole {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

async fn whole(answer: Answer) -> Result<Whole, Error> {
    let (status, headers) = (answer.status.as_u16(), answer.headers.into_map());
    let (body, trailers) = match answer.body {
        AnswerBody::Bytes(bytes) => (bytes, None),
        AnswerBody::Pulled(body) => {
            let collected = body.collect().await?;
            let trailers = collected.trailers().cloned();
            (collected.to_bytes(), trailers)
        }
        AnswerBody::Value(_) | AnswerBody::Json(_) | AnswerBody::Tunnel(_) => panic!("an upstream gives bytes"),
    };
    Ok(Whole { status, headers, body, trailers })
}

fn post(body: AnswerBody) -> UpstreamCall {
    with(Method::POST, "/x", Some(body))
}

fn text(text: &'static str) -> AnswerBody {
    AnswerBody::Bytes(Bytes::from_static(text.as_bytes()))
}

fn limit(change: impl FnOnce(&mut Timeouts)) -> Option<Arc<Timeouts>> {
    let mut timeouts = Timeouts::default();
    change(&mut timeouts);
    Some(Arc::new(timeouts))
}

fn seconds(seconds: u64) -> Timeout {
    Timeout::After(Duration::from_secs(seconds))
}

/// A body that the test feeds.
struct Fed {
    frames: mpsc::Receiver<Result<Frame<Bytes>, Error>>,
    length: Option<u64>,
}

fn fed(length: Option<u64>) -> (mpsc::Sender<Result<Frame<Bytes>, Error>>, AnswerBody) {
    let (sender, frames) = mpsc::channel(1);
    (sender, AnswerBody::Pulled(Box::pin(Fed { frames, length })))
}

fn data(bytes: &'static str) -> Result<Frame<Bytes>, Error> {
    Ok(Frame::data(Bytes::from_static(bytes.as_bytes())))
}

impl http_body::Body for Fed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.frames.poll_recv(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_head_is_rebuilt_not_copied() {
    let stage = Stage::new().await;
    let mut call = get("/books?q=a%20b");
    for (name, value) in [
        ("accept", "text/plain"),
        ("connection", "keep-alive, x-mine"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("transfer-encoding", "gzip"),
        ("content-length", "77"),
        ("host", "elsewhere"),
        ("upgrade", "websocket"),
        ("expect", "100-continue"),
        ("proxy-authorization", "secret"),
        ("proxy-anything", "x"),
    ] {
        call.headers.append(name, HeaderValue::from_static(value));
    }
    let serve = async {
        let mut peer = stage.accept().await;
        let head = peer.head().await;
        peer.send(OK).await;
        (head, peer)
    };
    let (answer, (head, peer)) = tokio::join!(stage.call(call), serve);
    assert_eq!(answer.unwrap().status, 200);
    let host = peer.stream.local_addr().unwrap();
    assert_eq!(
        head,
        format!(
            "GET /api/books?q=a%20b HTTP/1.1\nhost: {host}\naccept: text/plain\nvia: {}\n\n",
            loop_detection::entry(Version::HTTP_11)
        )
    );
}

#[tokio::test]
async fn a_target_cannot_become_a_second_line() {
    let stage = Stage::new().await;
    for target in ["x", "http://elsewhere/", "/a b", "/a\r\nx: y", "/a\n", "/\0", "/\u{e9}", "/a#b"] {
        let error = stage.call(get(target)).await.err().unwrap();
        assert_eq!(error.kind(), Kind::BadRequest, "{target:?}");
    }
}

#[tokio::test]
async fn every_framing_of_a_body_is_read_however_it_arrives() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n003;x=y\r\nllo\r\n0\r\n\r\n";
    let cases: [(&[u8], &str, End); 5] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", End::Stay),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", End::Stay),
        (chunked, "hello", End::Stay),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "hello", End::Fin),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", "hello", End::Fin),
    ];
    for (wire, body, end) in cases {
        for size in [1, 2, 7, wire.len()] {
            let stage = Stage::new().await;
            let pieces: Vec<&[u8]> = wire.chunks(size).collect();
            let whole = stage.exchange(get("/"), &pieces, end).await.unwrap();
            assert_eq!((whole.status, &whole.body[..]), (200, body.as_bytes()), "in pieces of {size}");
            assert_eq!(stage.in_flight(), 0);
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_body_ends_at_its_head() {
    for (method, wire) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (Method::HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    ] {
        let stage = Stage::new().await;
        let whole = stage.exchange(with(method, "/", None), &[wire.as_bytes()], End::Stay).await.unwrap();
        assert!(whole.body.is_empty());
        assert_eq!(whole.headers.contains_key("content-length"), wire.contains("Content-Length"));
    }
}

#[tokio::test]
async fn interim_answers_are_skipped() {
    let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let wire = [&early[..], OK].concat();
    for size in [1, 30, wire.len()] {
        let stage = Stage::new().await;
        let pieces: Vec<&[u8]> = wire.chunks(size).collect();
        let whole = stage.exchange(get("/"), &pieces, End::Stay).await.unwrap();
        assert_eq!((whole.status, &whole.body[..], whole.headers.len()), (200, &b"ok"[..], 0));
    }
}

#[tokio::test]
async fn trailers_follow_the_body() {
    let stage = Stage::new().await;
    let wire =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-sum: 9\r\ntransfer-encoding: x\r\n\r\n";
    let whole = stage.exchange(get("/"), &[wire], End::Stay).await.unwrap();
    let trailers = whole.trailers.unwrap();
    assert_eq!((&whole.body[..], trailers.len(), &trailers["x-sum"]), (&b"a"[..], 1, &HeaderValue::from_static("9")));
}

#[tokio::test]
async fn a_known_length_is_told_before_the_body() {
    let stage = Stage::new().await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabc").await;
        peer
    };
    let (answer, _peer) = tokio::join!(stage.call(get("/")), serve);
    let AnswerBody::Pulled(body) = answer.unwrap().body else { panic!("the body is still to come") };
    assert_eq!(body.size_hint().exact(), Some(7));
}

#[tokio::test]
async fn an_answer_with_trailers_has_no_length_though_it_is_all_there() {
    let stage = Stage::new().await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-sum: 9\r\n\r\n").await;
        peer
    };
    let (answer, _peer) = tokio::join!(stage.call(get("/")), serve);
    let AnswerBody::Pulled(body) = answer.unwrap().body else { panic!("trailers are pulled") };
    assert_eq!(body.size_hint().exact(), None);
}

#[tokio::test]
async fn a_cut_answer_is_told() {
    let cases: [(&str, End, Kind); 14] = [
        ("", End::Fin, Kind::Reset),
        ("", End::Rst, Kind::Reset),
        ("HTTP/1.1 200 OK\r\nConte", End::Fin, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nConte", End::Rst, Kind::Cut),
        ("HTTP/1.1 100 Continue\r\n\r\n", End::Fin, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", End::Fin, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", End::Fin, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", End::Rst, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", End::Fin, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", End::Fin, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", End::Rst, Kind::Cut),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nX\r\n", End::Stay, Kind::Malformed),
        ("HTTP/1.1 200 OK\r\n\r\nabc", End::Rst, Kind::Cut),
        ("SSH-2.0-OpenSSH\r\n\r\n", End::Stay, Kind::Malformed),
    ];
    for (wire, end, kind) in cases {
        let stage = Stage::new().await;
        let error = stage.exchange(get("/"), &[wire.as_bytes()], end).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{wire:?}");
        assert!(error.to_string().starts_with("books: "), "{error}");
        assert_eq!(stage.in_flight(), 0);
    }
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(17);
    for wire in [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff0\r\n",
        &interim,
    ] {
        let stage = Stage::new().await;
        let error = stage.exchange(get("/"), &[wire.as_bytes()], End::Stay).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Malformed, "{wire:?}");
    }
}

#[tokio::test]
async fn an_endless_head_is_read_to_its_bound_only() {
    let stage = Stage::with(|settings| settings.max_head = 1000).await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.send(b"HTTP/1.1 200 OK\r\nx: ").await;
        // Ends when the client closes, whatever the size of the sockets' buffers.
        while peer.stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    };
    let (answer, ()) = tokio::join!(stage.call(get("/")), serve);
    assert_eq!(answer.err().unwrap().kind(), Kind::Malformed);
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_call() {
    let stage = Stage::new().await;
    let serve = async {
        let mut peer = stage.accept().await;
        for _ in 0..10 {
            peer.head().await;
            peer.send(OK).await;
        }
        peer
    };
    let fetch = async {
        for _ in 0..10 {
            assert_eq!(whole(stage.call(get("/")).await.unwrap()).await.unwrap().body, "ok");
        }
    };
    tokio::join!(fetch, serve);
    assert_eq!(stage.count(), [1, 9, 0]);
}

#[tokio::test]
async fn a_connection_is_not_kept_after_what_it_should_not_say() {
    for wire in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n",
    ] {
        let stage = Stage::new().await;
        for _ in 0..2 {
            stage.exchange(get("/"), &[wire], End::Stay).await.unwrap();
        }
        assert_eq!(stage.count(), [2, 0, 0]);
    }
}

#[tokio::test]
async fn a_body_given_up_early_closes_its_connection() {
    let stage = Stage::new().await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n").await;
        peer.left().await;
    };
    let fetch = async { drop(stage.call(get("/")).await.unwrap()) };
    tokio::join!(fetch, serve);
    assert_eq!(stage.in_flight(), 0);
}

#[tokio::test]
async fn a_last_chunk_that_is_there_is_fetched_for_the_next_call() {
    let stage = Stage::new().await;
    let (told, tell) = tokio::sync::oneshot::channel();
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").await;
        tell.await.unwrap();
        peer.send(b"0\r\n\r\n").await;
        peer.head().await;
        peer.send(OK).await;
        peer
    };
    let fetch = async {
        let AnswerBody::Pulled(mut body) = stage.call(get("/")).await.unwrap().body else {
            panic!("the end is to come")
        };
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "ok");
        told.send(()).unwrap();
        // Until the runtime has been told of the last chunk.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        drop(body);
        assert_eq!(whole(stage.call(get("/")).await.unwrap()).await.unwrap().body, "ok");
    };
    tokio::join!(fetch, serve);
    assert_eq!(stage.count(), [1, 1, 0]);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_replaced() {
    let stage = Stage::new().await;
    stage.exchange(get("/"), &[OK], End::Stay).await.unwrap();
    // Its peer is gone; that is seen at once, or when the request gets no answer.
    stage.exchange(get("/"), &[OK], End::Stay).await.unwrap();
    assert_eq!(stage.count()[0], 2);
}

/// Makes `call` on a kept connection whose peer closes it when it has read the head; a second one would be served.
async fn betray(stage: &Stage, call: UpstreamCall) -> Result<Whole, Error> {
    let first = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer.send(OK).await;
        peer
    };
    let (answer, mut peer) = tokio::join!(stage.call(get("/")), first);
    answer.unwrap();
    let serve = async {
        peer.head().await;
        drop(peer);
        let mut peer = stage.accept().await;
        peer.head().await;
        peer.send(OK).await;
        std::future::pending::<()>().await;
    };
    let fetch = async { whole(stage.call(call).await?).await };
    tokio::select! { whole = fetch => whole, () = serve => unreachable!("it never ends") }
}

#[tokio::test]
async fn a_request_is_sent_again_when_a_kept_connection_dies_under_it() {
    for call in [get("/"), with(Method::PUT, "/", Some(text("x")))] {
        let stage = Stage::new().await;
        assert_eq!(betray(&stage, call).await.unwrap().body, "ok");
        assert_eq!(stage.count(), [2, 1, 1]);
    }
}

#[tokio::test]
async fn a_post_is_never_sent_twice() {
    let stage = Stage::new().await;
    let error = betray(&stage, post(text("x"))).await.unwrap_err();
    assert_eq!((error.kind(), stage.count()), (Kind::Reset, [1, 1, 0]));
}

#[tokio::test]
async fn a_pulled_body_is_never_sent_twice() {
    let stage = Stage::new().await;
    let (sender, body) = fed(Some(1));
    sender.send(data("x")).await.unwrap();
    let error = betray(&stage, with(Method::PUT, "/", Some(body))).await.unwrap_err();
    assert_eq!((error.kind(), stage.count()), (Kind::Reset, [1, 1, 0]));
}

#[tokio::test]
async fn a_post_sees_a_close_that_was_not_reported_yet() {
    let stage = Stage::new().await;
    stage.exchange(get("/"), &[OK], End::Stay).await.unwrap();
    stage.exchange(post(text("")), &[OK], End::Stay).await.unwrap();
    assert_eq!(stage.count(), [2, 0, 0]);
}

#[tokio::test]
async fn a_fresh_connection_is_not_tried_again() {
    let stage = Stage::new().await;
    let error = stage.exchange(get("/"), &[], End::Fin).await.unwrap_err();
    assert_eq!((error.kind(), stage.count()), (Kind::Reset, [1, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_without_traffic() {
    let stage = Stage::with(|settings| settings.connections.keep = Duration::from_secs(10)).await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer.send(OK).await;
        peer
    };
    let (_, mut peer) = tokio::join!(stage.call(get("/")), serve);
    let since = Instant::now();
    peer.left().await;
    let waited = since.elapsed().as_secs();
    assert!((10..=15).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_request_body_says_how_it_is_framed() {
    for (method, body, framing, wire) in [
        (Method::POST, Some(text("abc")), "content-length: 3\n", "abc"),
        (Method::POST, Some(text("")), "content-length: 0\n", ""),
        (Method::PATCH, None, "content-length: 0\n", ""),
        (Method::GET, None, "", ""),
        (Method::DELETE, Some(text("")), "", ""),
    ] {
        let stage = Stage::new().await;
        let serve = async {
            let mut peer = stage.accept().await;
            let head = peer.head().await;
            assert!(
                head.ends_with(&format!("via: {}\n{framing}\n", loop_detection::entry(Version::HTTP_11))),
                "{head}"
            );
            peer.exactly(wire).await;
            peer.send(OK).await;
            peer
        };
        let (answer, _peer) = tokio::join!(stage.call(with(method, "/", body)), serve);
        answer.unwrap();
    }
}

#[tokio::test]
async fn a_pulled_body_is_streamed_while_the_answer_comes() {
    let stage = Stage::new().await;
    let (sender, body) = fed(None);
    let serve = async {
        let mut peer = stage.accept().await;
        assert!(peer.head().await.contains("\ntransfer-encoding: chunked\n"));
        sender.send(data("abc")).await.unwrap();
        peer.exactly("3\r\nabc\r\n").await;
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nABC\r\n").await;
        sender.send(data("")).await.unwrap();
        sender.send(data("0123456789abcdef")).await.unwrap();
        peer.exactly("10\r\n0123456789abcdef\r\n").await;
        let trailers = HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), HeaderValue::from_static("9"))]);
        sender.send(Ok(Frame::trailers(trailers))).await.unwrap();
        peer.exactly("0\r\nx-sum: 9\r\n\r\n").await;
        peer.send(b"1\r\n!\r\n0\r\n\r\n").await;
        peer.head().await;
        peer.send(OK).await;
        peer
    };
    let fetch = async {
        let body = whole(stage.call(post(body)).await.unwrap()).await.unwrap().body;
        assert_eq!(body, "ABC!");
        stage.call(get("/")).await.unwrap();
    };
    tokio::join!(fetch, serve);
    assert_eq!(stage.count(), [1, 1, 0]);
}

#[tokio::test]
async fn a_pulled_body_of_known_length_is_sent_as_it_is() {
    let stage = Stage::new().await;
    let (sender, body) = fed(Some(6));
    let serve = async {
        let mut peer = stage.accept().await;
        assert!(peer.head().await.contains("\ncontent-length: 6\n"));
        sender.send(data("abc")).await.unwrap();
        peer.exactly("abc").await;
        sender.send(data("def")).await.unwrap();
        peer.exactly("def").await;
        peer.send(OK).await;
        peer
    };
    // The sender lives on: the length alone ends the body.
    let (answer, _peer) = tokio::join!(stage.call(post(body)), serve);
    assert_eq!(whole(answer.unwrap()).await.unwrap().body, "ok");
}

#[tokio::test]
async fn a_body_that_breaks_its_word_ends_the_call() {
    for (length, pieces, kind) in [
        (Some(2), vec![data("abc")], Kind::BadRequest),
        (Some(5), vec![data("abc")], Kind::BadRequest),
        (None, vec![data("abc"), Err(Error::new(Kind::BodyTooLarge, "too large"))], Kind::BodyTooLarge),
    ] {
        let stage = Stage::new().await;
        let (sender, body) = fed(length);
        let feed = async move {
            for piece in pieces {
                sender.send(piece).await.unwrap();
            }
        };
        let serve = async { stage.accept().await.left().await };
        let (answer, (), ()) = tokio::join!(stage.call(post(body)), feed, serve);
        assert_eq!(answer.err().unwrap().kind(), kind);
    }
}

#[tokio::test]
async fn an_early_refusal_ends_the_sending() {
    let stage = Stage::new().await;
    let (sender, body) = fed(None);
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig").await;
        sender.closed().await;
        peer.left().await;
    };
    let (answer, ()) = tokio::join!(stage.call(post(body)), serve);
    let whole = whole(answer.unwrap()).await.unwrap();
    assert_eq!((whole.status, &whole.body[..]), (413, &b"big"[..]));
}

#[tokio::test]
async fn a_body_is_pulled_only_when_the_socket_takes_more() {
    let stage = Stage::new().await;
    let (sender, body) = fed(None);
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let feed = async {
        for taken in 0..64 {
            let full = async {
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                sent = sender.send(Ok(Frame::data(piece.clone()))) => sent.unwrap(),
                () = full => return taken,
            }
        }
        64
    };
    let call = stage.call(post(body));
    let (taken, _peer) = tokio::select! {
        _ = call => unreachable!("nobody answers"),
        taken = async { tokio::join!(feed, stage.accept()) } => taken,
    };
    // What the two sockets hold, and one piece on its way.
    assert!(taken < 32, "{taken} MiB were pulled");
}

#[tokio::test]
async fn a_refused_connection_says_so_without_an_address() {
    let Stage { listener, upstream } = Stage::new().await;
    drop(listener);
    let error = upstream.call(get("/")).await.err().unwrap();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Unreachable, "books: connection refused"));
}

#[tokio::test]
async fn a_name_is_resolved() {
    let stage = Stage::new().await;
    let port = stage.listener.local_addr().unwrap().port();
    let settings = UpstreamSettings::new("books", format!("http://localhost:{port}").parse().unwrap());
    let stage = Stage { upstream: ReadyUpstream::new(settings).unwrap(), ..stage };
    assert_eq!(stage.exchange(get("/"), &[OK], End::Stay).await.unwrap().body, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_never_answers_times_out() {
    let stage = Stage::new().await;
    let call = UpstreamCall { timeouts: limit(|timeouts| timeouts.first_byte = seconds(2)), ..get("/") };
    let since = Instant::now();
    let error = stage.exchange(call, &[b"HTTP/1.1 200 OK\r\n"], End::Stay).await.unwrap_err();
    assert_eq!((error.kind(), error.detail()), (Kind::Timeout, "the upstream did not answer in time"));
    assert_eq!(since.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_stops_in_its_answer_times_out() {
    let stage = Stage::new().await;
    let call = UpstreamCall { timeouts: limit(|timeouts| timeouts.idle = seconds(7)), ..get("/") };
    let since = Instant::now();
    let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
    let error = stage.exchange(call, &[wire], End::Stay).await.unwrap_err();
    assert_eq!((error.kind(), error.detail()), (Kind::Timeout, "the upstream stopped in the middle of its answer"));
    assert_eq!(since.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_in_all_times_out() {
    let stage = Stage::new().await;
    let call = UpstreamCall { timeouts: limit(|timeouts| timeouts.call = seconds(10)), ..get("/") };
    let serve = async {
        let mut peer = stage.accept().await;
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n").await;
        loop {
            tokio::time::sleep(Duration::from_secs(4)).await;
            peer.send(b"x").await;
        }
    };
    let since = Instant::now();
    let fetch = async { whole(stage.call(call).await?).await };
    let error = tokio::select! { whole = fetch => whole.unwrap_err(), () = serve => unreachable!("it never ends") };
    assert_eq!((error.kind(), error.detail()), (Kind::Timeout, "the call took too long"));
    assert_eq!(since.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_is_not_the_upstreams_fault() {
    let stage = Stage::new().await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc").await;
        peer.send(b"def").await;
        peer
    };
    let (answer, _peer) = tokio::join!(stage.call(get("/")), serve);
    let answer = answer.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(whole(answer).await.unwrap().body, "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_not_the_upstreams_fault() {
    let stage = Stage::new().await;
    let (sender, body) = fed(Some(6));
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        for piece in ["abc", "def"] {
            tokio::time::sleep(Duration::from_secs(100)).await;
            sender.send(data(piece)).await.unwrap();
            peer.exactly(piece).await;
        }
        peer.send(OK).await;
        peer
    };
    let (answer, _peer) = tokio::join!(stage.call(post(body)), serve);
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_send_takes_the_time_of_its_call() {
    let stage = Stage::new().await;
    let (sender, body) = fed(Some(600));
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        while sender.send(data("a")).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    };
    let since = Instant::now();
    let (answer, ()) = tokio::join!(stage.call(post(body)), serve);
    assert_eq!(answer.err().unwrap().kind(), Kind::SlowBody);
    assert!((300..=311).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_come_about_times_out() {
    // Nobody accepts here, and the queue is full.
    let (_held, address) = full().unwrap();
    let upstream =
        ReadyUpstream::new(UpstreamSettings::new("books", format!("http://{address}").parse().unwrap())).unwrap();
    let since = Instant::now();
    let error = upstream.call(get("/")).await.err().unwrap();
    assert_eq!((error.kind(), error.detail()), (Kind::Timeout, "connecting timed out"));
    assert_eq!(since.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_bound_wait_and_are_then_turned_away() {
    let stage = Stage::with(|settings| settings.in_flight = Some(1)).await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
        peer
    };
    let (first, peer) = tokio::join!(stage.call(get("/")), serve);
    let since = Instant::now();
    assert_eq!(stage.call(get("/")).await.err().unwrap().kind(), Kind::Busy);
    assert_eq!(since.elapsed().as_secs(), 3);

    let second = stage.exchange(get("/"), &[OK], End::Stay);
    let release = async { drop((first, peer)) };
    let (second, ()) = tokio::join!(second, release);
    assert_eq!(second.unwrap().body, "ok");
    assert_eq!(stage.in_flight(), 0);
}

#[tokio::test]
async fn a_call_given_up_closes_its_connection() {
    let stage = Stage::new().await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer
    };
    let mut peer = tokio::select! { _ = stage.call(get("/")) => unreachable!("nobody answers"), peer = serve => peer };
    peer.left().await;
    assert_eq!(stage.in_flight(), 0);
}

/// Answers `/n` with the `n`th body, in one piece or in chunks, as long as the client asks.
async fn library(mut peer: Peer) {
    loop {
        let head = peer.head().await;
        let n = head.split(['/', ' ']).find_map(|part| part.parse().ok()).unwrap();
        let volume = volume(n);
        if n % 2 == 0 {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", volume.len())).await;
            peer.send(&volume).await;
            continue;
        }
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        for piece in volume.chunks(n * 13) {
            peer.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).await;
        }
        peer.send("0\r\n\r\n").await;
    }
}

fn volume(n: usize) -> Vec<u8> {
    (0..n * 7919).map(|at| (at * 31 + n) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_mix_nothing_up() {
    let stage = Stage::new().await;
    let upstream = stage.upstream.clone();
    let serve = tokio::spawn(async move {
        loop {
            tokio::spawn(library(stage.accept().await));
        }
    });
    for _ in 0..5 {
        let calls: Vec<_> = (1..=20)
            .map(|n| {
                let call = upstream.call(get(&format!("/{n}")));
                tokio::spawn(async move { assert!(whole(call.await.unwrap()).await.unwrap().body == volume(n), "{n}") })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    }
    serve.abort();
}

#[tokio::test]
async fn a_call_is_small() {
    let stage = Stage::new().await;
    let size = size_of_val(&stage.upstream.call(get("/")));
    assert!(size <= 512, "a call's future has {size} bytes");
}

#[tokio::test]
async fn a_call_beyond_the_open_connections_waits_for_one() {
    let stage = Stage::with(|settings| settings.connections.open = Some(1)).await;
    let serve = async {
        let mut peer = stage.accept().await;
        for _ in 0..3 {
            peer.head().await;
            peer.send(OK).await;
        }
        peer
    };
    let fetch = || async { whole(stage.call(get("/")).await?).await };
    let (first, second, third, _peer) = tokio::join!(fetch(), fetch(), fetch(), serve);
    assert!([first, second, third].iter().all(|answer| answer.as_ref().is_ok_and(|whole| whole.status == 200)));
    assert_eq!(stage.count(), [1, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_connection_is_bounded_in_time_and_number() {
    let stage = Stage::with(|settings| {
        settings.connections.open = Some(1);
        settings.connections.waiting = 1;
        settings.timeouts.connect = seconds(2);
    })
    .await;
    let serve = async {
        let mut peer = stage.accept().await;
        peer.head().await;
        peer
    };
    let (held, waits, refused) = (stage.call(get("/")), stage.call(get("/")), stage.call(get("/")));
    let start = Instant::now();
    let others = async {
        let timed = async { (waits.await.err().map(|error| error.kind()), start.elapsed().as_secs()) };
        let at_once = async { (refused.await.err().map(|error| error.kind()), start.elapsed().as_secs()) };
        tokio::join!(timed, at_once)
    };
    tokio::select! {
        biased;
        _ = async { tokio::join!(held, serve) } => panic!("it is not answered"),
        (timed, at_once) = others => {
            assert_eq!(timed, (Some(Kind::Busy), 2));
            assert_eq!(at_once, (Some(Kind::Busy), 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_used_beyond_its_lifetime() {
    let stage = Stage::with(|settings| settings.connections.lifetime = Duration::from_secs(5)).await;
    for _ in 0..2 {
        let serve = async {
            let mut peer = stage.accept().await;
            for _ in 0..2 {
                peer.head().await;
                peer.send(OK).await;
            }
            peer
        };
        let calls = async {
            for _ in 0..2 {
                whole(stage.call(get("/")).await.unwrap()).await.unwrap();
            }
        };
        let ((), _peer) = tokio::join!(calls, serve);
        tokio::time::advance(Duration::from_secs(6)).await;
    }
    assert_eq!(stage.count(), [2, 2, 0]);
}
