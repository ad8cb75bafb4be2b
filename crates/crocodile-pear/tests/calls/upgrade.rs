//! Messages besides a request and its answer: changes of protocol, interim answers, trailers.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::h2::server;
use bytes::Bytes;
use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::{Interim, Passage, Tunnel, Upgrade};
use crocodile_pear::unstable::net::protocol::Protocol;
use crocodile_pear::unstable::net::tls::TlsSettings;
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamCall, UpstreamSettings};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::call::{at, count, fetch, get, in_flight, upstream, with};
use crate::peers::authority::Authority;

const SWITCH: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nX-A: b\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server whose part the test plays, and the upstream that leads to it.
struct Scene {
    listener: TcpListener,
    upstream: Arc<ReadyUpstream>,
}

impl Scene {
    async fn new(set: impl FnOnce(&mut UpstreamSettings)) -> Self {
        let listener = listener().await;
        let upstream = upstream(&format!("http://{}", listener.local_addr().unwrap()), set);
        Scene { listener, upstream }
    }

    async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// A call that asks for another protocol and is answered with `bytes`.
    async fn answered(&self, call: UpstreamCall, bytes: &[u8]) -> (Result<Answer, Error>, TcpStream) {
        let serve = async {
            let mut peer = self.accept().await;
            head(&mut peer).await;
            peer.write_all(bytes).await.unwrap();
            peer
        };
        tokio::join!(self.upstream.call(call), serve)
    }

