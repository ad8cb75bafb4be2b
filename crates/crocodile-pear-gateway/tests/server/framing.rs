//! Requests that can be read in two ways never reach the handler.

use crocodile_pear_gateway::server::Settings;

use crate::server::scene::{Close, Scene};

const END: &str = "GET /end HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
const END_SEEN: &str = "GET /end []";

/// Header lines of a POST to `/`, and what follows the head; each is refused.
const REFUSED_FIELDS: &[(&str, &str)] = &[
    // Transfer-Encoding is not `chunked` alone.
    ("transfer-encoding: chunked, chunked", "0\r\n\r\n"),
    ("transfer-encoding: gzip, chunked", "0\r\n\r\n"),
    ("transfer-encoding: identity, chunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked, identity", "0\r\n\r\n"),
    ("transfer-encoding: identity", "0\r\n\r\n"),
    ("transfer-encoding: gzip", "0\r\n\r\n"),
    ("transfer-encoding: xchunked", "0\r\n\r\n"),
    ("transfer-encoding: chunkedx", "0\r\n\r\n"),
    ("transfer-encoding: cow", "0\r\n\r\n"),
    ("transfer-encoding:", "0\r\n\r\n"),
    ("transfer-encoding: ,", "0\r\n\r\n"),
    ("transfer-encoding: ,chunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked,", "0\r\n\r\n"),
    ("transfer-encoding: , chunked", "0\r\n\r\n"),
    ("transfer-encoding: \"chunked\"", "0\r\n\r\n"),
    ("transfer-encoding: 'chunked'", "0\r\n\r\n"),
    ("transfer-encoding: chunked;q=1", "0\r\n\r\n"),
    ("transfer-encoding: chun ked", "0\r\n\r\n"),
    ("transfer-encoding: chunked\x0b", "0\r\n\r\n"),
    ("transfer-encoding: \x0cchunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked\0", "0\r\n\r\n"),
    ("transfer-encoding: \u{a0}chunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ntransfer-encoding: identity", "0\r\n\r\n"),
    ("transfer-encoding: identity\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ntransfer-encoding:", "0\r\n\r\n"),
    ("transfer-encoding:\r\n chunked", "0\r\n\r\n"),
    ("transfer-encoding:\n chunked", "0\r\n\r\n"),
    ("transfer-encoding : chunked", "0\r\n\r\n"),
    ("transfer-encoding\t: chunked", "0\r\n\r\n"),
    (" transfer-encoding: chunked", "0\r\n\r\n"),
    ("\ttransfer-encoding: chunked", "0\r\n\r\n"),
    ("x: y\rtransfer-encoding: chunked", "0\r\n\r\n"),
    ("x: y\ntransfer-encoding: chunked", "0\r\n\r\n"),
    ("x: y\n\rtransfer-encoding: chunked", "0\r\n\r\n"),
    ("transfer_encoding: chunked", "0\r\n\r\n"),
    ("Transfer_Encoding: chunked", "0\r\n\r\n"),
    ("transfer.encoding: chunked", "0\r\n\r\n"),
    ("transfer-encoding_: chunked", "0\r\n\r\n"),
    ("_transfer-encoding: chunked", "0\r\n\r\n"),
    ("transfer-encoding!: chunked", "0\r\n\r\n"),
    ("transfer encoding: chunked", "0\r\n\r\n"),
    ("transfer-encod\u{131}ng: chunked", "0\r\n\r\n"),
    // Both at once, in either order.
    ("content-length: 5\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ncontent-length: 5", "0\r\n\r\n"),
    ("content-length: 0\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
    ("content-length: 5\r\ntransfer-encoding: identity", "hello"),
    ("content-length: 5\r\ntransfer_encoding: chunked", "hello"),
    ("content_length: 5\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
    // Content-Length is anything but one number.
    ("content-length: 5\r\ncontent-length: 6", "hello"),
    ("content-length: 6\r\ncontent-length: 5", "hello"),
    ("content-length: 5\r\ncontent-length: 5", "hello"),
    ("content-length: 5, 5", "hello"),
    ("content-length: 5,6", "hello"),
    ("content-length: 5 5", "hello"),
    ("content-length:", "hello"),
    ("content-length: ,", "hello"),
    ("content-length: 5,", "hello"),
    ("content-length: +5", "hello"),
    ("content-length: -5", "hello"),
    ("content-length: -0", "hello"),
    ("content-length: 0x5", "hello"),
    ("content-length: 5.0", "hello"),
    ("content-length: 5e0", "hello"),
    ("content-length: 5;", "hello"),
    ("content-length: \"5\"", "hello"),
    ("content-length: five", "hello"),
    ("content-length: \u{665}", "hello"),
    ("content-length: 5\x0b", "hello"),
    ("content-length: 4611686018427387904", "hello"),
    ("content-length: 9223372036854775807", "hello"),
    ("content-length: 9223372036854775808", "hello"),
    ("content-length: 18446744073709551615", "hello"),
    ("content-length: 18446744073709551616", "hello"),
    ("content-length: 18446744073709551621", "hello"),
    ("content-length: 00000000000000000000000000000005", "hello"),
    ("content-length : 5", "hello"),
    (" content-length: 5", "hello"),
    ("content-length:\r\n 5", "hello"),
    ("content_length: 5", "hello"),
    ("CONTENT_LENGTH: 5", "hello"),
    ("content-length_: 5", "hello"),
    ("content.length: 5", "hello"),
    // Other names that frame.
    ("host: h", ""),
    ("host: other", ""),
    ("host_: other", ""),
    ("_host: other", ""),
    ("connection_: close", ""),
    ("keep_alive: 5", ""),
    ("proxy_connection: close", ""),
    ("te_: trailers", ""),
    (": empty", ""),
    ("no colon", ""),
    ("x: \0", ""),
    ("x: a\x7fb", ""),
    ("x\0: y", ""),
];

/// Bodies behind `transfer-encoding: chunked` that are not valid chunked bodies.
const REFUSED_CHUNKS: &[&str] = &[
    "5 \r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "5;a\rb\r\nhello\r\n0\r\n\r\n",
    "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "10000000000000005\r\nhello\r\n0\r\n\r\n",
    "\r\n",
    ";a\r\n",
    "0\r\n\n",
    "0\r\n folded: x\r\n\r\n",
    "0\r\nx: y\n\r\n",
    "0\r\n\rX",
    "-1\r\nhello\r\n0\r\n\r\n",
    "g\r\nhello\r\n0\r\n\r\n",
];

/// Whole heads.
const REFUSED_HEADS: &[&str] = &[
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nhost:\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: user@h\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h/path\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h, i\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h:port\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h:123456\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: :80\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a:b:1\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: [::1\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h#f\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h\\i\r\n\r\n",
    "GET http://other/ HTTP/1.1\r\n\r\n",
    "GET http://h:port/ HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET http://user@h/ HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET http:/// HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET ftp://h/ HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET http://h/#f HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /#f HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /?q#f HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /a\\b HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /\u{e9}\\ HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /a b HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /a\tb HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /a\0b HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /a\x7fb HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET  / HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /  HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET\t/ HTTP/1.1\r\nhost: h\r\n\r\n",
    " GET / HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET h HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET h:80 HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET * HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET / HTTP/1.2\r\nhost: h\r\n\r\n",
    "GET / HTTP/2.0\r\nhost: h\r\n\r\n",
    "GET / HTTP/0.9\r\nhost: h\r\n\r\n",
    "GET / http/1.1\r\nhost: h\r\n\r\n",
    "GET / HTTP/1.1 \r\nhost: h\r\n\r\n",
    "GET /\r\n\r\n",
    "GET / HTTP/1.1\nhost: h\n\n",
    "GET / HTTP/1.1\r\nhost: h\n\r\n",
    "GET / HTTP/1.1\r\nhost: h\r\n\n",
    "\nGET / HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET / HTTP/1.1\r\n host: h\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h\r\nx: a\r\n b\r\n\r\n",
    "POST / HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.0\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.0\r\nhost: h\r\nhost: h\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03 a TLS hello\r\n\r\n",
    "{\"json\": true}\r\n\r\n",
];

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

fn refused(scene: &Scene, request: &str) {
    let mut client = scene.connect();
    client.send(request);
    client.send(END);
    let (answer, close) = client.rest();
    let told = request.escape_debug();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{told}: {answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{told}: {answer}");
    assert_eq!(close, Close::Clean, "{told}");
    assert_eq!(scene.seen_of(&client), [""; 0], "{told}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{told}: {answer}");
}

#[test]
fn a_head_with_two_readings_is_refused() {
    let scene = Scene::new(Settings::default());
    for (fields, body) in REFUSED_FIELDS {
        refused(&scene, &format!("POST / HTTP/1.1\r\nhost: h\r\n{fields}\r\n\r\n{body}"));
    }
    for head in REFUSED_HEADS {
        refused(&scene, head);
    }
}

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
fn a_body_with_two_readings_is_refused() {
    let scene = Scene::new(Settings::default());
    for body in REFUSED_CHUNKS {
        refused(&scene, &format!("POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n{body}"));
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
