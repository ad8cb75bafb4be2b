//! gRPC-Web through the gateway: calls as browsers make them, over HTTP/1.1, to a server of gRPC.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use h2::Reason;
use h2::server::Builder;
use http::{HeaderMap, Response};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::http2::scene::Scene;
use crate::stage::client::{Client, Head, Piece};
use crate::stage::http2::{Asked, converse};
use crate::stage::served::Served;

/// A server that does as the method says.
async fn answer((request, mut respond): Asked, go_on: Arc<Notify>) {
    let (head, mut body) = request.into_parts();
    let named = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none").to_owned();
    let asked = format!("{} {}", named("te"), named("content-type"));
    let mut reply =
        Response::builder().header("content-type", "application/grpc+proto").header("x-asked", asked).body(()).unwrap();
    match head.uri.path() {
        "/s.S/fail" => {
            reply.headers_mut().extend(status("9", "no"));
            let _ = respond.send_response(reply, true);
        }
        "/s.S/break" => {
            let mut send = respond.send_response(reply, false).unwrap();
            let _ = send.send_data(message("first"), false);
            go_on.notified().await;
            send.send_reset(Reason::INTERNAL_ERROR);
        }
        "/s.S/page" => {
            reply.headers_mut().insert("content-type", "text/html".parse().unwrap());
            let _ = respond.send_response(reply, false).unwrap().send_data("<p>".into(), true);
        }
        "/s.S/stream" => {
            let mut send = respond.send_response(reply, false).unwrap();
            let _ = send.send_data(message("first"), false);
            go_on.notified().await;
            let _ = send.send_data(message("second"), false);
            let _ = send.send_trailers(status("0", "fine"));
        }
        // The message comes back.
        _ => {
            let mut send = respond.send_response(reply, false).unwrap();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
                let _ = send.send_data(data, false);
            }
            let _ = send.send_trailers(status("0", "fine"));
        }
    }
}

fn status(code: &str, message: &str) -> HeaderMap {
    let fields = [("grpc-status", code), ("grpc-message", message)];
    fields.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn frame(flag: u8, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[flag], &length[..], text.as_bytes()].concat()
}

fn message(text: &str) -> Bytes {
    frame(0, text).into()
}

fn ending(code: &str, message: &str) -> Vec<u8> {
    frame(0x80, &format!("grpc-status: {code}\r\ngrpc-message: {message}\r\n"))
}

struct Stage {
    scene: Scene,
    _served: Served,
    _runtime: Runtime,
    go_on: Arc<Notify>,
}

impl Stage {
    fn new(name: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let go_on = Arc::new(Notify::new());
        let given = go_on.clone();
        let served = runtime.block_on(async {
            Served::begin(move |stream| {
                let given = given.clone();
                converse(stream, Builder::new(), move |asked| answer(asked, given.clone()))
            })
        });
        let up = served.address;
        let scene = Scene::with(&format!("grpc_web_{name}"), |_| {
            format!(
                "listen: 127.0.0.1:0\ngrpc_web: on\nupstreams:\n  s: {{ url: 'http://{up}', protocol: http2, forward: all }}\n  \
                 dead: {{ url: 'http://127.0.0.1:1', protocol: http2 }}\nendpoints:\n  'POST /s.S/{{method}}': s \
                 /s.S/{{method}}\n  'POST /dead.S/{{method}}': dead /dead.S/{{method}}\n  'POST /off': {{ grpc_web: off, \
                 pipeline: [request: s /s.S/echo] }}\n"
            )
        });
        Stage { scene, _served: served, _runtime: runtime, go_on }
    }

    fn ask(&self, path: &str, media: &str, body: &[u8]) -> (Client, Head) {
        let mut client = Client::connect(self.scene.address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: {media}\r\nx-grpc-web: 1\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.ask("POST", &[head.as_bytes(), body].concat()).unwrap();
        let head = client.head().unwrap();
        (client, head)
    }

    fn whole(&self, path: &str, media: &str, body: &[u8]) -> (Head, Vec<u8>) {
        let (mut client, head) = self.ask(path, media, body);
        let body = rest(&mut client);
        (head, body)
    }
}

fn rest(client: &mut Client) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        match client.piece().unwrap() {
            Piece::Data(data) => body.extend(data),
            Piece::End(_) => return body,
            Piece::Broken(why) => panic!("{why}"),
        }
    }
}

