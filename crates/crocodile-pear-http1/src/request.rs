//! The head of a request: only one that every HTTP implementation reads in one way gets in (RFC 9112; RFC 9110, 7).

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, Version, header};

use crate::fields::imitates;
use crate::framing::{Framing, Reuse};
use crate::headers::{Headers, Seen};
use crate::line::{self, FieldLine, LineEnd, LineFault, is_token};
use crate::list::members;
use crate::target;

/// More header fields than this no client sends.
pub const MOST_FIELDS: usize = 100;

/// A body longer than this is an attack on someone's arithmetic.
const LONGEST_BODY: u64 = (i64::MAX / 2) as u64;

/// The head of a request. Its fields are read when they are asked for.
#[derive(Debug)]
pub struct RequestHead {
    /// The method; neither CONNECT nor TRACE.
    pub method: Method,
    /// Path and query in their one form, or `*`.
    pub target: PathAndQuery,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: Headers,
    /// Where the body behind it ends.
    pub framing: Framing,
    /// Whether the connection may serve another request.
    pub reuse: Reuse,
    /// Whether the client asks for a connection that is kept, in words.
    pub asks_to_keep: bool,
    /// Whether the client waits for a word before it sends the body.
    pub expects: bool,
    /// Whether the client asks to speak another protocol from here on.
    pub upgrades: bool,
    /// Whether the client takes trailers (RFC 9110, 6.5.1).
    pub trailers: bool,
}

/// Why a request does not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer to the client.
    pub status: StatusCode,
    /// Why, in words of ours: never bytes of the client's.
    pub detail: &'static str,
}

/// The bounds of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadBounds {
    /// Bytes of the whole head.
    pub head: usize,
    /// Bytes of the request target.
    pub target: usize,
    /// Header fields, at most [`MOST_FIELDS`].
    pub fields: usize,
}

const fn refuse<T>(detail: &'static str) -> Result<T, Refusal> {
    Err(Refusal::bad(detail))
}

impl Refusal {
    const fn bad(detail: &'static str) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, detail }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail)
    }
}

impl Error for Refusal {}

/// The fields are too many or too large.
pub const FIELDS: Refusal =
    Refusal { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail: "the request's header is too large" };
const HOST: Refusal = Refusal { status: StatusCode::BAD_REQUEST, detail: "Host is not valid" };
/// CONNECT is not served.
pub const CONNECT: Refusal =
    Refusal { status: StatusCode::NOT_IMPLEMENTED, detail: "the gateway does not serve CONNECT" };
/// TRACE is not served.
pub const TRACE: Refusal =
    Refusal { status: StatusCode::METHOD_NOT_ALLOWED, detail: "the gateway does not serve TRACE" };
/// The target is too long.
pub const TARGET: Refusal = Refusal { status: StatusCode::URI_TOO_LONG, detail: "the request's target is too long" };
const METHOD: Refusal = Refusal { status: StatusCode::BAD_REQUEST, detail: "the method is too long" };

/// Parses the head at the start of `bytes`, and returns its length; `None` if it is not complete.
///
/// # Errors
/// The reason for which the request must be answered by us, and its connection closed.
pub fn parse(bytes: &[u8], bounds: HeadBounds) -> Result<Option<(Box<RequestHead>, usize)>, Refusal> {
    match read(bytes, bounds) {
        Ok((_, length)) if length > bounds.head => Err(oversized(bytes, bounds)),
        Ok(whole) => Ok(Some(whole)),
        Err(HeadFault::Partial) if bytes.len() >= bounds.head => Err(oversized(bytes, bounds)),
        Err(HeadFault::Partial) => Ok(None),
        Err(HeadFault::Refused(refusal)) => Err(refusal),
    }
}

/// Why the head is not valid.
enum HeadFault {
    Partial,
    Refused(Refusal),
}

impl From<Refusal> for HeadFault {
    fn from(refusal: Refusal) -> Self {
        HeadFault::Refused(refusal)
    }
}

impl From<LineFault> for HeadFault {
    fn from(fault: LineFault) -> Self {
        let detail = match fault {
            LineFault::Partial => return HeadFault::Partial,
            LineFault::Name => "a header field's name is malformed",
            LineFault::Value => "a header field's value is malformed",
            LineFault::End => "a line does not end in CR LF",
        };
        HeadFault::Refused(Refusal { status: StatusCode::BAD_REQUEST, detail })
    }
}

/// Whether the request line or the fields made a head too large.
fn oversized(bytes: &[u8], bounds: HeadBounds) -> Refusal {
    if bytes.iter().take(bounds.target).all(|byte| is_token(*byte)) {
        return METHOD;
    }
    let line = bytes.iter().take(bounds.head).position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    if line > bounds.target { TARGET } else { FIELDS }
}

