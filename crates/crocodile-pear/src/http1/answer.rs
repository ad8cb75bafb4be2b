//! The head of an answer: where it ends, what it says, and how the body behind it is framed (RFC 9112, 4 to 6).

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::fields::hop_by_hop;
use super::framing::Framing;
use super::line::{self, FieldLine, LineEnd};
use super::{Broken, Reuse, name};

/// Fields one head may have; what hyper and Apache allow is of the same order.
const MAX_FIELDS: usize = 128;

/// An answer's head, hop-by-hop fields already gone.
pub struct AnswerHead {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, end-to-end ones only.
    pub headers: HeaderMap,
    /// Where its body ends.
    pub framing: Framing,
    /// Whether the connection may be used again.
    pub reuse: Reuse,
    /// The protocol that a 101 switches to.
    pub upgrade: Option<HeaderValue>,
}

/// What was asked, as far as it decides whether the answer has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A HEAD.
    Head,
    /// Anything else.
    Other,
}

/// Reads a complete head.
///
/// # Errors
/// Also where RFC 9112 only allows to refuse: ambiguous framing is never guessed at.
pub fn parse(raw: &[u8], asked: Asked) -> Result<AnswerHead, Broken> {
    const NO_HTTP: Broken = Broken("the head of the answer is not HTTP");
    let (version, status, mut at) = status_line(raw).ok_or(NO_HTTP)?;
    let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() < 600);
    let status = status.ok_or(Broken("the answer's status is not one of HTTP"))?;
    // Copied once; every value is a slice of it.
    let shared = Bytes::copy_from_slice(&raw[at..]);
    let from = at;
    let lines = memchr::memchr_iter(b'\n', &raw[at..]).count();
    let mut gathered = Gathered::with_capacity(lines.min(MAX_FIELDS));
    for number in 0.. {
        let (line, next) = line::field(raw, at, LineEnd::Lf).map_err(|_| NO_HTTP)?;
        let Some(line) = line else { break };
        if number == MAX_FIELDS {
            return Err(Broken("the answer has too many header fields"));
        }
        gathered.add(&line, raw, from, &shared)?;
        at = next;
    }
    gathered.decide(status, version, asked)
}

/// Version, status, and where the fields begin. What the reason says means nothing.
fn status_line(raw: &[u8]) -> Option<(u8, u16, usize)> {
    let (version, rest) = match raw {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', version @ (b'0' | b'1'), b' ', rest @ ..] => (version - b'0', rest),
        _ => return None,
    };
    let [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ' | b'\r' | b'\n', ..] = rest else { return None };
    let status = [a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    let (_, next) = line::value(raw, 12, LineEnd::Lf).ok()?;
    Some((version, status, next))
}

/// What the fields of a head say together.
struct Gathered<'a> {
    headers: HeaderMap,
    length: Option<u64>,
    coding: Option<&'a [u8]>,
    connection: Vec<&'a [u8]>,
    upgrade: Option<&'a [u8]>,
}

impl<'a> Gathered<'a> {
    fn with_capacity(fields: usize) -> Self {
        let headers = HeaderMap::with_capacity(fields);
        Gathered { headers, length: None, coding: None, connection: Vec::new(), upgrade: None }
    }

    /// `shared` is a copy of what stands in `raw` from `from` on.
    fn add(&mut self, line: &FieldLine<'a>, raw: &[u8], from: usize, shared: &Bytes) -> Result<(), Broken> {
        let FieldLine { name, value, .. } = *line;
        // Those that are for us are never made into fields: they are in nearly every answer.
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => return self.measure(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                return match self.coding.replace(value) {
                    Some(_) => Err(Broken("the answer has two transfer-encodings")),
                    None => Ok(()),
                };
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.connection.push(value);
                return Ok(());
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.upgrade = Some(value);
                return Ok(());
            }
            _ => {}
        }
        let name = name::of(name).ok_or(Broken("a header field of the answer has no valid name"))?;
        if hop_by_hop(&name) {
            return Ok(());
        }
        let at = value.as_ptr().addr() - raw.as_ptr().addr() - from;
        let value = HeaderValue::from_maybe_shared(shared.slice(at..at + value.len()))
            .map_err(|_| Broken("a header field of the answer has no valid value"))?;
        self.headers.append(name, value);
        Ok(())
    }

    fn measure(&mut self, value: &[u8]) -> Result<(), Broken> {
        let length = length(value).ok_or(Broken("the answer's content-length is invalid"))?;
        match &self.length {
            Some(first) if *first != length => Err(Broken("the answer has two lengths")),
            _ => {
                self.length = Some(length);
                Ok(())
            }
        }
    }

    fn decide(mut self, status: StatusCode, version: u8, asked: Asked) -> Result<AnswerHead, Broken> {
        let chunked = match &self.coding {
            None => false,
            Some(_) if self.length.is_some() => return Err(Broken("the answer has a length and a coding")),
            // RFC 9112, 6.1: a coding in HTTP/1.0 is faulty framing.
            Some(coding) if version == 1 && coding.eq_ignore_ascii_case(b"chunked") => true,
            Some(_) => return Err(Broken("the answer's transfer-encoding is not chunked alone")),
        };
        let bodiless = asked == Asked::Head
            || status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        let framing = match &self.length {
            _ if bodiless => Framing::Empty,
            _ if chunked => Framing::Chunked,
            Some(length) => Framing::Length(*length),
            None => Framing::Close,
        };
        // Elsewhere the body itself knows its length, and a step that changes it need not remember the field.
        if let Some(length) = self.length
            && (asked == Asked::Head || status == StatusCode::NOT_MODIFIED)
        {
            self.headers.insert(CONTENT_LENGTH, length.into());
        }
        let reuse = obey(&self.connection, version, &mut self.headers);
        let upgrade = self.upgrade.and_then(|value| HeaderValue::from_bytes(value).ok());
        Ok(AnswerHead { status, headers: self.headers, framing, reuse, upgrade })
    }
}

