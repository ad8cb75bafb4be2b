//! gRPC through the gateway: the frames that gRPC libraries send, between a client and a server made with `h2`.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::Reason;
use h2::client::SendRequest;
use h2::server::Builder;
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;

use crate::http2::scene::Scene;
use crate::stage::PATIENCE;
use crate::stage::http2::{Asked, converse};
use crate::stage::served::Served;

/// A server that does as the method says.
async fn answer((request, mut respond): Asked) {
    let (head, mut body) = request.into_parts();
    let named = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none").to_owned();
    let asked = format!("{} {} {}", named("te"), named("content-type"), named("grpc-timeout"));
    let reply =
        Response::builder().header("content-type", "application/grpc").header("x-asked", asked).body(()).unwrap();
    match head.uri.path() {
        "/s.S/fail" => {
            let mut reply = reply;
            reply.headers_mut().extend(status("9", "no"));
            let _ = respond.send_response(reply, true);
        }
        "/s.S/hang" => {
            let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
        }
        "/s.S/break" => {
            let mut send = respond.send_response(reply, false).unwrap();
            let _ = send.send_data(message("first"), false);
            tokio::time::sleep(Duration::from_millis(50)).await;
            send.send_reset(Reason::INTERNAL_ERROR);
        }
        // A server that takes the end of a call from an empty frame, as grpc-go's does.
        "/s.S/apart" => {
            let mut reply = reply;
            let ends = if body.is_end_stream() { "with its head" } else { "apart" };
            reply.headers_mut().insert("x-ends", ends.parse().unwrap());
            let mut send = respond.send_response(reply, false).unwrap();
            while let Some(Ok(_)) = body.data().await {}
            let _ = send.send_trailers(status("0", "fine"));
        }
        "/s.S/measured" => {
            let mut reply = reply;
            reply.headers_mut().insert("content-length", "6".parse().unwrap());
            let mut send = respond.send_response(reply, false).unwrap();
            let _ = send.send_data(message("x"), false);
            let _ = send.send_trailers(status("0", "fine"));
        }
        // Each message comes back as it comes.
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

/// A message as it stands on a stream: not compressed, with its length.
fn message(text: &str) -> Bytes {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[0], &length[..], text.as_bytes()].concat().into()
}

struct Stage {
    _scene: Scene,
    _served: Served,
    client: SendRequest<Bytes>,
}

async fn stage(name: &str) -> Stage {
    let served = Served::begin(|stream| converse(stream, Builder::new(), answer));
    let up = served.address;
    let scene = Scene::with(name, |_| {
        format!(
            "listen: 127.0.0.1:0\nupstreams:\n  s: {{ url: 'http://{up}', protocol: http2, forward: all }}\n  \
             dead: {{ url: 'http://127.0.0.1:1', protocol: http2, forward: all }}\nendpoints:\n  'POST /s.S/{{method}}': s \
             /s.S/{{method}}\n  'POST /dead.S/{{method}}': dead /dead.S/{{method}}\n"
        )
    });
    let stream = TcpStream::connect(scene.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    Stage { _scene: scene, _served: served, client }
}

fn call(method: &str, timeout: Option<&str>) -> Request<()> {
    let mut request = Request::post(format!("http://h{method}"))
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    request.body(()).unwrap()
}

impl Stage {
    /// Sends one message there; returns head, body and trailers of the answer.
    async fn unary(&mut self, method: &str, timeout: Option<&str>) -> (HeaderMap, Bytes, HeaderMap) {
        let (answer, mut send) = self.client.send_request(call(method, timeout), false).unwrap();
        send.send_data(message("hello"), true).unwrap();
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), 200);
        let (head, mut body) = answer.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(data) = body.data().await {
            bytes.extend_from_slice(&data.unwrap());
        }
        (head.headers, bytes.freeze(), body.trailers().await.unwrap().unwrap_or_default())
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("in time") });
}

#[test]
fn a_call_and_its_status_pass_through() {
    run(async {
        let mut stage = stage("grpc_unary").await;
        let (head, body, trailers) = stage.unary("/s.S/echo", Some("10S")).await;
        assert_eq!(head["x-asked"], "trailers application/grpc+proto 10S");
        assert_eq!((body, trailers), (message("hello"), status("0", "fine")));
        let (head, body, _) = stage.unary("/s.S/fail", None).await;
        assert_eq!(
            (&head["grpc-status"], &head["grpc-message"], body.len()),
            (&"9".parse().unwrap(), &"no".parse().unwrap(), 0)
        );
        let (_, body, trailers) = stage.unary("/s.S/measured", None).await;
        assert_eq!((body, trailers), (message("x"), status("0", "fine")));
    });
}

/// A stream without a message (`empty_stream` of gRPC's own cases).
#[test]
fn a_call_that_ends_apart_from_its_head_ends_so_at_the_server() {
    run(async {
        let mut stage = stage("grpc_apart").await;
        for together in [true, false] {
            let (answer, mut send) = stage.client.send_request(call("/s.S/apart", None), false).unwrap();
            if !together {
                // The head has left before its end.
                stage.unary("/s.S/echo", None).await;
            }
            send.send_data(Bytes::new(), true).unwrap();
            let answer = answer.await.unwrap();
            assert_eq!(answer.headers()["x-ends"], "apart", "together: {together}");
            let trailers = answer.into_body().trailers().await.unwrap();
            assert_eq!(trailers, Some(status("0", "fine")));
        }
        let (answer, _) = stage.client.send_request(call("/s.S/apart", None), true).unwrap();
        assert_eq!(answer.await.unwrap().headers()["x-ends"], "with its head");
    });
}

#[test]
fn failures_of_the_gateway_are_statuses_of_grpc() {
    run(async {
        let mut stage = stage("grpc_failures").await;
        for (method, timeout, code) in
            [("/s.S/hang", Some("100m"), "4"), ("/dead.S/any", None, "14"), ("/nowhere/any", None, "12")]
        {
            let (head, body, _) = stage.unary(method, timeout).await;
            assert_eq!((head["grpc-status"].to_str().unwrap(), body.len()), (code, 0), "{method}");
            assert_eq!(head["content-type"], "application/grpc", "{method}");
            assert!(!head["grpc-message"].is_empty(), "{method}");
        }
        let (head, body, trailers) = stage.unary("/s.S/break", None).await;
        assert!(!head.contains_key("grpc-status"));
        assert_eq!((body, trailers["grpc-status"].to_str().unwrap()), (message("first"), "14"));
    });
}

#[test]
fn messages_pass_in_both_directions_one_for_one() {
    run(async {
        let mut stage = stage("grpc_streams").await;
        let (answer, mut send) = stage.client.send_request(call("/s.S/echo", None), false).unwrap();
        // The head comes before anything was sent.
        let mut body = answer.await.unwrap().into_body();
        for number in 0..100 {
            let sent = message(&format!("message {number}"));
            send.send_data(sent.clone(), false).unwrap();
            let mut came = BytesMut::new();
            while came.len() < sent.len() {
                let data = body.data().await.unwrap().unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                came.extend_from_slice(&data);
            }
            assert_eq!(came, sent);
        }
        send.send_data(Bytes::new(), true).unwrap();
        assert!(body.data().await.is_none());
        assert_eq!(body.trailers().await.unwrap(), Some(status("0", "fine")));
    });
}
