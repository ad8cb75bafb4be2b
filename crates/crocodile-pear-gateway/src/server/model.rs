//! The servers of HTTP/1.1 and HTTP/2 over a socket that is only played: it takes and gives as many bytes as chance has it.
//!
//! The clock stands still while any task can run. A connection that waits for something of which nobody will wake it moves
//! the clock on to its next timer: that is what these tests look for.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::error::Error;
use crocodile_pear::http::http1::request::Refusal;
use crocodile_pear::message::body::Body;
use crocodile_pear::request::facts::ClientAddress;
use h2::client::SendRequest;
use http::{HeaderValue, Request, Response, Version};
use http_body::Frame;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::handler::Handler;
use super::idle::IdleConnections;
use super::io::Io;
use super::listen::Entry;
use super::played::{Dice, Played};
use super::reply::Reply;
use super::request::{ClientRequest, Connection};
use super::settings::Settings;
use super::shared::Core;
use super::{http1, http2};

/// A body in pieces of any size, each of which may have to be waited for.
struct Pieces {
    left: usize,
    piece: usize,
    waits: usize,
    dice: Dice,
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
struct Sized(Mutex<Dice>);

impl Handler for Sized {
    async fn handle(&self, request: ClientRequest) -> Reply {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        let left: usize = request.target.path()[1..].parse().expect("a size");
        let sent = request.body.collect(1 << 24).await.expect("the client's body");
        let piece = dice.of(&[1 << 10, 16 << 10, 64 << 10, 256 << 10]);
        let waits = dice.of(&[3, 20, usize::MAX]);
        let body = match dice.below(4) {
            0 => Body::Bytes(vec![b'x'; left + sent.len()].into()),
            _ => Body::Pulled(Box::pin(Pieces { left: left + sent.len(), piece, waits, dice })),
        };
        Response::new(body).into()
    }

    fn refuse(&self, refusal: Refusal, _: Option<HeaderValue>, _: &Arc<Connection>) -> Reply {
        panic!("refused: {}", refusal.detail);
    }
}

/// A connection to a server of one of the two protocols.
fn connect(over: Version, dice: &mut Dice) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = tokio::io::duplex(dice.of(&[1 << 10, 64 << 10, 1 << 20, 8 << 20]));
    let (waits, most) = (dice.of(&[2, 5, 50, usize::MAX]), dice.of(&[100, 4 << 10, 64 << 10, 1 << 20]));
    let played = Io::played(Played { stream: server, dice: Dice(dice.next()), waits, most });
    let core = Arc::new(Core::new(
        Settings::default(),
        Sized(Mutex::new(Dice(dice.next()))),
        None,
        (0, IdleConnections::new(1, None)),
    ));
    let idle = core.idle.begin(0);
    let connection = Arc::new(Connection::new(ClientAddress::Unix, Arc::new(Entry::default())));
    let served = tokio::spawn(async move {
        match over {
            Version::HTTP_2 => http2::serve(played, Bytes::new(), connection, core, &idle).await,
            _ => http1::serve(played, connection, core, &idle).await,
        }
    });
    (client, served)
}

/// Fetches an answer over HTTP/2. Returns the number of its bytes.
async fn fetch(mut client: SendRequest<Bytes>, size: usize, sent: usize) -> usize {
    let request = Request::post(format!("http://h/{size}")).body(()).expect("a request");
    let (answer, mut body) = client.send_request(request, sent == 0).expect("a stream");
    let mut left = sent;
    while left > 0 {
        body.reserve_capacity(left);
        let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await.expect("a window").expect("a window");
        left -= room;
        body.send_data(vec![b'y'; room].into(), left == 0).expect("the body");
    }
    let mut answer = answer.await.expect("an answer").into_body();
    let mut came = 0;
    while let Some(data) = answer.data().await {
        let data = data.expect("the body");
        came += data.len();
        answer.flow_control().release_capacity(data.len()).expect("what came");
    }
    came
}

/// A connection of HTTP/2 with some requests side by side.
async fn play_http2(seed: u64) {
    let mut dice = Dice(seed);
    let (client, served) = connect(Version::HTTP_2, &mut dice);
    let windows = [1000, 65_535, 1 << 20, 32 << 20, (1 << 31) - 1];
    let mut builder = h2::client::Builder::new();
    let window = dice.of(&windows);
    builder.initial_window_size(window).initial_connection_window_size(dice.of(&windows).max(65_535));
    let (sender, connection) = builder.handshake::<_, Bytes>(client).await.expect("a handshake");
    let driven = tokio::spawn(connection);
    let began = Instant::now();
    let calls = (0..1 + dice.below(6)).map(|_| {
        let (size, sent) = (dice.of(&[0, 1, 5000, 200_000, 2_000_000]), dice.of(&[0, 0, 1, 300_000]));
        // As many frames as a client may send.
        let size = if window > 1000 { size } else { size.min(5000) };
        let sender = sender.clone();
        async move { (size + sent, fetch(sender, size, sent).await) }
    });
    for (wanted, came) in futures_util::future::join_all(calls.collect::<Vec<_>>()).await {
        assert_eq!(came, wanted, "seed {seed}");
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "seed {seed}: a connection of HTTP/2 waited for nobody");
    drop(sender);
    let _ = driven.await;
    let _ = served.await;
}

/// A connection of HTTP/1.1 with some requests, one after the other.
async fn play_http1(seed: u64) {
    let mut dice = Dice(seed);
    let (client, served) = connect(Version::HTTP_11, &mut dice);
    let (read, mut write) = tokio::io::split(client);
    let mut read = BufReader::new(read);
    let began = Instant::now();
    for _ in 0..1 + dice.below(4) {
        let (size, sent) = (dice.of(&[0, 1, 5000, 200_000, 2_000_000]), dice.of(&[0, 0, 1, 300_000]));
        let head = format!("POST /{size} HTTP/1.1\r\nhost: h\r\ncontent-length: {sent}\r\n\r\n");
        let body = vec![b'y'; sent];
        let ask = async { write.write_all(&[head.as_bytes(), &body].concat()).await.expect("a request") };
        let ((), came) = tokio::join!(ask, receive(&mut read));
        assert_eq!(came, size + sent, "seed {seed}");
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "seed {seed}: a connection of HTTP/1.1 waited for nobody");
    drop((read, write));
    let _ = served.await;
}

/// The length of the next answer's body, in whichever framing.
async fn receive(read: &mut (impl AsyncBufRead + Unpin)) -> usize {
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

/// So many connections are played; `PLAYED` says another number.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("PLAYED").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(200)
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http2_that_waits_is_woken() {
    for seed in seeds() {
        play_http2(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http1_that_waits_is_woken() {
    for seed in seeds() {
        play_http1(seed).await;
    }
}
