//! The head of a request: only one that every HTTP implementation reads in one way gets in (RFC 9112; RFC 9110, 7).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE};
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Version};
use httparse::{Error, Header, Request, Status};

use super::fields::imitates;
use super::{Framing, Reuse};

/// More header fields than this no client sends; room for them is kept on the stack.
pub const MOST_FIELDS: usize = 100;

/// A body longer than this is an attack on someone's arithmetic.
const LONGEST_BODY: u64 = (i64::MAX / 2) as u64;

/// A client's request, as far as its head tells.
#[derive(Debug)]
pub struct RequestHead {
    /// The method; neither CONNECT nor TRACE.
    pub method: Method,
    /// Path and query as they came, or `*`.
    pub target: PathAndQuery,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: HeaderMap,
    /// Where the body behind it ends.
    pub framing: Framing,
    /// Whether the connection may serve another request.
    pub reuse: Reuse,
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
    /// What the client is told.
    pub status: StatusCode,
    /// Why, in words of ours: never bytes of the client's.
    pub detail: &'static str,
}

/// The bounds of a head.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of the whole head.
    pub head: usize,
    /// Bytes of the request target.
    pub target: usize,
    /// Header fields, at most [`MOST_FIELDS`].
    pub fields: usize,
}

const fn refuse<T>(detail: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status: StatusCode::BAD_REQUEST, detail })
}

const FIELDS: Refusal =
    Refusal { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail: "the request's header is too large" };
const TARGET: Refusal = Refusal { status: StatusCode::URI_TOO_LONG, detail: "the request's target is too long" };

/// Reads the head that `bytes` begin with, and tells how long it is; nothing, while it is not whole.
///
/// # Errors
/// The reason for which the request must be answered by us, and its connection closed.
pub fn parse(bytes: &[u8], bounds: Bounds) -> Result<Option<(RequestHead, usize)>, Refusal> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_FIELDS];
    let room = bounds.fields.min(MOST_FIELDS);
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields[..room]) {
        Ok(Status::Complete(length)) if length > bounds.head => Err(oversized(bytes, bounds)),
        Ok(Status::Complete(length)) => {
            lines(&bytes[..length])?;
            read(&request, &bytes[..length], bounds).map(|head| Some((head, length)))
        }
        Ok(Status::Partial) if bytes.len() >= bounds.head => Err(oversized(bytes, bounds)),
        Ok(Status::Partial) => Ok(None),
        Err(error) => Err(malformed(error)),
    }
}

fn malformed(error: Error) -> Refusal {
    let detail = match error {
        Error::TooManyHeaders => return FIELDS,
        Error::HeaderName => "a header field's name is malformed",
        Error::HeaderValue => "a header field's value is malformed",
        Error::NewLine => "a line does not end in CR LF",
        Error::Version => "the HTTP version is neither 1.0 nor 1.1",
        Error::Token | Error::Status => "the request line is malformed",
    };
    Refusal { status: StatusCode::BAD_REQUEST, detail }
}

/// Whether the request line or the fields made a head too large.
fn oversized(bytes: &[u8], bounds: Bounds) -> Refusal {
    let line = bytes.iter().take(bounds.head).position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    if line > bounds.target { TARGET } else { FIELDS }
}

/// httparse lets a lone LF end a line.
fn lines(head: &[u8]) -> Result<(), Refusal> {
    let whole = |end: usize| end > 0 && head[end - 1] == b'\r';
    if memchr::memchr_iter(b'\n', head).all(whole) { Ok(()) } else { refuse("a line does not end in CR LF") }
}

