//! Answers are whole, or visibly broken.

use std::net::Shutdown as Half;

use crocodile_pear_gateway::server::Settings;

use crate::server::scene::{Close, PATIENCE, Scene};

fn ask(scene: &Scene, request: &str) -> (String, Close) {
    let mut client = scene.connect();
    client.send(request);
    client.rest()
}

#[test]
fn a_failing_body_breaks_the_connection_behind_what_came_before() {
    let scene = Scene::new(Settings::default());
    for version in ["1.0", "1.1"] {
        let (answer, close) = ask(&scene, &format!("GET /fail HTTP/{version}\r\nhost: h\r\n\r\n"));
        assert!(answer.contains("first"), "{answer}");
        assert!(!answer.contains("0\r\n\r\n"), "{answer}");
        assert_eq!(close, Close::Reset);
    }
}

#[test]
fn a_body_of_another_length_than_promised_breaks_the_connection() {
    let scene = Scene::new(Settings::default());
    for path in ["/short", "/long", "/lie"] {
        let (_, close) = ask(&scene, &format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
        assert_eq!(close, Close::Reset, "{path}");
    }
}

#[test]
fn a_client_that_leaves_cancels_its_handler() {
    let scene = Scene::new(Settings::default());
    let next = "GET /next HTTP/1.1\r\nhost: h\r\n\r\n";
    // More than is read of requests that wait.
    let many = next.repeat(1000);
    for pipelined in ["", next, &many] {
        for half in [Half::Write, Half::Both] {
            let mut client = scene.connect();
            client.send(format!("GET /hang HTTP/1.1\r\nhost: h\r\n\r\n{pipelined}"));
            assert_eq!(scene.came.recv_timeout(PATIENCE), Ok("handler"));
            client.0.shutdown(half).unwrap();
            assert_eq!(scene.left.recv_timeout(PATIENCE), Ok("handler"));
            assert_eq!(scene.seen_of(&client), [""; 0]);
        }
    }
}

#[test]
fn a_client_that_leaves_cancels_the_body() {
    let scene = Scene::new(Settings::default());
    for path in ["/drip", "/endless"] {
        let mut client = scene.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
        client.until("\r\n\r\n");
        client.0.shutdown(Half::Write).unwrap();
        assert_eq!(scene.left.recv_timeout(PATIENCE), Ok("body"), "{path}");
    }
}

#[test]
fn http_1_0_gets_a_length_or_a_closing_end() {
    let scene = Scene::new(Settings::default());
    let (answer, close) = ask(&scene, "GET /chunks HTTP/1.0\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nonetwo"), "{answer}");
    assert!(!answer.contains("chunked"), "{answer}");
    assert_eq!(close, Close::Clean);
    let (answer, _) = ask(&scene, "GET /a HTTP/1.0\r\n\r\n");
    assert!(answer.contains("content-length: 9\r\n"), "{answer}");
}

#[test]
fn head_has_the_head_alone() {
    let scene = Scene::new(Settings::default());
    let close = "GET /a HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let (answer, _) = ask(&scene, &format!("HEAD /a HTTP/1.1\r\nhost: h\r\n\r\n{close}"));
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-length: 10"), "{head}");
    assert!(rest.starts_with("HTTP/1.1 200 OK"), "{rest}");
    let (answer, _) = ask(&scene, &format!("HEAD /chunks HTTP/1.1\r\nhost: h\r\n\r\n{close}"));
    assert_eq!(answer.matches("one").count(), 0, "{answer}");
}

#[test]
fn trailers_go_to_those_who_take_them() {
    let scene = Scene::new(Settings::default());
    for (te, end) in [("te: trailers\r\n", "0\r\nserver-timing: total;dur=1\r\n\r\n"), ("", "body\r\n0\r\n\r\n")] {
        let request = format!("GET /trailers HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{te}\r\n");
        let (answer, close) = ask(&scene, &request);
        assert!(answer.ends_with(end), "{answer}");
        assert_eq!(close, Close::Clean);
    }
}

