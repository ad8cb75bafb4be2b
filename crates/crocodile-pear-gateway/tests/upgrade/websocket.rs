//! WebSocket through the gateway, with a client and a server that are not its own.

use std::time::Instant;

use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response as Agreed;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};

use crate::stage::gateway::Gateway;
use crate::stage::served::Served;
use crate::upgrade::scene::Scene;

type Socket = WebSocketStream<TcpStream>;

/// The sizes of frames: the smallest, those about the steps of their length field, those about reads and buffers.
const SIZES: [usize; 20] = [
    0,
    1,
    125,
    126,
    127,
    128,
    1000,
    4095,
    4096,
    4097,
    16_383,
    16_384,
    32_768,
    65_535,
    65_536,
    65_537,
    100_000,
    262_144,
    3,
    1 << 20,
];

/// A gateway and the server behind it, which sends back every message, and says how connections were closed.
struct Echo {
    gateway: Gateway,
    closed: mpsc::UnboundedReceiver<Option<CloseFrame>>,
    _served: Served,
}

impl Echo {
    async fn new(lines: &str) -> Self {
        let Scene { gateway, listener, .. } = Scene::new("upgrade: websocket", lines);
        let (closes, closed) = mpsc::unbounded_channel();
        let served = Served::begin_on(listener, move |stream| echo(stream, closes.clone()));
        Echo { gateway, closed, _served: served }
    }

    async fn connect(&self) -> (Socket, Agreed) {
        let mut request = "ws://gateway.test/chat".into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "chat.v1, chat.v2".parse().unwrap());
        let stream = TcpStream::connect(self.gateway.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        client_async(request, stream).await.unwrap()
    }
}

async fn echo(stream: TcpStream, closes: mpsc::UnboundedSender<Option<CloseFrame>>) {
    #[expect(clippy::result_large_err, reason = "the handshake asks for it")]
    let choose = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        assert_eq!(request.uri().path(), "/v1/room");
        if request.headers().contains_key("sec-websocket-protocol") {
            response.headers_mut().insert("sec-websocket-protocol", "chat.v2".parse().unwrap());
        }
        Ok(response)
    };
    let mut socket = accept_hdr_async(stream, choose).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) if text.as_str() == "leave" => {
                let frame = CloseFrame { code: CloseCode::Away, reason: "restart".into() };
                socket.close(Some(frame)).await.unwrap();
            }
            Message::Text(_) | Message::Binary(_) => socket.send(message).await.unwrap(),
            Message::Close(frame) => drop(closes.send(frame)),
            _ => {}
        }
    }
}

/// Message `number` of a connection.
fn message(connection: usize, number: usize) -> Message {
    let size = SIZES[(connection + number) % SIZES.len()];
    let byte = |at: usize| (at ^ (at >> 8) ^ connection ^ (number << 3)) as u8;
    match (connection + number) % 3 {
        0 => Message::text((0..size).map(|at| char::from(b' ' + byte(at) % 90)).collect::<String>()),
        _ => Message::binary((0..size).map(byte).collect::<Vec<u8>>()),
    }
}

/// Sends messages one by one, a ping behind each, and looks at what comes back; then closes. Answers how many bytes came.
async fn converse(mut socket: Socket, connection: usize, messages: usize) -> usize {
    let mut bytes = 0;
    for number in 0..messages {
        let sent = message(connection, number);
        let ping = Bytes::from(number.to_string());
        socket.feed(sent.clone()).await.unwrap();
        socket.send(Message::Ping(ping.clone())).await.unwrap();
        let (mut echoed, mut answered) = (false, false);
        while !(echoed && answered) {
            match socket.next().await.unwrap().unwrap() {
                Message::Pong(pong) => answered = pong == ping,
                came => {
                    assert!(came == sent, "message {number} of connection {connection} came back as another");
                    bytes += came.len();
                    echoed = true;
                }
            }
        }
    }
    let frame = CloseFrame { code: CloseCode::Library(4000 + (connection % 1000) as u16), reason: "done".into() };
    socket.close(Some(frame.clone())).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(Some(frame)));
    assert!(socket.next().await.is_none());
    bytes
}

