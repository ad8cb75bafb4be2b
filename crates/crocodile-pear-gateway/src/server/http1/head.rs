//! The head of an answer to a client: its framing and its bytes. The framing is decided here; framing fields that the
//! handler copied from elsewhere are ignored.

use crocodile_pear::unstable::http::http1::request::RequestHead;
use crocodile_pear::unstable::http::http1::trailers::may_trail;
use crocodile_pear::unstable::http::http1::{Reuse, write};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TE, TRAILER, UPGRADE};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode, Version};
use tokio::time::Instant;

use super::super::interim::write_status;
use super::super::outgoing::{content_length, declared, is_bodiless, with_date};

/// The properties of a request that decide the framing of its answer.
pub struct ResponseConstraints {
    pub head_only: bool,
    pub version: Version,
    pub reuse: Reuse,
    /// Whether the client asks for a connection that is kept, in words.
    pub asks_to_keep: bool,
    /// Whether the client takes trailers (RFC 9110, 6.5.1).
    pub trailers: bool,
    /// Whether the request was refused before it was read whole.
    pub unread: bool,
}

impl ResponseConstraints {
    pub fn from_head(head: &RequestHead) -> Self {
        let head_only = head.method == Method::HEAD;
        let RequestHead { version, reuse, asks_to_keep, trailers, .. } = *head;
        ResponseConstraints { head_only, version, reuse, asks_to_keep, trailers, unread: false }
    }

    /// For a request that could not be read.
    pub fn unread() -> Self {
        ResponseConstraints {
            head_only: false,
            version: Version::HTTP_11,
            reuse: Reuse::Close,
            asks_to_keep: false,
            trailers: false,
            unread: true,
        }
    }
}

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// There is no body.
    Nothing,
    /// After so many more bytes.
    Length(u64),
    /// After the last chunk.
    Chunks,
    /// When the connection ends.
    Close,
}

/// Decides the framing of an answer, given the length of its body if known, and the value of `Content-Length`.
pub fn delimit<T>(
    response: &Response<T>,
    length: Option<u64>,
    asked: &ResponseConstraints,
) -> (Delimiter, Option<u64>) {
    let length = content_length(response.status(), declared(response.headers()), length);
    let delimiter = match length {
        _ if asked.head_only || is_bodiless(response.status()) => Delimiter::Nothing,
        Some(length) => Delimiter::Length(length),
        None if asked.version == Version::HTTP_10 => Delimiter::Close,
        None => Delimiter::Chunks,
    };
    (delimiter, length)
}

/// The fate of the connection, as a head says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The connection stays open, the default of HTTP/1.1.
    Kept,
    /// The connection stays open, and so many seconds while it is idle: for clients that ask, and for those of HTTP/1.0.
    KeptFor(u64),
    /// The connection closes after this answer.
    Closing,
    /// The connection changes to another protocol.
    Switching,
}

