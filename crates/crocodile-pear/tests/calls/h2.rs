//! HTTP/2: what is shared, what is repeated, what is bounded.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ::h2::Reason;
use ::h2::server::Builder;
use bytes::Bytes;
use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::Kind;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::net::protocol::Protocol;
use crocodile_pear::unstable::net::tls::TlsSettings;
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamSettings};
use futures_util::StreamExt;
use futures_util::future::{join_all, poll_fn};
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body_util::{BodyExt, StreamBody};
use rustls::version::TLS13;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::call::{count, fetch, get, in_flight, upstream, with};
use crate::peers::authority::{Authority, offering};
use crate::peers::http2::{Asked, converse};
use crate::peers::served::Served;
use crate::peers::shop::answer;

/// An HTTP/2 server; each request goes to `serve`.
struct Server(Served);

impl Server {
    fn new<F>(builder: Builder, serve: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let serve = Arc::new(serve);
        Server(Served::begin(move |stream| {
            let serve = serve.clone();
            converse(stream, builder.clone(), move |asked| serve(asked))
        }))
    }

    fn upstream(&self, set: impl FnOnce(&mut UpstreamSettings)) -> Arc<ReadyUpstream> {
        prior(self.0.address.port(), set)
    }

    fn connections(&self) -> u64 {
        self.0.connections()
    }
}

/// HTTP/2 from the first byte on.
fn prior(port: u16, set: impl FnOnce(&mut UpstreamSettings)) -> Arc<ReadyUpstream> {
    upstream(&format!("http://127.0.0.1:{port}/api"), |settings| {
        settings.protocol = Protocol::Http2;
        set(settings);
    })
}

/// Answers with the path.
async fn path((request, mut respond): Asked) -> Option<()> {
    let mut body = respond.send_response(Response::new(()), false).ok()?;
    body.send_data(Bytes::copy_from_slice(request.uri().path().as_bytes()), true).ok()
}

/// Answers with the body, as it comes.
async fn echo((request, mut respond): Asked) -> Option<()> {
    let mut out = respond.send_response(Response::new(()), false).ok()?;
    let mut body = request.into_body();
    while let Some(data) = body.data().await {
        let mut data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        while !data.is_empty() {
            out.reserve_capacity(data.len());
            let room = poll_fn(|cx| out.poll_capacity(cx)).await?.ok()?;
            out.send_data(data.split_to(room.min(data.len())), false).ok()?;
        }
    }
    match body.trailers().await.ok()? {
        Some(trailers) => out.send_trailers(trailers).ok(),
        None => out.send_data(Bytes::new(), true).ok(),
    }
}

fn post(body: AnswerBody) -> crocodile_pear::unstable::upstream::UpstreamCall {
    with(Method::POST, "/x", Some(body))
}

/// A body in pieces, of unknown length.
fn streamed(pieces: Vec<Bytes>, trailers: Option<HeaderMap>) -> AnswerBody {
    let frames = pieces.into_iter().map(http_body::Frame::data).chain(trailers.map(http_body::Frame::trailers));
    AnswerBody::Pulled(Box::pin(StreamBody::new(futures_util::stream::iter(frames.map(Ok)))))
}

#[tokio::test]
async fn a_hundred_calls_share_one_connection() {
    let server = Server::new(Builder::new(), path);
    let upstream = server.upstream(|_| {});
    let bodies = join_all((0..100).map(|number| fetch(&upstream, get(&format!("/{number}")))).collect::<Vec<_>>());
    for (number, body) in bodies.await.into_iter().enumerate() {
        assert_eq!(body.unwrap(), format!("/api/{number}"));
    }
    fetch(&upstream, get("/")).await.unwrap();
    assert_eq!((server.connections(), count(&upstream), in_flight(&upstream)), (1, [1, 1, 0], 0));
}

#[tokio::test]
async fn a_further_connection_is_opened_when_the_upstream_allows_no_more_streams() {
    let together = Arc::new(Barrier::new(30));
    let mut builder = Builder::new();
    builder.max_concurrent_streams(10);
    let server = Server::new(builder, move |asked: Asked| {
        let together = together.clone();
        async move {
            if asked.0.uri().path() != "/api/first" {
                together.wait().await;
            }
            path(asked).await
        }
    });
    let upstream = server.upstream(|_| {});
    // After it, the upstream's settings are known.
    fetch(&upstream, get("/first")).await.unwrap();
    let bodies = join_all((0..30).map(|_| fetch(&upstream, get("/")))).await;
    assert!(bodies.iter().all(Result::is_ok));
    assert!(server.connections() >= 3, "{}", server.connections());
}

