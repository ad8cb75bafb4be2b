//! Which request heads get in: only those that every HTTP implementation reads in one way (RFC 9112, 9110 section 7).

use std::mem::MaybeUninit;

use http::StatusCode;
use httparse::{Error, Header, Request, Status};

/// More header fields than this no client sends; hyper keeps room for them on its stack.
pub const MOST_HEADERS: usize = 100;

/// Names that decide where a message ends, who it is for, or that belong to one connection only.
const FRAMING: [&str; 11] = [
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "content-encoding",
];

/// A body longer than this is an attack on someone's arithmetic.
const LONGEST_BODY: u64 = (i64::MAX / 2) as u64;

/// How the body behind a head is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// So many bytes.
    Sized(u64),
    /// Chunks.
    Chunked,
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
    /// Header fields, at most [`MOST_HEADERS`].
    pub headers: usize,
}

/// What a look at the bytes of a head tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The head is not whole yet.
    Partial,
    /// The head is so long, and gets in.
    Admitted(usize, Framing),
}

const fn refuse<T>(detail: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status: StatusCode::BAD_REQUEST, detail })
}

/// Rules on the head that `bytes` begin with.
///
/// # Errors
/// The reason for which the request must be answered by us, and its connection closed.
pub fn admit(bytes: &[u8], bounds: Bounds) -> Result<Ruling, Refusal> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_HEADERS];
    let room = bounds.headers.min(MOST_HEADERS);
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut headers[..room]) {
        Ok(Status::Complete(length)) => {
            if length > bounds.head {
                return Err(oversized(bytes, bounds));
            }
            lines(&bytes[..length])?;
            Ok(Ruling::Admitted(length, rule(&request, bounds)?))
        }
        Ok(Status::Partial) if bytes.len() >= bounds.head => Err(oversized(bytes, bounds)),
        Ok(Status::Partial) => Ok(Ruling::Partial),
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

const FIELDS: Refusal =
    Refusal { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail: "the request's header is too large" };
const TARGET: Refusal = Refusal { status: StatusCode::URI_TOO_LONG, detail: "the request's target is too long" };

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

fn rule(request: &Request<'_, '_>, bounds: Bounds) -> Result<Framing, Refusal> {
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return refuse("the request line is malformed");
    };
    if matches!(method, "CONNECT" | "TRACE") {
        return refuse("the gateway does not serve CONNECT and TRACE");
    }
    if target.len() > bounds.target {
        return Err(TARGET);
    }

    let mut host = None;
    let mut length = None;
    let mut chunked = false;
    for Header { name, value } in request.headers.iter() {
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                if host.replace(authority(value)?).is_some() {
                    return refuse("there are two Host fields");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                if length.replace(digits(value)?).is_some() {
                    return refuse("there are two Content-Length fields");
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return refuse("Transfer-Encoding is anything but one chunked");
                }
                chunked = true;
            }
            _ => disguise(name)?,
        }
    }
    place(method, target, host)?;
    match (version, host, length, chunked) {
        (1, None, ..) => refuse("there is no Host field"),
        (0, .., true) => refuse("HTTP/1.0 knows no Transfer-Encoding"),
        (_, _, Some(_), true) => refuse("there are both Content-Length and Transfer-Encoding"),
        (_, _, _, true) => Ok(Framing::Chunked),
        (_, _, None | Some(0), false) => Ok(Framing::Empty),
        (_, _, Some(length), false) => Ok(Framing::Sized(length)),
    }
}

/// CGI-like servers read `content_length` as `content-length`, others drop what they do not know:
/// a name that differs from a framing one by punctuation alone has two readings.
fn disguise(name: &str) -> Result<(), Refusal> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    if name.as_bytes().iter().all(plain) {
        return Ok(());
    }
    let letters = |name: &'static str| name.bytes().filter(|byte| *byte != b'-');
    let bare = || name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    if FRAMING.iter().any(|framing| letters(framing).eq(bare())) {
        return refuse("a header field's name imitates one that frames messages");
    }
    Ok(())
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

/// Checks the request target (RFC 9112, 3.2).
fn place(method: &str, target: &str, host: Option<&[u8]>) -> Result<(), Refusal> {
    if target.starts_with('/') {
        return path(target);
    }
    if target == "*" {
        return if method == "OPTIONS" { Ok(()) } else { refuse("only OPTIONS may ask for *") };
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
    path(tail)
}

/// A fragment never travels; a backslash is a slash to some, and bytes beyond ASCII are whatever one takes them for.
fn path(target: &str) -> Result<(), Refusal> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let common =
        |byte| matches!(byte, b'!' | b'$'..=b';' | b'=' | b'@'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'|' | b'~');
    let braces = |byte| matches!(byte, b'{' | b'}');
    if path.bytes().all(|byte| common(byte) || braces(byte))
        && query.bytes().all(|byte| common(byte) || braces(byte) || matches!(byte, b'?' | b'\\' | b'^'))
    {
        return Ok(());
    }
    refuse("the request's target holds a byte that must be percent-encoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { head: 1024, target: 256, headers: 16 };

    fn ruling(head: &[u8]) -> Result<Ruling, u16> {
        admit(head, BOUNDS).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn what_is_let_in_hyper_can_read() {
        for byte in 0..=u8::MAX {
            for prefix in ["/a", "/a?q=", "http://h/a", "http://h/a?"] {
                let mut target = prefix.as_bytes().to_vec();
                target.push(byte);
                let mut head = b"GET ".to_vec();
                head.extend_from_slice(&target);
                head.extend_from_slice(b" HTTP/1.1\r\nhost: h\r\n\r\n");
                if matches!(ruling(&head), Ok(Ruling::Admitted(..))) {
                    let uri = http::Uri::try_from(target.as_slice()).expect("an admitted target");
                    assert!(uri.to_string().as_bytes().ends_with(&[byte]), "{uri} hides {byte:?}");
                }
            }
        }
    }

    #[test]
    fn a_head_in_pieces_waits_until_it_is_too_large() {
        let head = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
        for length in 0..head.len() {
            assert_eq!(ruling(&head[..length]), Ok(Ruling::Partial));
        }
        assert_eq!(ruling(head), Ok(Ruling::Admitted(head.len(), Framing::Empty)));
        let long = |start: &str| [start.as_bytes(), &[b'a'; 1024]].concat();
        assert_eq!(ruling(&long("GET / HTTP/1.1\r\nx: ")), Err(431));
        assert_eq!(ruling(&long("GET /")), Err(414));
        let fields = format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", "a: b\r\n".repeat(16));
        assert_eq!(ruling(fields.as_bytes()), Err(431));
    }
}