/// Removes the fields that `connection` names, and says what it means for the connection.
fn obey(connection: &[&[u8]], version: u8, headers: &mut HeaderMap) -> Reuse {
    let mut reuse = if version == 1 { Reuse::Keep } else { Reuse::Close };
    let mut closes = false;
    let options = connection.iter().flat_map(|value| value.split(|&byte| byte == b','));
    for option in options.map(<[u8]>::trim_ascii) {
        if option.eq_ignore_ascii_case(b"close") {
            closes = true;
        } else if option.eq_ignore_ascii_case(b"keep-alive") {
            reuse = Reuse::Keep;
        } else if let Ok(name) = HeaderName::from_bytes(option) {
            headers.remove(name);
        }
    }
    if closes { Reuse::Close } else { reuse }
}

/// Digits only (RFC 9110, 8.6): no sign, no list, no room for a second reading.
fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Some readers count in i64: a number they would see as negative is refused.
    std::str::from_utf8(value).ok()?.parse().ok().filter(|&length| i64::try_from(length).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<AnswerHead, Broken> {
        parse(head.as_bytes(), Asked::Other)
    }

    #[test]
    fn framing_is_what_the_fields_say() {
        let framing = |fields: &str| read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).unwrap().framing;
        assert_eq!(framing("Content-Length: 5\r\n"), Framing::Length(5));
        assert_eq!(framing("Content-Length: 5\r\ncontent-length: 5\r\n"), Framing::Length(5));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Framing::Chunked);
        assert_eq!(framing("x: y\r\n"), Framing::Close);
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 9223372036854775808\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Content-Length : 5\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: \r\n",
            "Transfer-Encoding: chunked;q=1\r\n",
            "a: b\r\n folded: c\r\n",
            " a: b\r\n",
            "a b: c\r\n",
            ": c\r\n",
            "a: b\0c\r\n",
            "a: b\rc\r\n",
        ] {
            assert!(read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).is_err(), "{fields:?}");
        }
        for head in
            ["HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "\r\n\r\n", "x\n\n"]
        {
            assert!(read(head).is_err(), "{head:?}");
        }
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let head = |fields| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(fields));
        assert!(read(&head(MAX_FIELDS)).is_ok());
        assert!(read(&head(MAX_FIELDS + 1)).is_err());
    }

    #[test]
    fn fields_of_the_hop_end_here() {
        let head = read(
            "HTTP/1.1 200 OK\r\nConnection: x-mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
             Trailer: a\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nContent-Length: 0\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n",
        )
        .unwrap();
        assert_eq!(head.headers.len(), 2);
        assert_eq!(head.headers.get_all("set-cookie").iter().count(), 2);
        assert_eq!(head.reuse, Reuse::Keep);
    }

    #[test]
    fn a_length_without_a_body_stays_readable() {
        let head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", Asked::Head).unwrap();
        assert_eq!((head.framing, &head.headers["content-length"]), (Framing::Empty, &HeaderValue::from_static("7")));
        let head = read("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n").unwrap();
        assert_eq!((head.framing, &head.headers["content-length"]), (Framing::Empty, &HeaderValue::from_static("7")));
    }

    #[test]
    fn a_connection_is_kept_as_its_version_says() {
        let reuse = |head: &str| read(&format!("HTTP/{head}\r\n\r\n")).unwrap().reuse;
        assert_eq!(reuse("1.1 200 OK"), Reuse::Keep);
        assert_eq!(reuse("1.1 200 OK\r\nConnection: keep-alive, Close"), Reuse::Close);
        assert_eq!(reuse("1.0 200 OK"), Reuse::Close);
        assert_eq!(reuse("1.0 200 OK\r\nConnection: Keep-Alive"), Reuse::Keep);
    }
}