#[tokio::test]
async fn a_bounded_upstream_lets_calls_wait_for_a_seat() {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(5);
    let server = Server::new(builder, path);
    let upstream = server.upstream(|settings| settings.connections.open = Some(1));
    fetch(&upstream, get("/")).await.unwrap();
    let bodies = join_all((0..50).map(|_| fetch(&upstream, get("/")))).await;
    assert!(bodies.iter().all(Result::is_ok));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn bodies_are_exact_both_ways() {
    let server = Server::new(Builder::new(), echo);
    let upstream = server.upstream(|_| {});
    let call = |number: usize| {
        let upstream = upstream.clone();
        async move {
            let pattern = (0..number * 37 % 50_021).map(|place| (place * 31 + number) as u8);
            let sent: Bytes = pattern.collect();
            let body = match number % 2 {
                0 => AnswerBody::Bytes(sent.clone()),
                _ => streamed(sent.chunks(7_001).map(Bytes::copy_from_slice).collect(), None),
            };
            assert_eq!(fetch(&upstream, post(body)).await.unwrap(), sent, "call {number}");
        }
    };
    let mut running: FuturesUnordered<_> = (0..100).map(call).collect();
    for number in 100..2000 {
        running.next().await;
        running.push(call(number));
    }
    running.collect::<Vec<()>>().await;
    assert_eq!((server.connections(), in_flight(&upstream)), (1, 0));
}

#[tokio::test]
async fn trailers_go_both_ways() {
    let server = Server::new(Builder::new(), echo);
    let trailers = HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), HeaderValue::from_static("9"))]);
    let body = streamed(vec!["abc".into()], Some(trailers.clone()));
    let answer = server.upstream(|_| {}).call(post(body)).await.unwrap();
    let AnswerBody::Pulled(body) = answer.body else { panic!("a body that comes") };
    let collected = body.collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "abc");
}

#[tokio::test]
async fn fields_of_a_connection_do_not_travel() {
    let server = Server::new(Builder::new(), |(request, mut respond): Asked| async move {
        let mut names: Vec<_> = request.headers().keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        let told = format!("{} {}", request.uri().authority()?.host(), names.join(" "));
        let response = Response::builder().header("content-length", told.len()).body(()).ok()?;
        respond.send_response(response, false).ok()?.send_data(told.into(), true).ok()
    });
    let mut call = get("/");
    for name in ["accept", "connection", "keep-alive", "te", "upgrade", "host", "transfer-encoding", "content-length"] {
        call.headers.insert(name, HeaderValue::from_static("1"));
    }
    let answer = server.upstream(|_| {}).call(call).await.unwrap();
    assert!(!answer.headers.contains_key("content-length"));
    assert_eq!(crate::call::body(answer).await.unwrap(), "127.0.0.1 accept via");
}

#[tokio::test]
async fn a_dropped_body_resets_its_stream_and_no_other() {
    let (reset, told) = oneshot::channel();
    let reset = std::sync::Mutex::new(Some(reset));
    let server = Server::new(Builder::new(), move |asked: Asked| {
        let reset = (asked.0.uri().path() == "/api/long").then(|| reset.lock().unwrap().take()).flatten();
        async move {
            let Some(reset) = reset else { return path(asked).await };
            let (_request, mut respond) = asked;
            let mut body = respond.send_response(Response::new(()), false).ok()?;
            body.send_data("begun".into(), false).ok()?;
            let reason = poll_fn(|cx| body.poll_reset(cx)).await.ok()?;
            reset.send(reason).ok()
        }
    });
    let upstream = server.upstream(|_| {});
    let answer = upstream.call(get("/long")).await.unwrap();
    assert_eq!(in_flight(&upstream), 1);
    drop(answer);
    assert_eq!(told.await.unwrap(), Reason::CANCEL);
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "/api/");
    assert_eq!((server.connections(), in_flight(&upstream)), (1, 0));
}