async fn many(connections: usize, messages: usize) {
    let mut echo = Echo::new("").await;
    let sockets = join_all((0..connections).map(|_| echo.connect())).await;
    let since = Instant::now();
    let talks = sockets.into_iter().enumerate().map(|(connection, (socket, agreed))| {
        assert_eq!(agreed.headers()["sec-websocket-protocol"], "chat.v2");
        tokio::spawn(converse(socket, connection, messages))
    });
    let bytes: usize = join_all(talks).await.into_iter().map(Result::unwrap).sum();
    let mut codes = Vec::new();
    for _ in 0..connections {
        codes.push(u16::from(echo.closed.recv().await.unwrap().unwrap().code));
    }
    codes.sort_unstable();
    let mut wanted: Vec<u16> = (0..connections).map(|connection| 4000 + (connection % 1000) as u16).collect();
    wanted.sort_unstable();
    assert_eq!(codes, wanted);
    let (time, size) = (since.elapsed(), bytes >> 20);
    println!("{connections} connections x {messages} messages: {size} MiB came back unchanged in {time:.1?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_comes_back_as_it_was_sent() {
    many(50, 40).await;
}

#[tokio::test]
async fn fragments_stay_what_they_are_and_pings_come_between_them() {
    let echo = Echo::new("").await;
    let (mut socket, _) = echo.connect().await;
    let fragment = |text: &'static str, kind, last| Message::Frame(Frame::message(text, OpCode::Data(kind), last));
    for part in [
        fragment("one ", Data::Text, false),
        Message::Ping(Bytes::from_static(b"between")),
        fragment("", Data::Continue, false),
        fragment("two", Data::Continue, true),
    ] {
        socket.send(part).await.unwrap();
    }
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"between")));
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("one two"));
}

#[tokio::test]
async fn close_codes_come_from_either_side() {
    let mut echo = Echo::new("").await;
    let (mut socket, _) = echo.connect().await;
    socket.close(None).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(None));
    assert!(socket.next().await.is_none());
    assert_eq!(echo.closed.recv().await.unwrap(), None);

    let (mut socket, _) = echo.connect().await;
    socket.send(Message::text("leave")).await.unwrap();
    let frame = CloseFrame { code: CloseCode::Away, reason: "restart".into() };
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(Some(frame.clone())));
    assert!(socket.next().await.is_none());
    assert_eq!(echo.closed.recv().await.unwrap(), Some(frame));
}

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn a_thousand_connections() {
    many(setting("CONNECTIONS", 1000), setting("MESSAGES", 100)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn what_a_connection_costs_that_rests() {
    let connections = setting("CONNECTIONS", 1000);
    let echo = Echo::new("").await;
    // What is there once, whoever comes, is there before the count begins.
    let (first, _) = echo.connect().await;
    converse(first, 0, SIZES.len()).await;
    let before = echo.gateway.resident();
    let mut sockets: Vec<Socket> =
        join_all((0..connections).map(|_| echo.connect())).await.into_iter().map(|(socket, _)| socket).collect();
    let fresh = (echo.gateway.resident() - before) / connections as u64;
    for (connection, socket) in sockets.iter_mut().enumerate() {
        for number in 0..SIZES.len() {
            let sent = message(connection, number);
            socket.send(sent.clone()).await.unwrap();
            assert!(socket.next().await.unwrap().unwrap() == sent);
        }
    }
    let used = (echo.gateway.resident() - before) / connections as u64;
    println!(
        "{connections} connections at rest: {fresh} B each before their first message, {used} B after 20 of up to 1 MiB"
    );
    assert!(used <= 16 << 10, "{used}");
}
