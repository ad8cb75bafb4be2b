//! The server that is asked: the same answers over HTTP/1.1 and HTTP/2.

use std::io::{BufReader, Write};
use std::net::SocketAddr;

use bytes::Bytes;
use h2::server::Builder;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use serde_json::json;

use crate::stage::accept::Accepting;
use crate::stage::asked::Asked;
use crate::stage::http2::{self, converse};
use crate::stage::served::Served;

pub struct Server {
    pub http1: SocketAddr,
    http2: Served,
}

impl Server {
    pub fn new() -> Self {
        let http1 = Accepting::begin(|mut stream| {
            let mut reader = BufReader::new(stream.try_clone()?);
            while let Some(asked) = Asked::read(&mut reader)? {
                let reply = reply(&asked);
                reply.write(&asked.method, &mut stream)?;
                if matches!(reply.framing, Framing::Close | Framing::Cut) {
                    return Ok(());
                }
            }
            Ok(())
        });
        let http2 = Served::begin(|stream| converse(stream, Builder::new(), answer));
        Server { http1: http1.address, http2 }
    }

    pub fn http2(&self) -> SocketAddr {
        self.http2.address
    }
}

/// How a body says where it ends.
#[derive(Clone, Copy, Debug, Default)]
enum Framing {
    #[default]
    Length,
    Chunked,
    Close,
    /// The head says that the body is longer than it is.
    Cut,
}