fn read(request: &Request<'_, '_>, raw: &[u8], bounds: Bounds) -> Result<RequestHead, Refusal> {
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return refuse("the request line is malformed");
    };
    if matches!(method, "CONNECT" | "TRACE") {
        return refuse("the gateway does not serve CONNECT and TRACE");
    }
    if target.len() > bounds.target {
        return Err(TARGET);
    }
    let shared = Shared { bytes: Bytes::copy_from_slice(raw), from: raw.as_ptr().addr() };
    let mut fields = Fields::new(request.headers.len());
    for field in request.headers.iter() {
        fields.add(field, &shared)?;
    }
    let target = place(method, target, fields.host, &shared)?;
    let framing = fields.framing(version)?;
    let method = Method::from_bytes(method.as_bytes());
    let method = method.map_err(|_| Refusal { status: StatusCode::BAD_REQUEST, detail: "the method is malformed" })?;
    let connection = fields.connection(version);
    Ok(RequestHead {
        method,
        target,
        version: if version == 0 { Version::HTTP_10 } else { Version::HTTP_11 },
        framing,
        reuse: connection.reuse,
        // RFC 9110, 10.1.1: one in HTTP/1.0 is ignored.
        expects: fields.expects && version == 1,
        upgrades: connection.upgrade && fields.upgrades && version == 1,
        trailers: fields.trailers,
        headers: fields.headers,
    })
}

/// A head, copied once: target and values are slices of it.
struct Shared {
    bytes: Bytes,
    /// Where it was copied from.
    from: usize,
}

impl Shared {
    /// What a part of the bytes that were copied is in the copy.
    fn part(&self, part: &[u8]) -> Bytes {
        let at = part.as_ptr().addr().wrapping_sub(self.from);
        match at.checked_add(part.len()) {
            Some(end) if end <= self.bytes.len() => self.bytes.slice(at..end),
            _ => Bytes::copy_from_slice(part),
        }
    }
}

/// What the fields of a head say together.
struct Fields<'a> {
    headers: HeaderMap,
    host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    connects: bool,
    expects: bool,
    upgrades: bool,
    trailers: bool,
}

/// What `Connection` says.
struct Options {
    reuse: Reuse,
    upgrade: bool,
}

impl<'a> Fields<'a> {
    fn new(fields: usize) -> Self {
        let headers = HeaderMap::with_capacity(fields);
        let (host, length, chunked) = (None, None, false);
        Fields { headers, host, length, chunked, connects: false, expects: false, upgrades: false, trailers: false }
    }

    fn add(&mut self, field: &Header<'a>, shared: &Shared) -> Result<(), Refusal> {
        let Header { name, value } = *field;
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                if self.host.replace(authority(value)?).is_some() {
                    return refuse("there are two Host fields");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                if self.length.replace(digits(value)?).is_some() {
                    return refuse("there are two Content-Length fields");
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return refuse("Transfer-Encoding is anything but one chunked");
                }
                self.chunked = true;
            }
            _ if imitates(name) => return refuse("a header field's name imitates one that frames messages"),
            _ => {}
        }
        let malformed = |detail| Refusal { status: StatusCode::BAD_REQUEST, detail };
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| malformed("a header field's name is malformed"))?;
        let value = HeaderValue::from_maybe_shared(shared.part(value));
        let value = value.map_err(|_| malformed("a header field's value is malformed"))?;
        match name {
            CONNECTION => self.connects = true,
            EXPECT => self.expects |= value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
            UPGRADE => self.upgrades = true,
            TE => self.trailers |= lists(value.as_bytes(), b"trailers"),
            _ => {}
        }
        let full = |_| FIELDS;
        self.headers.try_append(name, value).map_err(full)?;
        Ok(())
    }

    fn framing(&self, version: u8) -> Result<Framing, Refusal> {
        match (version, self.host, self.length, self.chunked) {
            (1, None, ..) => refuse("there is no Host field"),
            (0, .., true) => refuse("HTTP/1.0 knows no Transfer-Encoding"),
            (_, _, Some(_), true) => refuse("there are both Content-Length and Transfer-Encoding"),
            (_, _, _, true) => Ok(Framing::Chunked),
            (_, _, None | Some(0), false) => Ok(Framing::Empty),
            (_, _, Some(length), false) => Ok(Framing::Length(length)),
        }
    }

    fn connection(&self, version: u8) -> Options {
        let (mut keeps, mut closes, mut upgrade) = (version == 1, false, false);
        if self.connects {
            let values =
                self.headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
            for option in values.map(<[u8]>::trim_ascii) {
                closes |= option.eq_ignore_ascii_case(b"close");
                keeps |= option.eq_ignore_ascii_case(b"keep-alive");
                upgrade |= option.eq_ignore_ascii_case(b"upgrade");
            }
        }
        Options { reuse: if keeps && !closes { Reuse::Keep } else { Reuse::Close }, upgrade }
    }
}