/// Method, target and version, as in the first line.
struct RequestLine<'a> {
    method: &'a [u8],
    target: Cow<'a, str>,
    /// The minor version.
    version: u8,
    /// Where the next line begins.
    next: usize,
}

fn request_line(bytes: &[u8]) -> Result<RequestLine<'_>, HeadFault> {
    const MALFORMED: Refusal = Refusal { status: StatusCode::BAD_REQUEST, detail: "the request line is malformed" };
    let mut start = 0;
    // RFC 9112, 2.2: empty lines before a request are passed over.
    while let [b'\r', b'\n', ..] = &bytes[start..] {
        start += 2;
    }
    let line = &bytes[start..];
    let method = line.iter().position(|byte| !is_token(*byte));
    let method = match method {
        Some(length @ 1..) if line[length] == b' ' => &line[..length],
        Some(0) if line == b"\r" => return Err(HeadFault::Partial),
        Some(0) if line[0] == b'\n' => return Err(LineFault::End.into()),
        Some(_) => return Err(MALFORMED.into()),
        None => return Err(HeadFault::Partial),
    };
    let at = method.len() + 1;
    let (length, clean) = target::scan(&line[at..]);
    match line.get(at + length) {
        None => return Err(HeadFault::Partial),
        Some(b' ') if length > 0 => {}
        Some(_) => return Err(MALFORMED.into()),
    }
    let target = &line[at..at + length];
    let target = match clean {
        true => Cow::Borrowed(std::str::from_utf8(target).map_err(|_| MALFORMED)?),
        false => target::canonical(target).map_err(Refusal::bad)?,
    };
    let after = &line[at + length + 1..];
    let version = match after {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', version @ (b'0' | b'1'), b'\r', b'\n', ..] => version - b'0',
        _ => return Err(no_version(after)),
    };
    Ok(RequestLine { method, target, version, next: start + at + length + 11 })
}

/// The text in the place of the version, unless the line was only cut.
fn no_version(after: &[u8]) -> HeadFault {
    let refuse = |detail| HeadFault::Refused(Refusal { status: StatusCode::BAD_REQUEST, detail });
    for version in [b"HTTP/1.1\r\n", b"HTTP/1.0\r\n"] {
        if version.starts_with(after) {
            return HeadFault::Partial;
        }
        if after.starts_with(&version[..8]) {
            return match after[8..] {
                [b'\n', ..] => refuse("a line does not end in CR LF"),
                _ => refuse("the request line is malformed"),
            };
        }
    }
    refuse("the HTTP version is neither 1.0 nor 1.1")
}

fn read(bytes: &[u8], bounds: HeadBounds) -> Result<(Box<RequestHead>, usize), HeadFault> {
    let line = request_line(bytes)?;
    let mut fields = HeadFields::default();
    let mut at = line.next;
    for number in 0.. {
        let (field, next) = line::field(bytes, at, LineEnd::Crlf)?;
        at = next;
        let Some(field) = field else { break };
        if number == bounds.fields.min(MOST_FIELDS) {
            return Err(FIELDS.into());
        }
        fields.add(&field)?;
    }
    let RequestLine { method, target, version, next } = line;
    match method {
        b"CONNECT" => return Err(CONNECT.into()),
        b"TRACE" => return Err(TRACE.into()),
        _ => {}
    }
    if target.len() > bounds.target {
        return Err(TARGET.into());
    }
    let (target, authority) = place(method, &target)?;
    let framing = fields.framing(version)?;
    let method = Method::from_bytes(method);
    let method = method.map_err(|_| Refusal { status: StatusCode::BAD_REQUEST, detail: "the method is malformed" })?;
    let keeps = (version == 1 || fields.keeps) && !fields.closes;
    let mut headers = Headers::of_lines(Bytes::copy_from_slice(&bytes[next..at]), fields.seen);
    // RFC 9112, 3.2.2: the host of the target counts, not the Host field.
    if let Some(authority) = authority.filter(|authority| fields.host != Some(authority.as_bytes())) {
        let host = HeaderValue::from_str(authority).map_err(|_| HOST)?;
        headers.insert(header::HOST, host);
    }
    // Boxed: it goes through many hands.
    let head = Box::new(RequestHead {
        method,
        target,
        version: if version == 0 { Version::HTTP_10 } else { Version::HTTP_11 },
        framing,
        reuse: if keeps { Reuse::Keep } else { Reuse::Close },
        asks_to_keep: fields.keeps,
        // RFC 9110, 10.1.1: one in HTTP/1.0 is ignored.
        expects: fields.expects && version == 1,
        upgrades: fields.names_upgrade && fields.upgrades && version == 1,
        trailers: fields.trailers,
        headers,
    });
    Ok((head, at))
}

