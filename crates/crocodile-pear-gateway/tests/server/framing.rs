//! Requests that are let in can be read in only one way, and a refusal says why. `smuggling.rs` has the requests that can be
//! read in two ways.

use crocodile_pear_gateway::server::Settings;

use crate::server::scene::{Close, Scene};

const END: &str = "GET /end HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
const END_SEEN: &str = "GET /end []";

/// The bytes that are sent, and the readings they have.
const ADMITTED: &[(&str, &[&str])] = &[
    ("GET / HTTP/1.1\r\nhost: h\r\n\r\n", &["GET / []"]),
    ("\r\n\r\nGET / HTTP/1.1\r\nhost: h\r\n\r\n", &["GET / []"]),
    ("GET /a?b=c|d,e HTTP/1.1\r\nHOST: h:8080\r\n\r\n", &["GET /a?b=c|d,e []"]),
    ("GET //other/a HTTP/1.1\r\nhost: [::1]:80\r\n\r\n", &["GET //other/a []"]),
    ("GET http://H/a?b HTTP/1.1\r\nhost: h\r\n\r\n", &["GET /a?b []"]),
    ("GET http://h HTTP/1.1\r\nhost: h\r\n\r\n", &["GET / []"]),
    // The target's host counts, whatever Host says (RFC 9112, 3.2.2).
    ("GET http://other/a HTTP/1.1\r\nhost: h\r\n\r\n", &["GET /a []"]),
    ("GET http://h:81/ HTTP/1.1\r\nhost: h\r\n\r\n", &["GET / []"]),
    ("GET http://h:80/ HTTP/1.1\r\nhost: h\r\n\r\n", &["GET / []"]),
    ("GET / HTTP/1.1\r\nhost: h:\r\n\r\n", &["GET / []"]),
    ("GET / HTTP/1.1\r\nhost: [::1]:\r\n\r\n", &["GET / []"]),
    ("OPTIONS http://h HTTP/1.1\r\nhost: h\r\n\r\n", &["OPTIONS * []"]),
    ("OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n", &["OPTIONS * []"]),
    ("GET / HTTP/1.1\r\nhost: h\r\nx_custom: y\r\n\r\n", &["GET / []"]),
    ("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello", &["POST / [hello]"]),
    ("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 005\r\n\r\nhello", &["POST / [hello]"]),
    ("POST / HTTP/1.1\r\nhost: h\r\ncontent-length:\t5 \r\n\r\nhello", &["POST / [hello]"]),
    ("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n", &["POST / []"]),
    ("GET / HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello", &["GET / [hello]"]),
    (
        "POST / HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: ChUnKeD\r\n\r\n5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n",
        &["POST / [hello]"],
    ),
    (
        "POST /1 HTTP/1.1\r\nhost: h\r\ncontent-length: 27\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n.\
         POST /2 HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n\
         GET /3 HTTP/1.1\r\nhost: h\r\n\r\nGET /4 HTTP/1.1\r\nhost: h\r\n\r\n",
        &["POST /1 [GET /smuggled HTTP/1.1\r\n\r\n.]", "POST /2 [abcde]", "GET /3 []", "GET /4 []"],
    ),
];

#[test]
fn methods_that_no_gateway_serves_are_told_so() {
    let scene = Scene::new(Settings::default());
    for (head, status) in [
        ("CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n\r\n", "501 Not Implemented\r\n"),
        ("CONNECT / HTTP/1.1\r\nhost: h\r\n\r\n", "501 Not Implemented\r\n"),
        ("TRACE / HTTP/1.1\r\nhost: h\r\n\r\n", "405 Method Not Allowed\r\n"),
        ("TRACE / HTTP/1.1\r\nhost: h\r\nmax-forwards: 0\r\n\r\n", "405 Method Not Allowed\r\n"),
    ] {
        let mut client = scene.connect();
        client.send(head);
        client.send(END);
        let (answer, close) = client.rest();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{head}: {answer}");
        assert_eq!(answer.contains("\r\nallow: GET, HEAD, POST,"), status.starts_with("405"), "{head}: {answer}");
        assert_eq!((close, scene.seen_of(&client)), (Close::Clean, vec![]), "{head}");
    }
}

#[test]
fn a_refusal_is_a_problem_document_behind_the_answers_before_it() {
    let scene = Scene::new(Settings::default());
    let mut client = scene.connect();
    client.send("GET /good HTTP/1.1\r\nhost: h\r\n\r\nGET /bad HTTP/1.1\r\n\r\n");
    let (answer, _) = client.rest();
    let good = answer.find("GET /good []").unwrap();
    let bad = answer.find("HTTP/1.1 400 ").unwrap();
    assert!(good < bad, "{answer}");
    assert!(answer[bad..].contains("content-type: application/problem+json"), "{answer}");
    assert!(answer.ends_with(r#""kind":"bad-request","detail":"there is no Host field"}"#), "{answer}");
}

#[test]
fn what_is_admitted_has_one_reading_however_it_is_cut() {
    let scene = Scene::new(Settings::default());
    for (request, readings) in ADMITTED {
        let whole = format!("{request}{END}");
        // At once, byte by byte, and in two parts at a few places.
        let cuts = (0..whole.len()).step_by(7).map(|cut| vec![cut, whole.len() - cut]);
        let ways = [vec![whole.len()], vec![1; whole.len()]].into_iter().chain(cuts);
        for way in ways {
            let mut client = scene.connect();
            let mut rest = whole.as_str();
            for length in &way {
                client.send(&rest[..*length]);
                rest = &rest[*length..];
            }
            let (answer, close) = client.rest();
            let expected: Vec<&str> = readings.iter().copied().chain([END_SEEN]).collect();
            assert_eq!(scene.seen_of(&client), expected, "{} as {way:?}: {answer}", request.escape_debug());
            assert_eq!(close, Close::Clean);
        }
    }
}

#[test]
fn what_is_too_large_is_told_so() {
    let scene = Scene::new(Settings::default());
    let long = "a".repeat(100_000);
    let many = "a: b\r\n".repeat(101);
    let cases = [
        (format!("GET /{long} HTTP/1.1\r\nhost: h\r\n\r\n"), "414"),
        (format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", &long[..9000]), "414"),
        (format!("GET / HTTP/1.1\r\nhost: h\r\nx: {long}\r\n\r\n"), "431"),
        (format!("GET / HTTP/1.1\r\nhost: h\r\n{}: x\r\n\r\n", &long[..20_000]), "431"),
        (format!("GET / HTTP/1.1\r\nhost: h\r\n{many}\r\n"), "431"),
        (format!("{long} / HTTP/1.1\r\nhost: h\r\n\r\n"), "400"),
    ];
    for (request, status) in cases {
        let mut client = scene.connect();
        client.send(&request);
        let (answer, close) = client.rest();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        assert_eq!(close, Close::Clean);
    }
    let large = format!("GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx: {}\r\n\r\n", &long[..16_000]);
    let mut client = scene.connect();
    client.send(large);
    assert!(client.rest().0.ends_with("GET / []"));
}
