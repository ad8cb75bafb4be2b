//! Every way that we know of to make two servers read one message differently: hundreds of them, made by rule.

use crocodile_pear_gateway::server::Settings;

use crate::server::scene::{Close, Scene};

/// Asked behind each case on the same connection: whoever takes it for a request was led astray.
const NEXT: &str = "GET /smuggled HTTP/1.1\r\nhost: h\r\n\r\n";

const CHUNKED: &str = "5\r\nhello\r\n0\r\n\r\n";

fn post(fields: &[u8], body: &[u8]) -> Vec<u8> {
    [b"POST / HTTP/1.1\r\nhost: h\r\n", fields, b"\r\n\r\n", body].concat()
}

/// Values of Transfer-Encoding that are anything but one `chunked`.
fn codings() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "",
        ",",
        ";",
        "chunked,",
        ",chunked",
        ", chunked",
        "chunked, chunked",
        "chunked,chunked",
        "identity",
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "identity, chunked",
        "chunked, identity",
        "deflate, chunked",
        "x, chunked",
        "chunked;q=1",
        "chunked; q=0",
        "chunked;",
        "\"chunked\"",
        "'chunked'",
        "chun ked",
        "chunke",
        "chunkedd",
        "xchunked",
        "chunked-x",
        "chunkéd",
        "trailers",
        "cow",
        "0",
        "null",
        "undefined",
        "chunked\\",
        "(chunked)",
        "chunked (comment)",
        "chunked\tidentity",
        "=chunked",
        "chunked=1",
    ]
    .map(|value| value.as_bytes().to_vec())
    .into();
    for byte in (0..=0x1f).chain(0x7f..=0xff).filter(|byte| !b"\t\r\n".contains(byte)).step_by(3) {
        values.push([b"chunked", [byte].as_slice()].concat());
        values.push([[byte].as_slice(), b"chunked"].concat());
    }
    values
}

/// Values of Content-Length that are anything but one length.
fn lengths() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "",
        ",",
        "5,",
        ",5",
        "5, 5",
        "5,5",
        "5,6",
        "6,5",
        "5 5",
        "5;",
        "5;x",
        "+5",
        "-5",
        "+0",
        "-0",
        "--5",
        "0x5",
        "0X5",
        "5.0",
        "5.",
        ".5",
        "5e0",
        "5E0",
        "5L",
        "5u",
        "05h",
        "five",
        "NaN",
        "inf",
        "\"5\"",
        "'5'",
        "(5)",
        "5 (comment)",
        "5\t5",
        "1_0",
        "0b101",
        "0o5",
        "٥",
        "５",
        "²",
        "4611686018427387904",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551621",
        "99999999999999999999",
        "00000000000000000000000000000005",
        "340282366920938463463374607431768211461",
    ]
    .map(|value| value.as_bytes().to_vec())
    .into();
    for byte in (0..=0x1f).chain(0x7f..=0xff).filter(|byte| !b"\t\r\n".contains(byte)).step_by(3) {
        values.push([b"5", [byte].as_slice()].concat());
        values.push([[byte].as_slice(), b"5"].concat());
    }
    values
}

/// Names that some take for a framing one.
fn spellings(name: &str) -> Vec<Vec<u8>> {
    let mut names = vec![format!(" {name}"), format!("\t{name}"), format!("{name} "), format!("{name}\t")];
    names.extend(["_", ".", "!", "~", "|", "^", "`", "*", "+", "$", "#", "'", "&", "%"].iter().flat_map(|mark| {
        let mut near = vec![format!("{name}{mark}"), format!("{mark}{name}")];
        if name.contains('-') {
            near.push(name.replace('-', mark));
        }
        near
    }));
    let mut names: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
    for byte in [0_u8, 1, 8, 0x0b, 0x0c, 0x1f, 0x7f, 0x80, 0xa0, 0xff, b'(', b',', b'/', b';', b'@', b'[', b'{', b'"'] {
        names.push([name.as_bytes(), &[byte]].concat());
        names.push([&[byte], name.as_bytes()].concat());
    }
    names
}