/// The fields of a head, taken together.
#[derive(Default)]
struct HeadFields<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
    keeps: bool,
    /// `Connection` names `Upgrade`.
    names_upgrade: bool,
    upgrades: bool,
    expects: bool,
    trailers: bool,
    seen: Seen,
}

impl<'a> HeadFields<'a> {
    fn add(&mut self, field: &FieldLine<'a>) -> Result<(), Refusal> {
        let FieldLine { name, value, odd } = *field;
        match name.len() {
            _ if odd && imitates(name) => {
                return refuse("a header field's name looks like one for framing");
            }
            4 if name.eq_ignore_ascii_case(b"host") => {
                let first = self.host.replace(authority(value)?).is_none();
                return if first { Ok(()) } else { refuse("there are two Host fields") };
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let first = self.length.replace(digits(value)?).is_none();
                return if first { Ok(()) } else { refuse("there are two Content-Length fields") };
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return refuse("Transfer-Encoding is not `chunked` alone");
                }
                self.chunked = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.closes |= lists(value, b"close");
                self.keeps |= lists(value, b"keep-alive");
                self.names_upgrade |= lists(value, b"upgrade");
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrades = true,
            6 if name.eq_ignore_ascii_case(b"expect") => self.expects |= value.eq_ignore_ascii_case(b"100-continue"),
            3 if name.eq_ignore_ascii_case(b"via") => self.seen.forwarded = true,
            12 if name.eq_ignore_ascii_case(b"max-forwards") => self.seen.forwarded = true,
            11 if name.eq_ignore_ascii_case(b"traceparent") => self.seen.traced = true,
            2 if name.eq_ignore_ascii_case(b"te") => self.trailers |= lists(value, b"trailers"),
            _ => {}
        }
        Ok(())
    }

    fn framing(&self, version: u8) -> Result<Framing, Refusal> {
        match (version, self.host, self.length, self.chunked) {
            (1, None, ..) => refuse("there is no Host field"),
            (0, .., true) => refuse("HTTP/1.0 does not have Transfer-Encoding"),
            (_, _, Some(_), true) => refuse("there are both Content-Length and Transfer-Encoding"),
            (_, _, _, true) => Ok(Framing::Chunked),
            (_, _, None | Some(0), false) => Ok(Framing::Empty),
            (_, _, Some(length), false) => Ok(Framing::Length(length)),
        }
    }
}

/// Whether a list names this word.
fn lists(value: &[u8], word: &[u8]) -> bool {
    members(value).any(|option| option.eq_ignore_ascii_case(word))
}

/// Reads a length: digits only.
///
/// # Errors
/// The value is anything else, or a number out of all proportion.
pub fn digits(value: &[u8]) -> Result<u64, Refusal> {
    let mut length = 0_u64;
    if value.is_empty() || value.len() > 19 {
        return refuse("Content-Length is not valid");
    }
    for byte in value {
        if !byte.is_ascii_digit() {
            return refuse("Content-Length is not valid");
        }
        length = length.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    }
    if length > LONGEST_BODY { refuse("Content-Length is not valid") } else { Ok(length) }
}

/// Checks `host[:port]`: a name, an IPv4 or a bracketed IPv6 address, and nothing besides. A port may be empty (RFC 3986,
/// 3.2.3).
///
/// # Errors
/// The value is anything else.
pub fn authority(value: &[u8]) -> Result<&[u8], Refusal> {
    let (host, port) = match value.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !value.ends_with(b"]") => (&value[..colon], Some(&value[colon + 1..])),
        _ => (value, None),
    };
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let good = match host {
        [b'[', inner @ .., b']'] => !inner.is_empty() && inner.iter().all(address),
        _ => !host.is_empty() && host.iter().all(name),
    };
    let port = port.is_none_or(|port| port.len() <= 5 && port.iter().all(u8::is_ascii_digit));
    if good && port { Ok(value) } else { Err(HOST) }
}

