//! Extended CONNECT (RFC 8441): a stream of HTTP/2 here, a connection of HTTP/1.1 there.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::http2::scene::Scene;
use crate::stage::PATIENCE;
use crate::stage::asked::Asked;
use crate::stage::served::Served;
use crate::stage::shop::answer;

/// Agrees, and sends back what it reads; or declines, where the path says so.
async fn serve(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let asked = Asked::receive(&mut stream).await?.expect("a request");
    if asked.target == "/no" {
        return stream.write_all(&answer(403, "", "no")).await;
    }
    if asked.field("upgrade") != "websocket" {
        return stream.write_all(&answer(200, "", "plain")).await;
    }
    assert_eq!((&*asked.call(), asked.field("connection")), ("GET /chat", "upgrade"), "{}", asked.head);
    assert_eq!(asked.field("sec-websocket-version"), "13", "{}", asked.head);
    assert_eq!(asked.field("sec-websocket-key").len(), 24, "{}", asked.head);
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: x\r\nsec-websocket-protocol: chat\r\n\r\nhello";
    stream.write_all(agreed.as_bytes()).await?;
    let (mut from, mut to) = tokio::io::split(stream);
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}

async fn stage(name: &str) -> (Scene, SendRequest<Bytes>) {
    let up = Served::begin(serve).stay();
    let scene = Scene::with(name, |_| {
        format!(
            "listen: 127.0.0.1:0\nupstreams:\n  s: 'http://{up}'\nendpoints:\n  GET /chat: {{ upgrade: websocket, pipeline: [request: s \
             /chat] }}\n  GET /no: {{ upgrade: websocket, pipeline: [request: s /no] }}\n  GET /plain: s /plain\n"
        )
    });
    let stream = TcpStream::connect(scene.address).await.unwrap();
    let (client, mut connection) = h2::client::handshake(stream).await.unwrap();
    // The server says in its settings that it knows of this.
    let mut pings = connection.ping_pong().unwrap();
    tokio::spawn(connection);
    pings.ping(h2::Ping::opaque()).await.unwrap();
    assert!(client.is_extended_connect_protocol_enabled());
    (scene, client)
}

async fn ask(client: &mut SendRequest<Bytes>, path: &str) -> (Response<RecvStream>, SendStream<Bytes>) {
    let mut request = Request::builder().method("CONNECT").uri(format!("http://h{path}"));
    request = request.header("sec-websocket-version", "13");
    let mut request = request.body(()).unwrap();
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    let (answer, send) = client.send_request(request, false).unwrap();
    (answer.await.unwrap(), send)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("in time") });
}

#[test]
fn a_stream_becomes_a_tunnel_and_ends_on_both_sides() {
    run(async {
        let (_scene, mut client) = stage("websocket_tunnel").await;
        let (answer, mut send) = ask(&mut client, "/chat").await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["sec-websocket-protocol"], "chat");
        for unfit in ["upgrade", "connection", "sec-websocket-accept", "content-length"] {
            assert!(!answer.headers().contains_key(unfit), "{unfit}");
        }
        let mut body = answer.into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "hello");
        let long = "x".repeat(300_000);
        send.reserve_capacity(long.len());
        let (mut left, mut came) = (Bytes::from(long.clone()), 0);
        while came < long.len() {
            tokio::select! {
                room = poll_fn(|cx| send.poll_capacity(cx)), if !left.is_empty() => {
                    let room = room.unwrap().unwrap().min(left.len());
                    send.send_data(left.split_to(room), false).unwrap();
                }
                data = body.data() => {
                    let data = data.unwrap().unwrap();
                    body.flow_control().release_capacity(data.len()).unwrap();
                    came += data.len();
                }
            }
        }
        send.send_data(Bytes::new(), true).unwrap();
        while let Some(data) = body.data().await {
            assert_eq!(data.unwrap(), "");
        }
    });
}

#[test]
fn who_does_not_get_a_tunnel_is_told() {
    run(async {
        let (_scene, mut client) = stage("websocket_refused").await;
        assert_eq!(ask(&mut client, "/no").await.0.status(), StatusCode::FORBIDDEN);
        assert_eq!(ask(&mut client, "/plain").await.0.status(), StatusCode::NOT_IMPLEMENTED);
        assert_eq!(ask(&mut client, "/nowhere").await.0.status(), StatusCode::NOT_FOUND);
    });
}
