//! Extended CONNECT (RFC 8441): a stream of HTTP/2 here, a connection of HTTP/1.1 there.

use std::future::poll_fn;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::scene::Scene;
use crate::stage::PATIENCE;

/// A server that agrees, and sends back what it reads; or declines, where the path says so.
async fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
            if head.starts_with("get /no ") {
                return stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
            }
            if !head.contains("\r\nupgrade: websocket\r\n") {
                return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain").await.unwrap();
            }
            assert!(head.starts_with("get /chat ") && head.contains("\r\nconnection: upgrade\r\n"), "{head}");
            assert!(head.contains("\r\nsec-websocket-version: 13\r\n"), "{head}");
            let key = head.split("sec-websocket-key: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            assert_eq!(key.map(str::len), Some(24), "{head}");
            let agreed = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: x\r\nsec-websocket-protocol: chat\r\n\r\nhello";
            stream.write_all(agreed.as_bytes()).await.unwrap();
            let (mut from, mut to) = stream.split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        });
    }
}

async fn stage(name: &str) -> (Scene, SendRequest<Bytes>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let up = listener.local_addr().unwrap();
    tokio::spawn(serve(listener));
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