/// The request target (RFC 9112, 3.2) without scheme and authority, and the authority if there is one.
fn place<'a>(method: &[u8], target: &'a str) -> Result<(PathAndQuery, Option<&'a str>), Refusal> {
    if target.starts_with('/') {
        return Ok((path(target)?, None));
    }
    if target == "*" {
        return match method {
            b"OPTIONS" => Ok((PathAndQuery::from_static("*"), None)),
            _ => refuse("only OPTIONS may have the target *"),
        };
    }
    let Some((scheme, rest)) = target.split_once("://") else {
        return refuse("the request's target is neither a path nor a URL");
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return refuse("the request's target has a scheme other than http and https");
    }
    let (named, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    authority(named.as_bytes())?;
    let target = match tail.starts_with('/') {
        true => path(tail)?,
        // `http://h` and `http://h?q` ask for the root, or for the whole server (RFC 9112, 3.2.4).
        false if tail.is_empty() && method == b"OPTIONS" => PathAndQuery::from_static("*"),
        false => path(&format!("/{tail}"))?,
    };
    Ok((target, Some(named)))
}

/// A target in its one form.
fn path(target: &str) -> Result<PathAndQuery, Refusal> {
    PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(target.as_bytes()))
        .map_err(|_| Refusal::bad("the request's target is malformed"))
}

/// A target that comes without scheme and authority, as in HTTP/2, in its one form.
///
/// # Errors
/// The refusals of HTTP/1.1.
pub fn admit_target(method: &Method, target: PathAndQuery) -> Result<PathAndQuery, Refusal> {
    match target.as_str() {
        "*" if *method == Method::OPTIONS => return Ok(target),
        "*" => return refuse("only OPTIONS may have the target *"),
        path if !path.starts_with('/') => return refuse("the request's target is not a path"),
        _ => {}
    }
    match target::canonical(target.as_str().as_bytes()).map_err(Refusal::bad)? {
        Cow::Borrowed(_) => Ok(target),
        Cow::Owned(encoded) => path(&encoded),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::*;

    const BOUNDS: HeadBounds = HeadBounds { head: 1024, target: 256, fields: 16 };

    fn read(head: &[u8]) -> Result<Option<(Box<RequestHead>, usize)>, u16> {
        parse(head, BOUNDS).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn a_target_is_handed_on_in_one_form_or_refused() {
        for byte in 0..=u8::MAX {
            for prefix in ["/a", "/a?q=", "http://h/a", "http://h/a?", "http://h?"] {
                let mut target = prefix.as_bytes().to_vec();
                target.push(byte);
                let mut head = b"GET ".to_vec();
                head.extend_from_slice(&target);
                head.extend_from_slice(b" HTTP/1.1\r\nhost: h\r\n\r\n");
                if let Ok(Some((head, _))) = read(&head) {
                    let path = head.target.as_str();
                    let kept = path.as_bytes().ends_with(&[byte]) || path.ends_with(&format!("%{byte:02X}"));
                    assert!(kept, "{path} hides {byte:?}");
                    assert!(path.starts_with('/'), "{path}");
                }
            }
        }
    }

    #[test]
    fn a_head_in_pieces_waits_until_it_is_too_large() {
        let head = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
        for length in 0..head.len() {
            assert!(matches!(read(&head[..length]), Ok(None)));
        }
        let (whole, length) = read(head).expect("good").expect("whole");
        assert_eq!((length, whole.framing, whole.reuse), (head.len(), Framing::Empty, Reuse::Keep));
        let long = |start: &str| [start.as_bytes(), &[b'a'; 1024]].concat();
        assert_eq!(read(&long("GET / HTTP/1.1\r\nx: ")).err(), Some(431));
        assert_eq!(read(&long("GET /")).err(), Some(414));
        let fields = format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", "a: b\r\n".repeat(16));
        assert_eq!(read(fields.as_bytes()).err(), Some(431));
    }

    #[test]
    fn the_connection_is_kept_as_its_version_and_options_say() {
        let head = |version: &str, fields: &str| {
            let head = format!("GET / HTTP/{version}\r\nhost: h\r\n{fields}\r\n");
            read(head.as_bytes()).expect("good").expect("whole").0
        };
        for (version, fields, reuse) in [
            ("1.1", "", Reuse::Keep),
            ("1.1", "connection: x, Close\r\n", Reuse::Close),
            ("1.1", "connection: keep-alive\r\nconnection: close\r\n", Reuse::Close),
            ("1.0", "", Reuse::Close),
            ("1.0", "connection: Keep-Alive\r\n", Reuse::Keep),
        ] {
            assert_eq!(head(version, fields).reuse, reuse, "{version} {fields}");
        }
        let upgrade = "connection: keep-alive, Upgrade\r\nupgrade: websocket\r\n";
        assert!(head("1.1", upgrade).upgrades);
        assert!(!head("1.0", upgrade).upgrades);
        assert!(!head("1.1", "upgrade: websocket\r\n").upgrades);
        assert!(head("1.1", "expect: 100-Continue\r\n").expects);
        assert!(!head("1.0", "expect: 100-continue\r\n").expects);
    }
}
