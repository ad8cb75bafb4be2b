//! The servers of HTTP/1.1 and HTTP/2, in clear and over TLS, and tunnels, over sockets that are only played: they take and
//! give as many bytes as chance has it.
//!
//! The clock stands still while any task can run. A connection that waits for something of which nobody will wake it moves
//! the clock on to its next timer: that is what these tests look for. A connection that wakes itself while it waits keeps the
//! clock from moving: these tests count how often it is polled.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::http::http1::request::Refusal;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::Duplex;
use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear_peers::authority::{Authority, offering};
use crocodile_pear_peers::played::{Pauses, Played, bounded, pause, seeds};
use crocodile_pear_peers::test_rng::TestRng;
use h2::client::SendRequest;
use http::{HeaderValue, Request, Response, Version};
use http_body::Frame;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::copy::{Direction, Directions, TunnelEnd};
use super::handler::Handler;
use super::idle::IdleConnections;
use super::io::Io;
use super::listen::ListenerSettings;
use super::reply::{Ending, Reply};
use super::request::{ClientRequest, Connection};
use super::settings::Settings;
use super::shared::CoreState;
use super::{http1, http2, tls};

/// A body in pieces of any size, each of which may have to be waited for.
struct Pieces {
    left: usize,
    piece: usize,
    waits: usize,
    dice: TestRng,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let waits = self.waits;
        if self.dice.below(waits) == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = self.piece;
        let length = (1 + self.dice.below(piece)).min(self.left);
        self.left -= length;
        Poll::Ready(Some(Ok(Frame::data(vec![b'x'; length].into()))))
    }
}

/// Answers with as many bytes as the path says, and with what the client sent before them.
struct Sized(Mutex<TestRng>);

impl Handler for Sized {
    async fn handle(&self, request: ClientRequest) -> Reply {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).roll();
        let left: usize = request.target.path()[1..].parse().expect("a size");
        let sent = request.body.collect(1 << 24).await.expect("the client's body");
        let piece = dice.of(&[1 << 10, 16 << 10, 64 << 10, 256 << 10]);
        let waits = dice.of(&[3, 20, usize::MAX]);
        let body = match dice.below(4) {
            0 => AnswerBody::Bytes(vec![b'x'; left + sent.len()].into()),
            _ => AnswerBody::Pulled(Box::pin(Pieces { left: left + sent.len(), piece, waits, dice })),
        };
        Response::new(body).into()
    }

    fn refuse(&self, refusal: Refusal, _: Option<HeaderValue>, _: &Arc<Connection>) -> Reply {
        panic!("refused: {}", refusal.detail);
    }
}

/// How the bytes of a connection travel.
#[derive(Clone, Copy)]
enum Carried {
    Clear,
    Tls,
}

/// The two ends of a connection that holds so many bytes, and of which one is played.
fn pair(dice: &mut TestRng) -> (DuplexStream, Played) {
    let (client, server) = tokio::io::duplex(dice.of(&[1 << 10, 64 << 10, 1 << 20, 8 << 20]));
    (client, Played::new(server, dice))
}

/// The two sides of TLS, made once.
async fn parties() -> &'static (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    static PARTIES: OnceCell<(Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>)> = OnceCell::const_new();
    let make = || async {
        let authority = Authority::new();
        let server = offering(authority.sign(&["localhost"]).server(rustls::ALL_VERSIONS), &["h2", "http/1.1"]);
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(rustls::pki_types::pem::PemObject::from_pem_slice(&authority.pem()).expect("PEM"))
            .expect("an anchor");
        let client = rustls::ClientConfig::builder_with_provider(crocodile_pear_peers::authority::provider())
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server), Arc::new(client))
    };
    PARTIES.get_or_init(make).await
}

/// A connection to a server of one of the two protocols.
async fn connect(over: Version, carried: Carried, dice: &mut TestRng) -> (Box<dyn Duplex>, JoinHandle<()>) {
    let (client, played) = pair(dice);
    let (client, played): (Box<dyn Duplex>, Io) = match carried {
        Carried::Clear => (Box::new(client), Io::played(played)),
        Carried::Tls => {
            let (server, trusting) = parties().await;
            let name = "localhost".try_into().expect("a name");
            let connector = tokio_rustls::TlsConnector::from(trusting.clone());
            let (client, played) = tokio::join!(connector.connect(name, client), tls::play(played, server.clone()));
            (Box::new(client.expect("a handshake")), Io::played_tls(played))
        }
    };
    let core = Arc::new(CoreState::new(
        Settings::default(),
        Sized(Mutex::new(TestRng(dice.roll()))),
        None,
        (0, IdleConnections::new(1, None)),
    ));
    let idle = core.idle.begin(0);
    let connection = Arc::new(Connection::new(ClientAddress::Unix, Arc::new(ListenerSettings::default())));
    let served = tokio::spawn(bounded(async move {
        match over {
            Version::HTTP_2 => http2::serve(played, Bytes::new(), connection, core, &idle).await,
            _ => http1::serve(played, connection, core, &idle).await,
        }
    }));
    (client, served)
}