#[test]
fn a_client_that_expects_100_gets_it_when_the_body_is_wanted() {
    let scene = Scene::new(Settings::default());
    let head = "POST /a HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 5\r\nconnection: close\r\n\r\n";
    let mut client = scene.connect();
    client.send(head);
    assert_eq!(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert!(client.rest().0.ends_with("POST /a [hello]"));
    let (answer, close) = ask(&scene, &head.replace("/a", "/unread"));
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(close, Close::Clean);
}

#[test]
fn a_connection_serves_many_requests() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    for index in 0..1000 {
        client.send(format!("GET /{index} HTTP/1.1\r\nhost: h\r\n\r\n"));
        client.until(&format!("GET /{index} []"));
    }
}

#[test]
fn a_shutdown_lets_a_request_end_and_closes_the_rest() {
    // No other deadline may close what the shutdown should.
    let scene = Scene::new(Settings { header: 2 * PATIENCE, ..Settings::default() });
    let mut idle = scene.connect();
    idle.send("GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
    idle.until("[]");
    let mut fresh = scene.connect();
    let mut busy = scene.connect();
    busy.send("POST /a HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n");
    busy.until("\r\n\r\n");
    scene.shutdown.begin();
    assert_eq!(idle.rest(), (String::new(), Close::Clean));
    assert_eq!(fresh.rest(), (String::new(), Close::Clean));
    busy.send("hello");
    let (answer, close) = busy.rest();
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("POST /a [hello]"), "{answer}");
    assert_eq!(close, Close::Clean);
    scene.join().unwrap();
}

#[test]
fn a_second_signal_ends_at_once() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("GET /hang HTTP/1.1\r\nhost: h\r\n\r\n");
    assert_eq!(scene.came.recv_timeout(PATIENCE), Ok("handler"));
    scene.shutdown.begin();
    scene.shutdown.end();
    assert_eq!(client.rest(), (String::new(), Close::Reset));
    scene.join().unwrap();
}

#[test]
fn a_client_that_has_closed_its_side_is_answered() {
    let scene = Scene::new(Settings::default());
    for version in ["1.0", "1.1"] {
        for request in ["GET /a HTTP/VERSION\r\nhost: h\r\n\r\n", "GET /chunks HTTP/VERSION\r\nhost: h\r\n\r\n"] {
            let mut client = scene.connect();
            client.send(request.replace("VERSION", version));
            client.0.shutdown(Half::Write).unwrap();
            let (answer, close) = client.rest();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert_eq!(close, Close::Clean);
        }
    }
}

#[test]
fn an_answer_before_the_end_of_the_body_says_that_it_closes() {
    let scene = Scene::new(Settings::default());
    for framing in ["content-length: 1000000", "transfer-encoding: chunked"] {
        let mut client = scene.connect();
        client.send(format!("POST /unread HTTP/1.1\r\nhost: h\r\n{framing}\r\n\r\n"));
        client.send("5\r\nhello\r\n");
        let (answer, close) = client.rest();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("connection: close\r\n") && answer.ends_with("unread"), "{answer}");
        assert_eq!(close, Close::Clean);
    }
}

#[test]
fn a_body_that_came_whole_is_no_reason_to_close() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    for framing in ["content-length: 5\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"] {
        client.send(format!("POST /unread HTTP/1.1\r\nhost: h\r\n{framing}"));
        let answer = client.until("unread");
        assert!(!answer.contains("connection"), "{answer}");
    }
}

#[test]
fn a_departure_is_noticed_behind_requests_that_wait() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("GET /hang HTTP/1.1\r\nhost: h\r\n\r\n");
    assert_eq!(scene.came.recv_timeout(PATIENCE), Ok("handler"));
    // More than is read ahead, and no more than the socket takes.
    client.send("GET /next HTTP/1.1\r\nhost: h\r\n\r\n".repeat(3000));
    client.0.shutdown(Half::Both).unwrap();
    assert_eq!(scene.left.recv_timeout(PATIENCE), Ok("handler"));
    assert_eq!(scene.seen_of(&client), [""; 0]);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    let requests: String = (0..500).map(|index| format!("GET /{index} HTTP/1.1\r\nhost: h\r\n\r\n")).collect();
    client.send(requests);
    client.send("GET /end HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let (answers, close) = client.rest();
    let seen: Vec<&str> = answers.split("GET /").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    let wanted: Vec<String> = (0..500).map(|index| index.to_string()).chain(["end".to_owned()]).collect();
    assert_eq!(seen, wanted);
    assert_eq!(close, Close::Clean);
}