pub fn write_head(
    out: &mut Vec<u8>,
    status: StatusCode,
    headers: &HeaderMap,
    delimiter: Delimiter,
    length: Option<u64>,
    persistence: Persistence,
    now: Instant,
) {
    write_status(out, status);
    let mut dated = false;
    for (name, value) in headers.iter().filter(|(name, _)| !ours(name, delimiter)) {
        dated |= *name == DATE;
        write::field(out, name.as_str().as_bytes(), value);
    }
    match (length, delimiter) {
        (Some(length), _) => write::content_length(out, length),
        (None, Delimiter::Chunks) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        _ => {}
    }
    match persistence {
        // RFC 9110, 7.8: `Upgrade` in a 426 is a field of this connection.
        persistence if status == StatusCode::UPGRADE_REQUIRED && headers.contains_key(UPGRADE) => {
            out.extend_from_slice(match persistence {
                Persistence::Closing => b"connection: close, upgrade\r\n",
                _ => b"connection: upgrade\r\n",
            });
        }
        Persistence::Kept => {}
        Persistence::KeptFor(seconds) => {
            out.extend_from_slice(b"connection: keep-alive\r\n");
            if seconds > 0 {
                out.extend_from_slice(b"keep-alive: timeout=");
                out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
        Persistence::Closing => out.extend_from_slice(b"connection: close\r\n"),
        Persistence::Switching => out.extend_from_slice(b"connection: upgrade\r\n"),
    }
    if !dated {
        with_date(now, |date| write::field(out, b"date", date));
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the last chunk and the trailers.
pub fn write_end(out: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    let fields = trailers.into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| may_trail(name)) {
        write::field(out, name.as_str().as_bytes(), value);
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether the server writes this field itself.
fn ours(name: &HeaderName, delimiter: Delimiter) -> bool {
    // Checks the first letter, which rules out most names.
    match name.as_str().as_bytes()[0] {
        b'c' => *name == CONTENT_LENGTH || *name == CONNECTION,
        b'k' => name.as_str() == "keep-alive",
        b'p' => name.as_str() == "proxy-connection",
        b't' => {
            name.as_str() == "transfer-encoding" || *name == TE || (*name == TRAILER && delimiter != Delimiter::Chunks)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, version: Version) -> ResponseConstraints {
        ResponseConstraints {
            head_only: method == Method::HEAD,
            version,
            reuse: Reuse::Keep,
            asks_to_keep: false,
            trailers: false,
            unread: false,
        }
    }

    #[test]
    fn the_framing_is_what_status_method_and_version_say() {
        let response = |status: u16, length: Option<&'static str>| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            if let Some(length) = length {
                response.headers_mut().insert(CONTENT_LENGTH, length.parse().expect("a value"));
            }
            response
        };
        let (new, old) = (asked(Method::GET, Version::HTTP_11), asked(Method::GET, Version::HTTP_10));
        let head = asked(Method::HEAD, Version::HTTP_11);
        use Delimiter::{Chunks, Close, Length, Nothing};
        for (status, declared, known, asked, delimiter, said) in [
            (200, None, Some(5), &new, Length(5), Some(5)),
            (200, Some("7"), None, &new, Length(7), Some(7)),
            (200, Some("x"), None, &new, Chunks, None),
            (200, None, None, &new, Chunks, None),
            (200, None, None, &old, Close, None),
            (200, Some("7"), Some(0), &head, Nothing, Some(7)),
            (200, None, Some(5), &head, Nothing, Some(5)),
            (200, None, None, &head, Nothing, None),
            (204, Some("7"), Some(0), &new, Nothing, None),
            (205, Some("7"), None, &new, Nothing, Some(0)),
            (304, Some("7"), Some(0), &new, Nothing, Some(7)),
            (304, None, Some(0), &new, Nothing, None),
        ] {
            assert_eq!(delimit(&response(status, declared), known, asked), (delimiter, said), "{status} {declared:?}");
        }
    }

    #[test]
    fn what_frames_is_written_once_and_by_us() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-length", "9"),
            ("transfer-encoding", "gzip"),
            ("connection", "x"),
            ("keep-alive", "timeout=5"),
            ("trailer", "a"),
            ("set-cookie", "a"),
            ("set-cookie", "b"),
            ("date", "today"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().expect("a value"));
        }
        let mut out = Vec::new();
        write_head(
            &mut out,
            StatusCode::OK,
            &headers,
            Delimiter::Length(5),
            Some(5),
            Persistence::Closing,
            Instant::now(),
        );
        let text = String::from_utf8(out).expect("text");
        let mut lines: Vec<&str> = text.trim_end().split("\r\n").collect();
        lines.sort_unstable();
        let wanted = [
            "HTTP/1.1 200 OK",
            "connection: close",
            "content-length: 5",
            "date: today",
            "set-cookie: a",
            "set-cookie: b",
        ];
        assert_eq!(lines, wanted);
    }
}