#[tokio::test]
async fn a_stalled_reader_holds_a_window_and_stops_nobody() {
    let sent = Arc::<AtomicUsize>::default();
    let counted = sent.clone();
    let server = Server::new(Builder::new(), move |asked: Asked| {
        let counted = counted.clone();
        async move {
            if asked.0.uri().path() != "/api/large" {
                return path(asked).await;
            }
            let (_request, mut respond) = asked;
            let mut body = respond.send_response(Response::new(()), false).ok()?;
            loop {
                body.reserve_capacity(16_384);
                let room = poll_fn(|cx| body.poll_capacity(cx)).await?.ok()?;
                counted.fetch_add(room, Ordering::Relaxed);
                body.send_data(vec![0; room].into(), false).ok()?;
            }
        }
    });
    let upstream = server.upstream(|_| {});
    let stalled = upstream.call(get("/large")).await.unwrap();
    // Each of these comes after what the server could send of the large one in the meantime.
    for _ in 0..200 {
        fetch(&upstream, get("/")).await.unwrap();
    }
    assert_eq!(sent.load(Ordering::Relaxed), 512 * 1024);
    assert_eq!(server.connections(), 1);
    drop(stalled);
}

/// A peer that says what no proper server would.
struct Raw {
    stream: TcpStream,
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

impl Raw {
    /// A further connection: what is allowed is known by now, and nobody asks for it.
    async fn again(listener: &TcpListener) -> Self {
        let mut raw = Raw { stream: listener.accept().await.unwrap().0 };
        raw.stream.read_exact(&mut [0; 24]).await.unwrap();
        raw.send(SETTINGS, 0, 0, &[]).await;
        raw
    }

    async fn accept(listener: &TcpListener) -> Self {
        let mut stream = listener.accept().await.unwrap().0;
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut raw = Raw { stream };
        raw.send(SETTINGS, 0, 0, &[]).await;
        let ping = raw.frame(PING).await.1;
        raw.send(PING, 1, 0, &ping).await;
        raw
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = vec![0, 0, payload.len() as u8, kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The stream of the next request.
    async fn request(&mut self) -> u32 {
        self.frame(HEADERS).await.0
    }

    /// Stream and payload of the next frame of a kind.
    async fn frame(&mut self, kind: u8) -> (u32, Vec<u8>) {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            if head[3] == kind {
                return (u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload);
            }
        }
    }

    /// 200, and nothing more.
    async fn answer(&mut self, stream: u32) {
        self.send(HEADERS, 5, stream, &[0x88]).await;
    }
}

async fn raw() -> (TcpListener, Arc<ReadyUpstream>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let upstream = prior(listener.local_addr().unwrap().port(), |_| {});
    (listener, upstream)
}

#[tokio::test]
async fn what_a_goaway_leaves_out_is_sent_on_another_connection() {
    let (listener, upstream) = raw().await;
    let serve = async {
        let mut first = Raw::accept(&listener).await;
        for _ in 0..3 {
            first.request().await;
        }
        first.send(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]).await;
        let mut second = Raw::again(&listener).await;
        for _ in 0..2 {
            let stream = second.request().await;
            second.answer(stream).await;
        }
        // The one that was looked at is answered where it was asked.
        first.answer(1).await;
        (first, second)
    };
    let calls = join_all((0..3).map(|_| fetch(&upstream, post(AnswerBody::Bytes("once".into())))));
    let (bodies, _peers) = tokio::join!(calls, serve);
    assert!(bodies.iter().all(Result::is_ok), "{bodies:?}");
    assert_eq!(count(&upstream), [2, 0, 2]);
}

#[tokio::test]
async fn a_refused_stream_is_sent_again() {
    let (listener, upstream) = raw().await;
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        let stream = peer.request().await;
        peer.send(RST_STREAM, 0, stream, &[0, 0, 0, 7]).await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer
    };
    let (body, _peer) = tokio::join!(fetch(&upstream, post(AnswerBody::Bytes("once".into()))), serve);
    assert_eq!(body.unwrap(), "");
    assert_eq!(count(&upstream)[2], 1);
}

#[tokio::test]
async fn an_upstream_that_refuses_for_ever_is_given_up() {
    let (listener, upstream) = raw().await;
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        for _ in 0..4 {
            let stream = peer.request().await;
            peer.send(RST_STREAM, 0, stream, &[0, 0, 0, 7]).await;
        }
        peer
    };
    let (body, _peer) = tokio::join!(fetch(&upstream, get("/")), serve);
    assert_eq!(body.unwrap_err().kind(), Kind::Reset);
}