fn framing() -> Vec<Vec<u8>> {
    let field = |name: &[u8], value: &[u8]| [name, b": ", value].concat();
    let mut cases = Vec::new();
    for value in codings() {
        cases.push(post(&field(b"transfer-encoding", &value), CHUNKED.as_bytes()));
    }
    for value in lengths() {
        cases.push(post(&field(b"content-length", &value), b"hello"));
    }
    for name in spellings("transfer-encoding") {
        cases.push(post(&field(&name, b"chunked"), CHUNKED.as_bytes()));
        let both = [&field(&name, b"chunked"), b"\r\ncontent-length: 5".as_slice()].concat();
        cases.push(post(&both, b"hello"));
    }
    for name in spellings("content-length") {
        cases.push(post(&field(&name, b"5"), b"hello"));
        let both = [&field(&name, b"5"), b"\r\ntransfer-encoding: chunked".as_slice()].concat();
        cases.push(post(&both, CHUNKED.as_bytes()));
    }
    for name in spellings("host") {
        cases.push([b"GET / HTTP/1.1\r\nhost: h\r\n", field(&name, b"other").as_slice(), b"\r\n\r\n"].concat());
    }
    // Both, twice, in either order, and in HTTP/1.0.
    let (length, chunked) = ("content-length: 5", "transfer-encoding: chunked");
    for first in [length, chunked, "content-length: 6", "transfer-encoding: identity", "Transfer-Encoding: Chunked"] {
        for second in [length, chunked, "CONTENT-LENGTH: 0", "transfer-encoding: gzip"] {
            for between in ["", "\r\nx: y"] {
                let fields = format!("{first}{between}\r\n{second}");
                for body in ["hello", CHUNKED] {
                    cases.push(post(fields.as_bytes(), body.as_bytes()));
                }
            }
        }
    }
    for fields in [chunked, "transfer-encoding: identity", "content-length: 5\r\ntransfer-encoding: chunked"] {
        for more in ["", "connection: keep-alive\r\n", "host: h\r\n"] {
            cases.push(format!("POST / HTTP/1.0\r\n{more}{fields}\r\n\r\n{CHUNKED}").into_bytes());
        }
    }
    // Lines that are continued, or end in half a line's end.
    for name in ["transfer-encoding", "content-length", "host", "x"] {
        for value in ["chunked", "5", "h"] {
            for end in ["\r\n ", "\r\n\t", "\n ", "\n", "\r", "\r\r\n", "\n\r\n "] {
                cases.push(post(format!("{name}:{end}{value}").as_bytes(), b"hello"));
            }
        }
    }
    for fields in [
        "transfer-encoding: \u{a0}chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding:",
        "x: y\rtransfer-encoding: chunked",
        "x: y\ntransfer-encoding: chunked",
        "x: y\n\rtransfer-encoding: chunked",
        "Transfer_Encoding: chunked",
        "transfer encoding: chunked",
        "transfer-encod\u{131}ng: chunked",
        "CONTENT_LENGTH: 5",
        "keep_alive: 5",
        "proxy_connection: close",
        "te_: trailers",
        "transfer-encoding: chunkedx",
        "transfer-encoding:",
        "transfer-encoding: \x0cchunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "content-length: 0\r\ntransfer-encoding: chunked",
        "content-length: 5\r\ntransfer-encoding: identity",
        "content-length: 5\r\ntransfer_encoding: chunked",
        "content-length: 5\r\ncontent-length: 6",
        "content-length:",
        "host: h",
        "host: other",
        "host_: other",
        "_host: other",
        "connection_: close",
        ": empty",
        "no colon",
        "x: \0",
        "x: a\x7fb",
        "x\0: y",
    ] {
        cases.push(post(fields.as_bytes(), CHUNKED.as_bytes()));
    }
    cases
}

