//! Good messages, and what becomes of them.

use crate::stage::test_rng::TestRng;

/// The dice of one message.
pub fn dice(seed: u64, id: u64) -> TestRng {
    TestRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.wrapping_mul(0xd134_2543_de82_ef95))
}

pub const REQUESTS: [&str; 8] = [
    "GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nX-Note: a, b\r\n\r\n",
    "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\na\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n",
    "GET http://h:80/a HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 40\r\n\r\nGET /inner HTTP/1.1\r\nHost: h\r\nX: 1234\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: h\r\nConnection: upgrade, te\r\nUpgrade: websocket\r\nTE: trailers\r\nVia: 1.1 a\r\nMax-Forwards: 3\r\n\r\n",
    "HEAD /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\nOPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n",
];

/// In each, `ID` stands for what the answer belongs to.
pub const ANSWERS: [&str; 8] = [
    "HTTP/1.1 200 OK\r\nX-Id: ID\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nX-Id: ID\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\na\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nX-Id: ID\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nno",
    "HTTP/1.1 204 No Content\r\nX-Id: ID\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: c=d\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nX-Id: ID\r\nETag: \"1\"\r\nContent-Length: 7\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX-Id: ID\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.0 200 OK\r\nX-Id: ID\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nold",
    "HTTP/1.1 200 OK\r\nX-Id: ID\r\nConnection: X-Hop\r\nX-Hop: 1\r\nLocation: http://h/a\r\nContent-Length: 3, 3\r\n\r\nabc",
];

/// The pieces that make a difference to a reader of HTTP.
const PIECES: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "\0",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "\"",
    "\x7f",
    "\u{e9}",
    "0",
    "-1",
    "+",
    "ffffffffffffffff",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Host: other\r\n",
    "0\r\n\r\n",
    " HTTP/1.1\r\n",
    "chunked",
];

/// A message with one to four faults.
pub fn mutate(message: &str, dice: &mut TestRng) -> Vec<u8> {
    let mut bytes = message.as_bytes().to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len());
        let length = dice.below(12).min(bytes.len() - at);
        match dice.below(8) {
            0 => bytes[at] = dice.below(256) as u8,
            1 => bytes[at] ^= 1 << dice.below(8),
            2 => drop(bytes.drain(at..at + length)),
            3 => bytes.truncate(at.max(1)),
            4 => {
                let again = bytes[at..at + length].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let to = dice.below(bytes.len());
                bytes.swap(at, to);
            }
            _ => drop(bytes.splice(at..at, dice.of(&PIECES).bytes())),
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}