#[tokio::test]
async fn what_may_have_been_done_is_not_done_twice() {
    let (listener, upstream) = raw().await;
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer.request().await;
        drop(peer);
        let mut peer = Raw::again(&listener).await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer.request().await;
        drop(peer);
        let mut peer = Raw::again(&listener).await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer
    };
    let calls = async {
        fetch(&upstream, get("/")).await.unwrap();
        let error = fetch(&upstream, post(AnswerBody::Bytes("once".into()))).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Reset);
        fetch(&upstream, get("/")).await.unwrap();
        // A GET on a kept connection may be sent again.
        fetch(&upstream, get("/")).await.unwrap();
    };
    let ((), _peer) = tokio::join!(calls, serve);
    assert_eq!(count(&upstream), [3, 2, 1]);
}

#[tokio::test]
async fn an_answer_without_its_end_is_cut() {
    let (listener, upstream) = raw().await;
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        let stream = peer.request().await;
        peer.send(HEADERS, 4, stream, &[0x88]).await;
        peer.send(0, 0, stream, b"abc").await;
    };
    let (body, ()) = tokio::join!(fetch(&upstream, get("/")), serve);
    assert_eq!(body.unwrap_err().kind(), Kind::Cut);
    assert_eq!(in_flight(&upstream), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_no_ping_is_given_up() {
    let (listener, upstream) = raw().await;
    let mut call = get("/");
    let mut timeouts = upstream.timeouts().clone();
    timeouts.first_byte = Timeout::Never;
    call.timeouts = Some(Arc::new(timeouts));
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        peer.request().await;
        peer
    };
    let since = tokio::time::Instant::now();
    let (body, _peer) = tokio::join!(fetch(&upstream, call), serve);
    assert_eq!(body.unwrap_err().kind(), Kind::Reset);
    assert_eq!(since.elapsed().as_secs(), 20 / 2 * 2 + 10);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed() {
    let (listener, _) = raw().await;
    let port = listener.local_addr().unwrap().port();
    let upstream = prior(port, |settings| settings.connections.keep = Duration::from_secs(4));
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        let mut rest = Vec::new();
        peer.stream.read_to_end(&mut rest).await.unwrap();
    };
    let (body, ()) = tokio::join!(fetch(&upstream, get("/")), serve);
    body.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_a_timeout() {
    let (listener, upstream) = raw().await;
    let serve = async {
        let mut peer = Raw::accept(&listener).await;
        peer.request().await;
        peer
    };
    let mut call = get("/");
    let mut timeouts = upstream.timeouts().clone();
    timeouts.first_byte = Timeout::After(Duration::from_secs(2));
    call.timeouts = Some(Arc::new(timeouts));
    let (body, _peer) = tokio::join!(fetch(&upstream, call), serve);
    assert_eq!(body.unwrap_err().kind(), Kind::Timeout);
    assert_eq!(in_flight(&upstream), 0);
}

/// A TLS server that offers these protocols and speaks HTTP/2 if it was chosen; its port.
fn secure(authority: &Authority, offers: &[&str]) -> u16 {
    let config = offering(authority.sign(&["127.0.0.1"]).server(&[&TLS13]), offers);
    let served = Served::secured(config, |stream| async {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            converse(stream, Builder::new(), path).await;
            return Some(());
        }
        let mut stream = BufReader::new(stream);
        loop {
            crate::peers::asked::Asked::receive(&mut stream).await.ok()??;
            stream.write_all(&answer(200, "", "one")).await.ok()?;
            stream.flush().await.ok()?;
        }
    });
    served.stay().port()
}

#[tokio::test]
async fn connections_that_calls_need_at_once_are_opened_side_by_side() {
    const STREAMS: u32 = 10;
    let authority = Authority::new();
    let config = offering(authority.sign(&["127.0.0.1"]).server(&[&TLS13]), &["h2"]);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (further, answered) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(40)));
    let serve = move |asked: Asked| {
        let answered = answered.clone();
        async move {
            if asked.0.uri().path() != "/api/first" {
                answered.wait().await;
            }
            path(asked).await
        }
    };
    let first = AtomicBool::new(true);
    let served = Served::begin(move |stream| {
        let first = first.swap(false, Ordering::Relaxed);
        let (acceptor, further, serve) = (acceptor.clone(), further.clone(), serve.clone());
        async move {
            // None of the further ones has a handshake before all of them are there.
            if !first {
                further.wait().await;
            }
            let stream = acceptor.accept(stream).await.unwrap();
            converse(stream, Builder::new().max_concurrent_streams(STREAMS).clone(), serve).await;
        }
    });
    let upstream = trusting(&authority, served.address.port(), Protocol::Http2);
    // After it, the upstream's settings are known.
    fetch(&upstream, get("/first")).await.unwrap();
    let bodies = join_all((0..4 * STREAMS).map(|_| fetch(&upstream, get("/")))).await;
    bodies.into_iter().for_each(|body| drop(body.unwrap()));
    assert_eq!(count(&upstream)[0], 4);
}