fn chunks() -> Vec<Vec<u8>> {
    let mut bodies: Vec<String> = [
        "+5",
        "-5",
        " 5",
        "5 ",
        "5\t",
        "\t5",
        "0x5",
        "0X5",
        "5h",
        "5 ;x",
        "5;",
        "5;;x",
        "5;=x",
        "5;x=",
        "5;x=\"",
        "5;x=\"y",
        "5;x y",
        "5;x=y z",
        "5;\u{1}",
        "5;x=\u{7f}",
        "5,5",
        "5.0",
        "5_0",
        "",
        ";x",
        "g",
        "5g",
        "\"5\"",
        "fffffffffffffffff",
        "10000000000000005",
        "00000000000000005",
        "1000000000000000",
        "ffffffffffffffff",
        "7fffffffffffffff",
        "-0",
        "+0",
        "００５",
        "5\r",
        "5\0",
        "\x005",
        "5 x",
    ]
    .iter()
    .map(|size| format!("{size}\r\nhello\r\n0\r\n\r\n"))
    .collect();
    bodies.extend(
        [
            "5\nhello\r\n0\r\n\r\n",
            "5;a\nb\r\nhello\r\n0\r\n\r\n",
            "5;a\rb\r\nhello\r\n0\r\n\r\n",
            "\r\n",
            ";a\r\n",
            "0\r\n folded: x\r\n\r\n",
            "-1\r\nhello\r\n0\r\n\r\n",
            "5\rhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello\r0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhelloX\r\n0\r\n\r\n",
            "5\r\nhell\r\n0\r\n\r\n",
            "5\r\nhello\r\n\r\n0\r\n\r\n",
            "5;x\nhello\r\n0\r\n\r\n",
            "5;x\rhello\r\n0\r\n\r\n",
            "0\n\r\n",
            "0\r\n\n",
            "0\r\n\rX",
            "0\r\rX",
            "0\n\nX",
            "\r\n0\r\n\r\n",
            "0\r\nx: y\n\r\n",
            "0\r\nx: y\r\r\n",
            "0\r\n x: y\r\n\r\n",
            "0\r\n\tx: y\r\n\r\n",
            "0\r\nx: y\r\n z\r\n\r\n",
            "0\r\nx : y\r\n\r\n",
            "0\r\nx\r\n\r\n",
            "0\r\n: y\r\n\r\n",
            "0\r\nx\0: y\r\n\r\n",
            "0\r\nx: \0\r\n\r\n",
            "0\r\nx y: z\r\n\r\n",
            "0\r\nGET / HTTP/1.1\r\n\r\n",
        ]
        .map(str::to_owned),
    );
    bodies.iter().map(|body| post(b"transfer-encoding: chunked", body.as_bytes())).collect()
}

/// Bytes that stand where none of their kind may.
fn controls() -> Vec<Vec<u8>> {
    let mut cases = Vec::new();
    for byte in (0..=0x1f_u8).chain([0x7f]) {
        let at = |before: &str, after: &str| [before.as_bytes(), &[byte], after.as_bytes()].concat();
        cases.push(at("GET /a", "b HTTP/1.1\r\nhost: h\r\n\r\n"));
        cases.push(at("G", "ET / HTTP/1.1\r\nhost: h\r\n\r\n"));
        cases.push(at("GET / HTTP/1", ".1\r\nhost: h\r\n\r\n"));
        cases.push(at("GET / HTTP/1.1\r\nho", "st: h\r\n\r\n"));
        cases.push(at("GET / HTTP/1.1\r\nhost: h", "h\r\n\r\n"));
        if !b"\t".contains(&byte) {
            cases.push(at("GET / HTTP/1.1\r\nhost: h\r\nx: a", "b\r\n\r\n"));
        }
        if !b"\r\n".contains(&byte) {
            cases.push(at("", "GET / HTTP/1.1\r\nhost: h\r\n\r\n"));
        }
    }
    for byte in 0x80..=0xff_u8 {
        if byte % 8 == 0 {
            cases.push([b"GET /", [byte].as_slice(), b" HTTP/1.1\r\nhost: h\r\n\r\n"].concat());
            cases.push([b"GET / HTTP/1.1\r\nhost: ", [byte].as_slice(), b"\r\n\r\n"].concat());
            cases.push([b"GET / HTTP/1.1\r\nhost: h\r\nx", [byte].as_slice(), b": y\r\n\r\n"].concat());
        }
    }
    cases
}

