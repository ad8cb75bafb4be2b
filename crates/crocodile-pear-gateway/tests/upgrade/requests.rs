//! Which requests become tunnels, and what the upstream sees of them.

use crate::upgrade::scene::{ASK, Close, SWITCH, Scene};

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The request that the upstream receives when a client sends this one; it answers as one that changes nothing.
fn seen(scene: &Scene, request: &str) -> String {
    let mut client = scene.connect();
    client.send(request);
    let mut upstream = scene.accept();
    let head = upstream.head();
    upstream.send(ANSWER);
    let answer = client.head();
    assert!(answer.starts_with("HTTP/1.1 200 OK\n"), "{answer}");
    assert_eq!(client.exactly(2), b"ok");
    head
}

#[test]
fn the_upstream_is_asked_for_the_protocol_and_sees_how_it_is_agreed_on() {
    let scene = Scene::new("upgrade: websocket", "");
    let head = seen(
        &scene,
        "GET /chat?a=b HTTP/1.1\r\nhost: h\r\nConnection: Upgrade\r\nUpgrade: h2c, WebSocket\r\nSec-WebSocket-Key: k==\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Protocol: c\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\nOrigin: https://a.example\r\nCookie: secret\r\n\r\n",
    );
    assert!(head.starts_with("GET /v1/room?a=b HTTP/1.1\n"), "{head}");
    for line in [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-key: k==",
        "sec-websocket-version: 13",
        "sec-websocket-protocol: a, b",
        "sec-websocket-protocol: c",
        "sec-websocket-extensions: permessage-deflate",
        "origin: https://a.example",
    ] {
        assert_eq!(head.matches(&format!("\n{line}\n")).count(), 1, "{line} in {head}");
    }
    assert!(!head.contains("secret"), "{head}");
}

#[test]
fn what_is_not_allowed_is_a_plain_request() {
    let scene = Scene::new("upgrade: [websocket, tcp]", "");
    for request in [
        ASK.replace("/chat", "/plain"),
        ASK.replace("WebSocket", "h2c"),
        ASK.replace("WebSocket", "websocket/13"),
        ASK.replace("keep-alive, Upgrade", "keep-alive"),
        ASK.replace("HTTP/1.1", "HTTP/1.0").replace("keep-alive, ", ""),
    ] {
        let request = request.replace("\r\n\r\n", "\r\nsec-websocket-key: k==\r\n\r\n");
        // A client of HTTP/1.0 that is not kept sees the end of the connection.
        let head = seen(&scene, &request);
        assert!(!head.contains("upgrade") && !head.contains("websocket"), "{head}");
    }
    assert!(seen(&scene, &ASK.replace("WebSocket", "TCP")).contains("\nconnection: upgrade\nupgrade: tcp\n"));
}

#[test]
fn a_refusal_is_an_answer_and_the_client_may_ask_again() {
    let scene = Scene::new("upgrade: websocket", "");
    let mut client = scene.connect();
    client.send(ASK);
    let mut upstream = scene.accept();
    upstream.head();
    upstream.send("HTTP/1.1 403 Forbidden\r\ncontent-length: 3\r\nx-why: origin\r\n\r\nno!");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\n") && head.contains("\nx-why: origin\n"), "{head}");
    assert_eq!(client.exactly(3), b"no!");
    // Nobody else is given the connection on which the upstream was asked.
    assert_eq!(upstream.rest(), (vec![], Close::Clean));
    client.send(ASK);
    let mut upstream = scene.accept();
    upstream.head();
    upstream.send(SWITCH);
    let head = client.head();
    assert!(head.contains("\nupgrade: websocket\n") && head.contains("\nconnection: upgrade\n"), "{head}");
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
}

#[test]
fn a_101_that_nobody_asked_for_is_a_bad_gateway() {
    let scene = Scene::new("upgrade: websocket", "");
    for (request, answer) in [
        (ASK.replace("/chat", "/plain"), SWITCH.to_owned()),
        (ASK.to_owned(), SWITCH.replace("websocket", "tcp")),
        (ASK.to_owned(), SWITCH.replace("upgrade: websocket\r\n", "")),
    ] {
        let mut client = scene.connect();
        client.send(request);
        let mut upstream = scene.accept();
        upstream.head();
        upstream.send(answer);
        assert!(client.head().starts_with("HTTP/1.1 502 Bad Gateway\n"));
        assert_eq!(upstream.rest().0, b"");
    }
}

#[test]
fn a_request_with_a_body_changes_its_protocol_when_the_body_is_whole() {
    let scene = Scene::new("upgrade: tcp", "");
    let ask = ASK.replace("GET", "POST").replace("WebSocket", "tcp");
    let ask = ask.replace("\r\n\r\n", "\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut client = scene.connect();
    client.send([&ask, "5\r\nhello\r\n"].concat());
    let mut upstream = scene.accept();
    assert!(upstream.head().contains("\ntransfer-encoding: chunked\n"));
    assert_eq!(upstream.exactly(10), b"5\r\nhello\r\n");
    client.send("0\r\n\r\nbeyond");
    assert_eq!(upstream.exactly(5), b"0\r\n\r\n");
    upstream.send(SWITCH.replace("websocket", "tcp"));
    client.head();
    assert_eq!(upstream.exactly(6), b"beyond");

    let mut client = scene.connect();
    client.send([&ask, "5\r\nhello\r\n"].concat());
    let mut upstream = scene.accept();
    upstream.head();
    upstream.send(SWITCH.replace("websocket", "tcp"));
    assert!(client.head().starts_with("HTTP/1.1 502 Bad Gateway\n"));
}