/// Whether a list names this word.
fn lists(value: &[u8], word: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(word))
}

fn digits(value: &[u8]) -> Result<u64, Refusal> {
    let mut length = 0_u64;
    if value.is_empty() || value.len() > 19 {
        return refuse("Content-Length is not a length");
    }
    for byte in value {
        if !byte.is_ascii_digit() {
            return refuse("Content-Length is not a length");
        }
        length = length.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    }
    if length > LONGEST_BODY { refuse("Content-Length is not a length") } else { Ok(length) }
}

/// Checks `host[:port]`: a name, an IPv4 or a bracketed IPv6 address, and nothing besides.
fn authority(value: &[u8]) -> Result<&[u8], Refusal> {
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
    let port = port.is_none_or(|port| (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit));
    if good && port { Ok(value) } else { refuse("Host is not a host") }
}

/// The request target (RFC 9112, 3.2), without scheme and authority.
fn place(method: &str, target: &str, host: Option<&[u8]>, shared: &Shared) -> Result<PathAndQuery, Refusal> {
    if target.starts_with('/') {
        return path(target, shared);
    }
    if target == "*" {
        return match method {
            "OPTIONS" => Ok(PathAndQuery::from_static("*")),
            _ => refuse("only OPTIONS may ask for *"),
        };
    }
    let Some((scheme, rest)) = target.split_once("://") else {
        return refuse("the request's target is neither a path nor a URL");
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return refuse("the request's target has a scheme other than http and https");
    }
    let (named, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let named = authority(named.as_bytes())?;
    if host.is_some_and(|host| !host.eq_ignore_ascii_case(named)) {
        return refuse("the request's target and Host differ");
    }
    match tail.starts_with('/') {
        true => path(tail, shared),
        // `http://h` and `http://h?q` ask for the root.
        false => path(&format!("/{tail}"), shared),
    }
}

/// Bytes of a path that mean the same to everyone. A fragment never travels; a backslash is a slash to some, and
/// bytes beyond ASCII are whatever one takes them for.
const PATH: [bool; 256] = permitted(b"");
const QUERY: [bool; 256] = permitted(b"?\\^");

const fn permitted(more: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let at = byte as u8;
        table[byte] = matches!(at, b'!' | b'$'..=b';' | b'=' | b'@'..=b'[' | b']' | b'_' | b'a'..=b'~' );
        byte += 1;
    }
    let mut at = 0;
    while at < more.len() {
        table[more[at] as usize] = true;
        at += 1;
    }
    table
}

fn path(target: &str, shared: &Shared) -> Result<PathAndQuery, Refusal> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let fits = |text: &str, table: &[bool; 256]| text.bytes().all(|byte| table[usize::from(byte)]);
    if fits(path, &PATH)
        && fits(query, &QUERY)
        && let Ok(target) = PathAndQuery::from_maybe_shared(shared.part(target.as_bytes()))
    {
        return Ok(target);
    }
    refuse("the request's target holds a byte that must be percent-encoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { head: 1024, target: 256, fields: 16 };

    fn read(head: &[u8]) -> Result<Option<(RequestHead, usize)>, u16> {
        parse(head, BOUNDS).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn a_target_is_handed_on_as_it_came_or_refused() {
        for byte in 0..=u8::MAX {
            for prefix in ["/a", "/a?q=", "http://h/a", "http://h/a?", "http://h?"] {
                let mut target = prefix.as_bytes().to_vec();
                target.push(byte);
                let mut head = b"GET ".to_vec();
                head.extend_from_slice(&target);
                head.extend_from_slice(b" HTTP/1.1\r\nhost: h\r\n\r\n");
                if let Ok(Some((head, _))) = read(&head) {
                    assert!(head.target.as_str().as_bytes().ends_with(&[byte]), "{} hides {byte:?}", head.target);
                    assert!(head.target.as_str().starts_with('/'), "{}", head.target);
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