    /// A tunnel, and the other end of it.
    async fn switched(&self) -> (Tunnel, TcpStream) {
        let (answer, peer) = self.answered(asking(), SWITCH).await;
        (tunnel(answer.unwrap()), peer)
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

async fn head(peer: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(peer.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().replace('\r', "")
}

fn asking() -> UpstreamCall {
    let upgrade = Upgrade { protocol: HeaderValue::from_static("websocket"), idle: Timeout::Never };
    let upgrade = Some(Arc::new(upgrade));
    UpstreamCall { passage: Passage { upgrade, ..Passage::default() }, ..get("/chat") }
}

fn tunnel(answer: Answer) -> Tunnel {
    match answer.body {
        AnswerBody::Tunnel(tunnel) => tunnel,
        _ => panic!("status {} and no tunnel", answer.status),
    }
}

async fn read(from: &mut (impl AsyncReadExt + Unpin), length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn a_101_to_the_protocol_that_was_asked_for_is_a_tunnel() {
    let scene = Scene::new(|_| {}).await;
    let serve = async {
        let mut peer = scene.accept().await;
        let head = head(&mut peer).await;
        peer.write_all(&[SWITCH, b"early"].concat()).await.unwrap();
        (head, peer)
    };
    let (answer, (head, mut peer)) = tokio::join!(scene.upstream.call(asking()), serve);
    let answer = answer.unwrap();
    assert!(head.contains("\nconnection: upgrade\nupgrade: websocket\n"), "{head}");
    assert_eq!(answer.status, StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(
        (&answer.headers["upgrade"], &answer.headers["x-a"]),
        (&"WebSocket".parse().unwrap(), &"b".parse().unwrap())
    );
    assert_eq!(answer.headers.len(), 2);
    let mut tunnel = tunnel(answer);
    assert_eq!(tunnel.early, "early");
    tunnel.stream.write_all(b"up").await.unwrap();
    assert_eq!(read(&mut peer, 2).await, b"up");
    peer.write_all(b"down").await.unwrap();
    assert_eq!(read(&mut tunnel.stream, 4).await, b"down");
    assert_eq!(in_flight(&scene.upstream), 1);
    drop(tunnel);
    assert_eq!(in_flight(&scene.upstream), 0);
}

#[tokio::test]
async fn a_101_comes_in_any_pieces_and_behind_interim_answers() {
    let wire = [b"HTTP/1.1 103 Early Hints\r\n\r\n", SWITCH].concat();
    for cut in 1..wire.len() {
        let scene = Scene::new(|_| {}).await;
        let serve = async {
            let mut peer = scene.accept().await;
            head(&mut peer).await;
            peer.set_nodelay(true).unwrap();
            for piece in [&wire[..cut], &wire[cut..]] {
                peer.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            peer
        };
        let (answer, _peer) = tokio::join!(scene.upstream.call(asking()), serve);
        assert!(tunnel(answer.unwrap()).early.is_empty(), "cut at {cut}");
    }
}

#[tokio::test]
async fn each_side_of_a_tunnel_ends_by_itself() {
    let scene = Scene::new(|_| {}).await;
    let (mut tunnel, mut peer) = scene.switched().await;
    tunnel.stream.shutdown().await.unwrap();
    assert_eq!(peer.read(&mut [0; 9]).await.unwrap(), 0);
    peer.write_all(b"still").await.unwrap();
    assert_eq!(read(&mut tunnel.stream, 5).await, b"still");
    drop(peer);
    assert_eq!(tunnel.stream.read(&mut [0; 9]).await.unwrap(), 0);

    let (mut tunnel, mut peer) = scene.switched().await;
    peer.shutdown().await.unwrap();
    assert_eq!(tunnel.stream.read(&mut [0; 9]).await.unwrap(), 0);
    tunnel.stream.write_all(b"still").await.unwrap();
    assert_eq!(read(&mut peer, 5).await, b"still");
    tunnel.stream.shutdown().await.unwrap();
    drop(tunnel);
    assert_eq!(peer.read(&mut [0; 9]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_tunnel_that_is_dropped_before_its_end_is_reset() {
    let scene = Scene::new(|_| {}).await;
    let (tunnel, mut peer) = scene.switched().await;
    drop(tunnel);
    assert_eq!(peer.read(&mut [0; 9]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn any_other_101_is_malformed() {
    let head = |fields: &str| format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{fields}\r\n");
    let upload = || AnswerBody::Pulled(Box::pin(http_body_util::StreamBody::new(futures_util::stream::pending())));
    for (call, answer, told) in [
        (get("/"), head("upgrade: websocket\r\n"), "the upstream switched protocols unasked"),
        (asking(), head(""), "the upstream switched to another protocol than it was asked for"),
        (asking(), head("upgrade: h2c\r\n"), "the upstream switched to another protocol than it was asked for"),
        (
            UpstreamCall { method: Method::POST, body: Some(upload()), ..asking() },
            head("upgrade: websocket\r\n"),
            "the upstream switched protocols before it had the request",
        ),
    ] {
        let scene = Scene::new(|_| {}).await;
        let error = scene.answered(call, answer.as_bytes()).await.0.err().unwrap();
        assert_eq!((error.kind(), error.detail()), (Kind::Malformed, told));
        assert_eq!(in_flight(&scene.upstream), 0);
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer_like_any_other() {
    let scene = Scene::new(|_| {}).await;
    let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nUpgrade: websocket\r\n\r\nno";
    let answer = scene.answered(asking(), refusal).await.0.unwrap();
    assert_eq!((answer.status, answer.headers.len()), (StatusCode::FORBIDDEN, 0));
    assert_eq!(crate::call::body(answer).await.unwrap(), "no");
    assert_eq!(in_flight(&scene.upstream), 0);
}

#[tokio::test]
async fn a_connection_that_may_change_its_protocol_is_for_one_call() {
    let scene = Scene::new(|_| {}).await;
    let serve = async {
        let mut peers = Vec::new();
        for answer in [OK, OK, OK] {
            let mut peer = scene.accept().await;
            head(&mut peer).await;
            peer.write_all(answer).await.unwrap();
            peers.push(peer);
        }
        // The first was kept, and is used once more.
        head(&mut peers[2]).await;
        peers[2].write_all(OK).await.unwrap();
        peers
    };
    let calls = async {
        for call in [asking(), asking(), get("/"), get("/")] {
            assert_eq!(fetch(&scene.upstream, call).await.unwrap(), "ok");
        }
    };
    let ((), _peers) = tokio::join!(calls, serve);
    assert_eq!(count(&scene.upstream), [3, 1, 0]);
}

#[tokio::test]
async fn a_tunnel_counts_among_the_calls_and_the_connections() {
    let scene = Scene::new(|settings| settings.in_flight = Some(1)).await;
    let (tunnel, _peer) = scene.switched().await;
    let mut timeouts = scene.upstream.timeouts().clone();
    timeouts.connect = Timeout::After(Duration::from_millis(1));
    let timeouts = Some(Arc::new(timeouts));
    let error = fetch(&scene.upstream, UpstreamCall { timeouts: timeouts.clone(), ..get("/") }).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Busy);
    drop(tunnel);

    // One that is kept makes room, and then there is none.
    let scene = Scene::new(|settings| settings.connections.open = Some(1)).await;
    let (answer, mut first) = scene.answered(get("/"), OK).await;
    assert_eq!(crate::call::body(answer.unwrap()).await.unwrap(), "ok");
    let (tunnel, _peer) = scene.switched().await;
    assert_eq!(first.read(&mut [0; 9]).await.unwrap(), 0);
    let error = fetch(&scene.upstream, UpstreamCall { timeouts: timeouts.clone(), ..get("/") }).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Busy);
    drop(tunnel);
    let (answer, _peer) = scene.answered(get("/"), OK).await;
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test]
async fn what_has_left_is_not_sent_again() {
    let scene = Scene::new(|settings| settings.retry = Some(crocodile_pear::unstable::config::spec::defaults())).await;
    let serve = async {
        let mut peer = scene.accept().await;
        head(&mut peer).await;
        drop(peer);
        scene.accept().await
    };
    let error = tokio::select! {
        answer = scene.upstream.call(asking()) => answer.err().unwrap(),
        _ = serve => panic!("it was sent twice"),
    };
    assert_eq!(error.kind(), Kind::Reset);
    let unwell = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(scene.answered(asking(), unwell).await.0.unwrap().status, 503);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_leaves_another() {
    let (there, gone) = (listener().await, listener().await);
    let urls = [&gone, &there].map(|listener| format!("http://{}", listener.local_addr().unwrap()));
    drop(gone);
    let [first, second] = urls;
    let upstream = upstream(&first, |settings| settings.servers.push(at(&second)));
    let scene = Scene { listener: there, upstream };
    for _ in 0..4 {
        drop(scene.switched().await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_clocks_of_a_call_end_with_the_101() {
    let scene = Scene::new(|settings| {
        let soon = Timeout::After(Duration::from_secs(1));
        settings.timeouts.call = soon;
        settings.timeouts.idle = soon;
    })
    .await;
    let (mut tunnel, mut peer) = scene.switched().await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    peer.write_all(b"late").await.unwrap();
    assert_eq!(read(&mut tunnel.stream, 4).await, b"late");
}

#[tokio::test]
async fn http2_alone_has_no_upgrade() {
    let scene = Scene::new(|settings| settings.protocol = Protocol::Http2).await;
    let error = scene.upstream.call(asking()).await.err().unwrap();
    assert_eq!(
        (error.kind(), error.detail()),
        (Kind::Unusable, "the upstream speaks HTTP/2 alone, which has no `Upgrade`")
    );
}

#[tokio::test]
async fn under_tls_http1_alone_is_offered_and_an_end_is_one_if_it_was_said() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let mut config = authority.sign(&["127.0.0.1"]).server(&[version]);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = listener().await;
        let upstream = upstream(&format!("https://{}", listener.local_addr().unwrap()), |settings| {
            settings.tls = TlsSettings { ca: Some(authority.pem()), ..TlsSettings::default() };
        });
        let open = || async {
            let serve = async {
                let mut peer = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
                assert_eq!(peer.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
                head(&mut peer).await;
                peer.write_all(SWITCH).await.unwrap();
                peer.flush().await.unwrap();
                peer
            };
            let (answer, peer) = tokio::join!(upstream.call(asking()), serve);
            (tunnel(answer.unwrap()), peer)
        };
        let (mut tunnel, mut peer) = open().await;
        tunnel.stream.write_all(b"up").await.unwrap();
        tunnel.stream.flush().await.unwrap();
        assert_eq!(read(&mut peer, 2).await, b"up");
        tunnel.stream.shutdown().await.unwrap();
        assert_eq!(peer.read(&mut [0; 9]).await.unwrap(), 0);
        peer.write_all(b"down").await.unwrap();
        peer.flush().await.unwrap();
        assert_eq!(read(&mut tunnel.stream, 4).await, b"down");
        peer.shutdown().await.unwrap();
        assert_eq!(tunnel.stream.read(&mut [0; 9]).await.unwrap(), 0);

        let (mut tunnel, peer) = open().await;
        drop(peer);
        assert!(tunnel.stream.read(&mut [0; 9]).await.is_err(), "no goodbye, no end");
        let (tunnel, mut peer) = open().await;
        drop(tunnel);
        assert!(peer.read(&mut [0; 9]).await.is_err(), "no goodbye, no end");
    }
}

/// Notes interim answers.
#[derive(Default)]
struct Hints(Mutex<Vec<String>>);

impl Interim for Hints {
    fn interim(&self, status: StatusCode, headers: &HeaderMap) {
        let fields: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        self.0.lock().unwrap().push(format!("{} {}", status.as_u16(), fields.join(", ")));
    }
}

fn hinted() -> (UpstreamCall, Arc<Hints>) {
    let hints = Arc::<Hints>::default();
    let passage = Passage { interim: Some(hints.clone()), ..Passage::default() };
    (UpstreamCall { passage, ..get("/") }, hints)
}

#[tokio::test]
async fn interim_answers_are_handed_on_as_they_come() {
    let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
        HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x-b\r\nX-B: c\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n";
    let scene = Scene::new(|_| {}).await;
    let (call, hints) = hinted();
    let serve = async {
        let mut peer = scene.accept().await;
        head(&mut peer).await;
        peer.write_all(early).await.unwrap();
        while hints.0.lock().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
        peer.write_all(OK).await.unwrap();
        peer
    };
    let (body, _peer) = tokio::join!(fetch(&scene.upstream, call), serve);
    assert_eq!(body.unwrap(), "ok");
    assert_eq!(*hints.0.lock().unwrap(), ["102 ", "103 link: \"</a>\"", "103 link: \"</b>\""]);
}

#[tokio::test]
async fn interim_answers_come_over_http2_too() {
    let scene = Scene::new(|settings| settings.protocol = Protocol::Http2).await;
    let (call, hints) = hinted();
    let serve = async {
        let mut connection = server::handshake(scene.accept().await).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        for status in [100, 103, 102] {
            let hint = Response::builder().status(status).header("x-a", status).body(()).unwrap();
            respond.send_informational(hint).unwrap();
        }
        respond.send_response(Response::new(()), false).unwrap().send_data(Bytes::from("ok"), true).unwrap();
        // Moves the frames.
        let _ = connection.accept().await;
    };
    let body = tokio::select! {
        body = fetch(&scene.upstream, call) => body,
        () = serve => panic!("the client left"),
    };
    assert_eq!(body.unwrap(), "ok");
    assert_eq!(*hints.0.lock().unwrap(), ["103 x-a: \"103\"", "102 x-a: \"102\""]);
}

#[tokio::test]
async fn the_upstream_learns_that_trailers_are_taken() {
    let taking = |upgrade| Passage { trailers: true, upgrade, ..Passage::default() };
    let scene = Scene::new(|_| {}).await;
    for (passage, wanted) in [
        (taking(None), "\nconnection: te\nte: trailers\n"),
        (taking(asking().passage.upgrade), "\nconnection: upgrade, te\nupgrade: websocket\nte: trailers\n"),
    ] {
        let serve = async { head(&mut scene.accept().await).await };
        let call = UpstreamCall { passage, ..with(Method::GET, "/", None) };
        let (_, head) = tokio::join!(scene.upstream.call(call), serve);
        assert!(head.contains(wanted), "{head}");
    }

    let scene = Scene::new(|settings| settings.protocol = Protocol::Http2).await;
    let serve = async {
        let mut connection = server::handshake(scene.accept().await).await.unwrap();
        let (request, _) = connection.accept().await.unwrap().unwrap();
        request.headers().clone()
    };
    let headers = tokio::select! {
        _ = scene.upstream.call(UpstreamCall { passage: taking(None), ..get("/") }) => panic!("nobody answers"),
        headers = serve => headers,
    };
    assert_eq!(headers["te"], "trailers");
}