fn trusting(authority: &Authority, port: u16, protocol: Protocol) -> Arc<ReadyUpstream> {
    upstream(&format!("https://127.0.0.1:{port}/api"), |settings| {
        settings.tls = TlsSettings { ca: Some(authority.pem()), ..TlsSettings::default() };
        settings.protocol = protocol;
    })
}

#[tokio::test]
async fn tls_chooses_the_version() {
    let authority = Authority::new();
    for (offers, protocol, wanted, opened) in [
        (&["h2", "http/1.1"][..], Protocol::Auto, "/api/", 1),
        (&["h2", "http/1.1"], Protocol::Http2, "/api/", 1),
        (&["h2", "http/1.1"], Protocol::Http1, "one", 100),
        (&["http/1.1"], Protocol::Auto, "one", 100),
        (&[], Protocol::Auto, "one", 100),
    ] {
        let upstream = trusting(&authority, secure(&authority, offers), protocol);
        for body in join_all((0..100).map(|_| fetch(&upstream, get("/")))).await {
            assert_eq!(body.unwrap(), wanted);
        }
        assert_eq!(count(&upstream)[0], opened, "{offers:?} {protocol:?}");
    }
}

/// A TLS server whose connections are of HTTP/1.1 or HTTP/2 as `speaks` says for each, by its number. Connections of
/// HTTP/1.1 end after one answer.
fn changing(authority: &Authority, speaks: impl Fn(usize) -> &'static str + Send + Sync + 'static) -> u16 {
    let config = authority.sign(&["127.0.0.1"]).server(&[&TLS13]);
    let accepted = AtomicUsize::new(0);
    let served = Served::begin(move |stream| {
        let chosen = speaks(accepted.fetch_add(1, Ordering::Relaxed));
        let acceptor = TlsAcceptor::from(Arc::new(offering(config.clone(), &[chosen])));
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            if chosen == "h2" {
                return converse(stream, Builder::new(), path).await;
            }
            let mut stream = BufReader::new(stream);
            if let Ok(Some(_)) = crate::peers::asked::Asked::receive(&mut stream).await {
                let _ = stream.write_all(&answer(200, "connection: close\r\n", "one")).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    served.stay().port()
}

#[tokio::test]
async fn a_server_that_changes_from_http1_to_http2_is_followed_at_once() {
    let authority = Authority::new();
    let port = changing(&authority, |number| if number < 3 { "http/1.1" } else { "h2" });
    let upstream = trusting(&authority, port, Protocol::Auto);
    for wanted in ["one", "one", "one", "/api/", "/api/", "/api/"] {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), wanted);
    }
    // The calls over HTTP/2 share one connection.
    assert_eq!(count(&upstream)[0], 4);
}

#[tokio::test]
async fn connections_to_two_servers_of_two_versions_behind_one_address_serve_every_call() {
    let authority = Authority::new();
    // A balancer in front of an old and a new server, whatever the order in which they take connections.
    for pattern in [0b0101_0101_u64, 0b1010_1010, 0b0011_0010, 0b1100_1101] {
        let speaks = move |number: usize| if pattern >> (number % 8) & 1 == 1 { "h2" } else { "http/1.1" };
        let upstream = trusting(&authority, changing(&authority, speaks), Protocol::Auto);
        for round in 0..8 {
            for body in join_all((0..25).map(|_| fetch(&upstream, get("/")))).await {
                let body = body.unwrap();
                assert!(body == "one" || body == "/api/", "{pattern:b}, round {round}: {body:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_upstream_without_http2_is_told() {
    let authority = Authority::new();
    for (offers, wanted) in [
        (&["http/1.1"][..], "the upstream supports none of the offered HTTP versions"),
        (&[], "the upstream does not speak HTTP/2"),
    ] {
        let upstream = trusting(&authority, secure(&authority, offers), Protocol::Http2);
        let error = fetch(&upstream, get("/")).await.unwrap_err();
        assert_eq!((error.kind(), error.detail()), (Kind::Unreachable, wanted));
    }
}