fn heads() -> Vec<Vec<u8>> {
    let mut cases = Vec::new();
    let hosts = [
        "", " ", "a b", "user@h", "h/p", "h?q", "h#f", "h\\i", "h, i", "h,i", "h;i", "h:port", "h:-1", "h:+1",
        "h:123456", "a:b:1", "[::1", "::1]", "[]", "[g]", "http://h", "//h", "h%2fi", "<h>", "\"h\"", "h\u{e9}", "*",
        "h|i", "(h)", ":80",
    ];
    for host in hosts {
        cases.push(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        // There, these begin a path and a query, and the last one is the host `http` with an empty port.
        if !["h/p", "h?q", "http://h"].contains(&host) {
            cases.push(format!("GET http://{host}/ HTTP/1.1\r\nhost: h\r\n\r\n"));
        }
    }
    for second in ["h", "i", "H", "h:80", ""] {
        cases.push(format!("GET / HTTP/1.1\r\nhost: h\r\nhost: {second}\r\n\r\n"));
        cases.push(format!("GET / HTTP/1.1\r\nHost: h\r\nx: y\r\nHOST: {second}\r\n\r\n"));
        cases.push(format!("GET / HTTP/1.0\r\nhost: h\r\nhost: {second}\r\n\r\n"));
    }
    let lines = [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /a b HTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET / HTTP/0.9",
        "GET / HTTP/1",
        "GET / HTTP/1.10",
        "GET / HTTP/01.1",
        "GET / HTTP/1.01",
        "GET / http/1.1",
        "GET / HTTPS/1.1",
        "GET / HTTP1.1",
        "GET / HTTP/1,1",
        "GET /",
        "GET",
        "GET HTTP/1.1",
        "/ HTTP/1.1",
        "GET h HTTP/1.1",
        "GET h:80 HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /#f HTTP/1.1",
        "GET /?q#f HTTP/1.1",
        "GET /a\\b HTTP/1.1",
        "GET /a\\\"b HTTP/1.1",
        "GET /<a>#f HTTP/1.1",
        "GET /^\x7f HTTP/1.1",
        "GET /`\t HTTP/1.1",
        "G@T / HTTP/1.1",
        "GE(T / HTTP/1.1",
        "GET, / HTTP/1.1",
        "CONNECT h:80 HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "TRACE / HTTP/1.1",
        "GET ftp://h/ HTTP/1.1",
        "GET ://h/ HTTP/1.1",
        "GET http:/h/ HTTP/1.1",
        "GET http://h@h/ HTTP/1.1",
        "GET http://h/#f HTTP/1.1",
        "GET /\u{e9}\\ HTTP/1.1",
        "GET http://h:-1/ HTTP/1.1",
        "GET http://h:port/ HTTP/1.1",
        "GET javascript:x HTTP/1.1",
        "PRI * HTTP/2.0",
        "{\"json\": true}",
        "POST / HTTP/1.1 HTTP/1.1",
        "GET / HTTP/1.1\rX: y",
    ];
    for line in lines {
        cases.push(format!("{line}\r\nhost: h\r\n\r\n"));
    }
    for head in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET http://other/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost:\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h/path\r\n\r\n",
        "GET /\r\n\r\n",
        "POST / HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "{\"json\": true}\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03 a TLS hello\r\n\r\n",
        "GET / HTTP/1.1\nhost: h\n\n",
        "GET / HTTP/1.1\r\nhost: h\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\n\n",
        "\nGET / HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n host: h\r\n\r\n",
        "GET / HTTP/1.1\r\n\thost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nx: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\n: empty\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nx : y\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nconnection_: close\r\n\r\n",
    ] {
        cases.push(head.to_owned());
    }
    cases.into_iter().map(String::into_bytes).collect()
}

#[test]
fn no_message_with_two_readings_gets_in() {
    let scene = Scene::new(Settings::default());
    let cases: Vec<Vec<u8>> = [framing(), chunks(), controls(), heads()].concat();
    assert!(cases.len() >= 1393, "{} cases", cases.len());
    for case in cases {
        let told = case.escape_ascii();
        let mut client = scene.connect();
        client.send(&case);
        client.send(NEXT);
        let (answer, close) = client.rest();
        let status = match case.split(|byte| *byte == b' ').next() {
            Some(b"CONNECT") => "501 Not Implemented",
            Some(b"TRACE") => "405 Method Not Allowed",
            _ => "400 Bad Request",
        };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{told}: {answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{told}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{told}: {answer}");
        assert_eq!(scene.seen_of(&client), [""; 0], "{told}");
        assert_eq!(close, Close::Clean, "{told}");
    }
}