/// Each piece is encoded for itself.
fn decoded(body: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(body).unwrap();
    let parts = text.as_bytes().chunks(4).map(|group| BASE64_STANDARD.decode(group).unwrap());
    parts.flatten().collect()
}

#[test]
fn a_call_of_a_browser_is_a_call_of_grpc() {
    let stage = Stage::new("binary");
    let (head, body) = stage.whole("/s.S/echo", "application/grpc-web+proto", &message("hello"));
    assert_eq!((head.status, head.field("content-type")), (200, Some("application/grpc-web+proto")));
    assert_eq!(head.field("x-asked"), Some("trailers application/grpc+proto"));
    assert_eq!(body, [message("hello").to_vec(), ending("0", "fine")].concat());
    // Calls of another kind pass as they are.
    let (head, body) = stage.whole("/s.S/echo", "text/plain", b"hello");
    assert_eq!((head.field("x-asked"), body.as_slice()), (Some("none text/plain"), b"hello".as_slice()));
    let (head, _) = stage.whole("/off", "application/grpc-web+proto", &message("hello"));
    assert_eq!(head.field("x-asked"), Some("none application/grpc-web+proto"));
}

#[test]
fn a_call_in_base64_is_decoded_piece_by_piece() {
    let stage = Stage::new("text");
    let (first, second) = (message("a"), message("bcd"));
    let encoded = [BASE64_STANDARD.encode(&first), BASE64_STANDARD.encode(&second)].concat();
    let (head, body) = stage.whole("/s.S/echo", "application/grpc-web-text", encoded.as_bytes());
    assert_eq!(head.field("content-type"), Some("application/grpc-web-text+proto"));
    assert_eq!(decoded(&body), [first.to_vec(), second.to_vec(), ending("0", "fine")].concat());
    for broken in ["AAAA!AAA", "AAAAA", "=AAA"] {
        let (_, body) = stage.whole("/s.S/echo", "application/grpc-web-text", broken.as_bytes());
        let body = decoded(&body);
        assert!(body.starts_with(&[0x80]), "{broken}: {}", body.escape_ascii());
        assert!(body.windows(14).any(|part| part == b"grpc-status: 3"), "{broken}: {}", body.escape_ascii());
    }
}

#[test]
fn messages_flow_on_before_the_answer_is_whole() {
    let stage = Stage::new("stream");
    let (mut client, _) = stage.ask("/s.S/stream", "application/grpc-web", &message(""));
    let Piece::Data(first) = client.piece().unwrap() else { panic!("no message") };
    assert_eq!(first, message("first"));
    stage.go_on.notify_one();
    assert_eq!(rest(&mut client), [message("second").to_vec(), ending("0", "fine")].concat());
}

#[test]
fn a_failure_is_the_last_frame() {
    let stage = Stage::new("failures");
    let (head, body) = stage.whole("/s.S/fail", "application/grpc-web", &message(""));
    assert_eq!((head.status, head.field("grpc-status"), body), (200, None, ending("9", "no")));
    for (path, code) in [("/dead.S/x", "14"), ("/s.S/page", "14")] {
        let (head, body) = stage.whole(path, "application/grpc-web", &message(""));
        assert_eq!((head.status, head.field("content-type")), (200, Some("application/grpc-web")));
        let wanted = format!("grpc-status: {code}\r\n");
        assert!(body.starts_with(&[0x80]) && body[5..].starts_with(wanted.as_bytes()), "{}", body.escape_ascii());
    }
    let (mut client, _) = stage.ask("/s.S/break", "application/grpc-web", &message(""));
    let Piece::Data(first) = client.piece().unwrap() else { panic!("no message") };
    assert_eq!(first, message("first"));
    stage.go_on.notify_one();
    let body = rest(&mut client);
    assert!(body.starts_with(&[0x80]) && body[5..].starts_with(b"grpc-status: 14"), "{}", body.escape_ascii());
}
