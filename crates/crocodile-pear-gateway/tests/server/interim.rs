//! Interim answers: before the answer they belong to, and only for those who can take them.

use crocodile_pear_gateway::server::Settings;

use crate::server::scene::{Close, Scene};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
    HTTP/1.1 102 Processing\r\nlink: \r\n\r\n\
    HTTP/1.1 103 Early Hints\r\nlink: </b>\r\n\r\n";

#[test]
fn interim_answers_come_while_the_answer_is_waited_for() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("POST /hints HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\nconnection: close\r\n\r\n");
    assert_eq!(client.until("</b>\r\n\r\n"), HINTS);
    client.send("hello");
    let (answer, close) = client.rest();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("POST /hints [hello]"), "{answer}");
    assert_eq!(close, Close::Clean);
}

#[test]
fn interim_answers_go_before_an_answer_that_came_with_them() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    for _ in 0..3 {
        client.send("GET /hints HTTP/1.1\r\nhost: h\r\n\r\nGET /next HTTP/1.1\r\nhost: h\r\n\r\n");
        let answers = client.until("GET /next []");
        assert!(answers.starts_with(&format!("{HINTS}HTTP/1.1 200 OK\r\n")), "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 10").count(), 3, "{answers}");
    }
}

#[test]
fn a_client_of_http_1_0_gets_no_interim_answer() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("GET /hints HTTP/1.0\r\n\r\n");
    let (answer, _) = client.rest();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn an_interim_answer_is_no_answer() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("GET /interim HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let (answer, close) = client.rest();
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert_eq!(close, Close::Clean);
}