#[derive(Default)]
struct Reply {
    interim: Option<&'static str>,
    status: u16,
    fields: Vec<(&'static str, String)>,
    pieces: Vec<Vec<u8>>,
    framing: Framing,
    trailers: Vec<(&'static str, &'static str)>,
}

fn whole(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Reply {
    let fields = vec![("content-type", kind.to_owned())];
    Reply { status, fields, pieces: vec![body.into()], ..Reply::default() }
}

/// Fields that say nothing of the request, or that every proxy has to change.
const OMITTED: [&str; 11] = [
    "host",
    "connection",
    "keep-alive",
    "te",
    "transfer-encoding",
    "content-length",
    "via",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "trailer",
];

fn reply(asked: &Asked) -> Reply {
    let path = asked.target.split('?').next().unwrap_or_default();
    let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match words[0] {
        "redirect" => {
            let status = words[1].parse().unwrap_or(302);
            let host = asked.field("host");
            let location = match words[1] {
                "absolute" => format!("http://{host}/echo?from=absolute"),
                from => format!("/echo?from={from}"),
            };
            let mut reply = whole(status, "text/plain", "elsewhere");
            reply.fields.push(("location", location));
            reply
        }
        "range" => range(asked),
        "gzip" => {
            let coded = asked.field("accept-encoding").contains("gzip");
            let mut reply = whole(200, "text/plain", if coded { gzip() } else { HELLO.into() });
            reply.fields.push(("vary", "accept-encoding".to_owned()));
            if coded {
                reply.fields.push(("content-encoding", "gzip".to_owned()));
            }
            reply
        }
        "trailers" => Reply {
            framing: Framing::Chunked,
            trailers: vec![("x-sum", "7"), ("x-end", "yes")],
            ..whole(200, "text/plain", "summed")
        },
        "early" => Reply { interim: Some("</style.css>; rel=preload"), ..whole(200, "text/plain", "late") },
        "cookies" => {
            let mut reply = whole(200, "text/plain", "two");
            reply.fields.push(("set-cookie", "a=1; Path=/; HttpOnly".to_owned()));
            reply.fields.push(("set-cookie", "b=2; Path=/".to_owned()));
            reply
        }
        "large-head" => {
            let mut reply = whole(200, "text/plain", "large");
            reply.fields.extend(["x-a", "x-b", "x-c"].map(|name| (name, "v".repeat(3000))));
            reply
        }
        "chunked" => {
            let pieces = vec![b"one ".to_vec(), b"two ".to_vec(), b"three".to_vec()];
            Reply { framing: Framing::Chunked, pieces, ..whole(200, "text/plain", "") }
        }
        "large" => Reply { pieces: vec![vec![b'z'; 500_000]; 2], ..whole(200, "text/plain", "") },
        "events" => {
            let pieces = ["data: 1\n\n", ": still here\n\n", "id: 2\nevent: end\ndata: a\ndata: b\n\n"];
            let pieces = pieces.map(|piece| piece.as_bytes().to_vec()).to_vec();
            let mut reply = Reply { framing: Framing::Chunked, pieces, ..whole(200, "text/event-stream", "") };
            reply.fields.push(("cache-control", "no-store".to_owned()));
            reply
        }
        "status" => match words[1].parse().unwrap_or(200) {
            status @ (204 | 304) => Reply { status, fields: vec![("etag", "\"e\"".to_owned())], ..Reply::default() },
            status => {
                let mut reply = whole(status, "text/html", format!("<p>{status}"));
                reply.fields.push(("retry-after", "7".to_owned()));
                reply
            }
        },
        "empty" => whole(200, "text/plain", ""),
        "until-close" => Reply { framing: Framing::Close, ..whole(200, "text/plain", "to the end") },
        "cut" => Reply { framing: Framing::Cut, ..whole(200, "text/plain", "only a part") },
        _ => {
            let mut fields: Vec<String> = asked
                .fields
                .iter()
                .filter(|(name, _)| !OMITTED.contains(&name.as_str()))
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            fields.sort();
            let sum = asked.body.iter().fold(0_u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            let told = json!({ "method": asked.method, "target": asked.target, "fields": fields, "body": [asked.body.len(), sum] });
            whole(200, "application/json", told.to_string())
        }
    }
}

/// The text that is sent compressed to those who ask for that.
const HELLO: &str = "Hello, hello, hello, hello, hello!";

fn gzip() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(HELLO.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn range(asked: &Asked) -> Reply {
    const BYTES: &str = "0123456789abcdef";
    let asked_for = asked.find("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let same = asked.find("if-range").is_none_or(|tag| tag == "\"r\"");
    let mut reply = match asked_for.filter(|_| same) {
        None => whole(200, "text/plain", BYTES),
        Some(("", count)) => {
            let begin = BYTES.len() - count.parse::<usize>().unwrap_or(1);
            part(BYTES, begin, BYTES.len() - 1)
        }
        Some((begin, end)) => {
            let begin: usize = begin.parse().unwrap_or_default();
            if begin >= BYTES.len() {
                let mut reply = whole(416, "text/plain", "");
                reply.fields.push(("content-range", format!("bytes */{}", BYTES.len())));
                return reply;
            }
            part(BYTES, begin, end.parse().unwrap_or(BYTES.len() - 1))
        }
    };
    reply.fields.push(("accept-ranges", "bytes".to_owned()));
    reply.fields.push(("etag", "\"r\"".to_owned()));
    reply.fields.push(("last-modified", "Wed, 01 Jan 2025 00:00:00 GMT".to_owned()));
    reply
}

fn part(bytes: &str, begin: usize, end: usize) -> Reply {
    let mut reply = whole(206, "text/plain", &bytes.as_bytes()[begin..=end]);
    reply.fields.push(("content-range", format!("bytes {begin}-{end}/{}", bytes.len())));
    reply
}

const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

impl Reply {
    fn write(&self, method: &str, stream: &mut impl Write) -> std::io::Result<()> {
        let mut head = String::new();
        if let Some(link) = self.interim {
            head += &format!("HTTP/1.1 103 Early Hints\r\nlink: {link}\r\n\r\n");
        }
        head += &format!("HTTP/1.1 {} Said\r\ndate: {DATE}\r\n", self.status);
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        let length: usize = self.pieces.iter().map(Vec::len).sum();
        let has_body = ![204, 304].contains(&self.status);
        match self.framing {
            Framing::Length if has_body => head += &format!("content-length: {length}\r\n"),
            Framing::Cut => head += &format!("content-length: {}\r\n", length + 10),
            Framing::Chunked => head += "transfer-encoding: chunked\r\n",
            Framing::Close => head += "connection: close\r\n",
            Framing::Length => {}
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        if method != "HEAD" && has_body {
            let chunked = matches!(self.framing, Framing::Chunked);
            for piece in self.pieces.iter().filter(|piece| !piece.is_empty()) {
                if chunked {
                    bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
                }
                bytes.extend(piece);
                if chunked {
                    bytes.extend(b"\r\n");
                }
            }
            if chunked {
                bytes.extend(b"0\r\n");
                for (name, value) in &self.trailers {
                    bytes.extend(format!("{name}: {value}\r\n").bytes());
                }
                bytes.extend(b"\r\n");
            }
        }
        stream.write_all(&bytes)
    }
}

/// The same over HTTP/2.
async fn answer((request, mut respond): http2::Asked) -> Option<()> {
    let (head, mut body) = request.into_parts();
    let mut asked = Asked { method: head.method.to_string(), ..Asked::default() };
    asked.target = head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    if let Some(authority) = head.uri.authority() {
        asked.fields.push(("host".to_owned(), authority.to_string()));
    }
    for (name, value) in &head.headers {
        asked.fields.push((name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    }
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        asked.body.extend(data);
    }
    let reply = reply(&asked);
    let mut fields = HeaderMap::new();
    fields.insert("date", HeaderValue::from_static(DATE));
    for (name, value) in &reply.fields {
        fields.append(HeaderName::from_static(name), value.parse().ok()?);
    }
    let length: usize = reply.pieces.iter().map(Vec::len).sum();
    let has_body = ![204, 304].contains(&reply.status);
    match reply.framing {
        Framing::Length if has_body => drop(fields.insert("content-length", length.into())),
        Framing::Cut => drop(fields.insert("content-length", (length + 10).into())),
        _ => {}
    }
    if let Some(link) = reply.interim {
        let hint = Response::builder().status(103).header("link", link).body(()).ok()?;
        respond.send_informational(hint).ok()?;
    }
    let mut response = Response::builder().status(reply.status).body(()).ok()?;
    *response.headers_mut() = fields;
    let empty = length == 0 || asked.method == "HEAD" || !has_body;
    let mut send = respond.send_response(response, empty).ok()?;
    if empty {
        return Some(());
    }
    for piece in reply.pieces {
        let mut left = Bytes::from(piece);
        while !left.is_empty() {
            send.reserve_capacity(left.len());
            let room = std::future::poll_fn(|cx| send.poll_capacity(cx)).await?.ok()?.min(left.len());
            send.send_data(left.split_to(room), false).ok()?;
        }
    }
    match reply.framing {
        Framing::Cut => send.send_reset(h2::Reason::INTERNAL_ERROR),
        _ if reply.trailers.is_empty() => send.send_data(Bytes::new(), true).ok()?,
        _ => {
            let mut trailers = HeaderMap::new();
            reply.trailers.iter().for_each(|&(name, value)| {
                trailers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            });
            send.send_trailers(trailers).ok()?;
        }
    }
    Some(())
}