/// Fetches an answer over HTTP/2, and pauses in the middle of both bodies. Returns the number of its bytes.
async fn fetch(mut client: SendRequest<Bytes>, size: usize, sent: usize, pauses: [bool; 2]) -> usize {
    let request = Request::post(format!("http://h/{size}")).body(()).expect("a request");
    let (answer, mut body) = client.send_request(request, sent == 0).expect("a stream");
    let mut left = sent;
    while left > 0 {
        body.reserve_capacity(left);
        let room = poll_fn(|cx| body.poll_capacity(cx)).await.expect("a window").expect("a window");
        left -= room;
        body.send_data(vec![b'y'; room].into(), left == 0).expect("the body");
        pause(pauses[0] && left > 0 && left + room == sent).await;
    }
    let mut answer = answer.await.expect("an answer").into_body();
    let mut came = 0;
    while let Some(data) = answer.data().await {
        let data = data.expect("the body");
        pause(pauses[1] && came == 0).await;
        came += data.len();
        answer.flow_control().release_capacity(data.len()).expect("what came");
    }
    came
}

/// A connection of HTTP/2 with some requests side by side.
async fn play_http2(seed: u64, carried: Carried) {
    let mut dice = TestRng(seed);
    let (client, served) = connect(Version::HTTP_2, carried, &mut dice).await;
    let windows = [1000, 65_535, 1 << 20, 32 << 20, (1 << 31) - 1];
    let mut builder = h2::client::Builder::new();
    let window = dice.of(&windows);
    builder.initial_window_size(window).initial_connection_window_size(dice.of(&windows).max(65_535));
    let (sender, connection) = builder.handshake::<_, Bytes>(client).await.expect("a handshake");
    let driven = tokio::spawn(connection);
    let (began, mut pauses) = (Instant::now(), Pauses::new(&mut dice));
    let calls = (0..1 + dice.below(6)).map(|_| {
        let (size, sent) = (dice.of(&[0, 1, 5000, 200_000, 2_000_000]), dice.of(&[0, 0, 1, 300_000]));
        // As many frames as a client may send.
        let size = if window > 1000 { size } else { size.min(5000) };
        let (sender, pauses) = (sender.clone(), pauses.throw(&mut dice));
        async move { (size + sent, fetch(sender, size, sent, pauses).await) }
    });
    for (wanted, came) in futures_util::future::join_all(calls.collect::<Vec<_>>()).await {
        assert_eq!(came, wanted, "seed {seed}");
    }
    // A call that pauses can hold the window of the others.
    assert!(began.elapsed() <= pauses.at_most, "seed {seed}: a connection of HTTP/2 waited for nobody");
    drop(sender);
    let _ = driven.await;
    let _ = served.await;
}

/// A connection of HTTP/1.1 with some requests, one after the other.
async fn play_http1(seed: u64, carried: Carried) {
    let mut dice = TestRng(seed);
    let (client, served) = connect(Version::HTTP_11, carried, &mut dice).await;
    let (read, mut write) = tokio::io::split(client);
    let mut read = BufReader::new(read);
    let (began, mut pauses) = (Instant::now(), Pauses::new(&mut dice));
    for _ in 0..1 + dice.below(4) {
        let (size, sent) = (dice.of(&[0, 1, 5000, 200_000, 2_000_000]), dice.of(&[0, 0, 1, 300_000]));
        let head = format!("POST /{size} HTTP/1.1\r\nhost: h\r\ncontent-length: {sent}\r\n\r\n");
        let body = vec![b'y'; sent];
        let pauses: [bool; 2] = pauses.throw(&mut dice);
        let ask = async {
            let request = [head.as_bytes(), &body].concat();
            let (first, rest) = request.split_at(head.len() + sent / 2);
            write.write_all(first).await.expect("a request");
            if pauses[0] {
                write.flush().await.expect("a request");
                pause(true).await;
            }
            write.write_all(rest).await.expect("a request");
            // TLS holds the end back.
            write.flush().await.expect("a request");
        };
        let ((), came) = tokio::join!(ask, receive(&mut read, pauses[1]));
        assert_eq!(came, size + sent, "seed {seed}");
    }
    assert!(began.elapsed() <= pauses.at_most, "seed {seed}: a connection of HTTP/1.1 waited for nobody");
    drop((read, write));
    let _ = served.await;
}

/// The length of the next answer's body, in whichever framing. Pauses after the head.
async fn receive(read: &mut (impl AsyncBufRead + Unpin), pauses: bool) -> usize {
    let (mut length, mut line) = (None, String::new());
    loop {
        line.clear();
        read.read_line(&mut line).await.expect("a head");
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok(),
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    pause(pauses).await;
    if let Some(length) = length {
        read.read_exact(&mut vec![0; length]).await.expect("a body");
        return length;
    }
    let mut came = 0;
    loop {
        line.clear();
        read.read_line(&mut line).await.expect("a chunk");
        let size = usize::from_str_radix(line.trim_end(), 16).expect("the size of a chunk");
        read.read_exact(&mut vec![0; size + 2]).await.expect("a chunk");
        if size == 0 {
            return came;
        }
        came += size;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http2_that_waits_is_woken() {
    for seed in seeds(80) {
        play_http2(seed, Carried::Clear).await;
    }
}

/// The client opens the window of the answer again only when it has all of the answer.
#[tokio::test(start_paused = true)]
async fn an_answer_of_http2_that_fills_its_window_ends() {
    for seed in seeds(20) {
        let mut dice = TestRng(seed);
        let (client, served) = connect(Version::HTTP_2, Carried::Clear, &mut dice).await;
        let size = dice.of(&[1, 5000, 60_000]);
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(size as u32);
        let (mut sender, connection) = builder.handshake::<_, Bytes>(client).await.expect("a handshake");
        let (driven, began) = (tokio::spawn(connection), Instant::now());
        let request = Request::get(format!("http://h/{size}")).body(()).expect("a request");
        let (answer, _) = sender.send_request(request, true).expect("a stream");
        let (mut answer, mut came) = (answer.await.expect("an answer").into_body(), 0);
        while let Some(data) = answer.data().await {
            came += data.unwrap_or_else(|error| panic!("seed {seed}: {error}")).len();
        }
        assert_eq!((came, began.elapsed()), (size, Duration::ZERO), "seed {seed}");
        drop((sender, answer));
        let _ = driven.await;
        let _ = served.await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http2_over_tls_that_waits_is_woken() {
    for seed in seeds(15) {
        play_http2(seed, Carried::Tls).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http1_that_waits_is_woken() {
    for seed in seeds(80) {
        play_http1(seed, Carried::Clear).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http1_over_tls_that_waits_is_woken() {
    for seed in seeds(15) {
        play_http1(seed, Carried::Tls).await;
    }
}

/// The end of a tunnel: sends so many bytes and the end, and counts what comes until the other end.
async fn talk(end: DuplexStream, size: usize, piece: usize) -> usize {
    let (mut read, mut write) = tokio::io::split(end);
    let send = async {
        let bytes = vec![b'x'; size];
        for part in bytes.chunks(piece) {
            write.write_all(part).await.expect("a tunnel");
        }
        write.shutdown().await.expect("a tunnel");
    };
    let receive = async {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).await.expect("a tunnel");
        bytes.len()
    };
    tokio::join!(send, receive).1
}

/// A tunnel, as a WebSocket has it: both sides send at the same time, and end when they like.
async fn play_tunnel(seed: u64) {
    let mut dice = TestRng(seed);
    let ((client, mut down), (upstream, mut up)) = (pair(&mut dice), pair(&mut dice));
    let early = vec![b'x'; dice.of(&[0, 1, 5000])];
    let mut directions = Directions { up: Direction::new(Bytes::new()), down: Direction::new(early.clone().into()) };
    let sizes = [(); 2].map(|()| dice.of(&[0, 1, 5000, 200_000, 2_000_000]));
    let pieces = [(); 2].map(|()| dice.of(&[1000, 64 << 10, 1 << 20]));
    let copied = poll_fn(|cx| directions.poll_copy(&mut down, &mut up, Poll::Ready(Ok(())), cx));
    let all = async { tokio::join!(copied, talk(client, sizes[0], pieces[0]), talk(upstream, sizes[1], pieces[1])) };
    // A timer that the clock can move on to: the tunnel itself has none.
    let ended = tokio::time::timeout(Duration::from_secs(1), all).await;
    let (stopped, of_upstream, of_client) = ended.unwrap_or_else(|_| panic!("seed {seed}: a tunnel waited for nobody"));
    assert!(matches!(stopped.ending(), TunnelEnd::Closed(Ending::Whole)), "seed {seed}");
    assert_eq!((of_upstream, of_client), (sizes[1] + early.len(), sizes[0]), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_waits_is_woken() {
    for seed in seeds(40) {
        play_tunnel(seed).await;
    }
}
