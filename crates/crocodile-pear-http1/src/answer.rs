//! The head of an answer: where it ends, its fields, and how the body after it is framed (RFC 9112, 4 to 6).

use http::header::{CONTENT_LENGTH, PROXY_AUTHENTICATE, UPGRADE};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::error::MalformedMessage;
use crate::framing::{Framing, Reuse};
use crate::line::{self, FieldLine, LineEnd, LineFault};
use crate::media_type::is_events;
use crate::unread::{AnswerFields, FieldLines};

/// Fields one head may have; what hyper and Apache allow is of the same order.
const MAX_FIELDS: usize = 128;

/// The longest name that a field may have.
const MAX_NAME: usize = u16::MAX as usize;

/// An answer's head, hop-by-hop fields already gone.
#[derive(Debug)]
pub struct AnswerHead {
    /// The status; below 600.
    pub status: StatusCode,
    /// Its fields, end-to-end ones only.
    pub headers: AnswerFields,
    /// Where its body ends.
    pub framing: Framing,
    /// Whether the connection may be used again.
    pub reuse: Reuse,
    /// The protocol that a 101 switches to.
    pub upgrade: Option<HeaderValue>,
    /// Whether its body is a stream of events, which has no end.
    pub events: bool,
}

/// The kind of a request's method. It decides whether the answer has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// HEAD: its answer has no body.
    Head,
    /// Anything else.
    Other,
}

/// Parses the head at the start of `raw`, and returns its length; `None` if it is not complete.
///
/// # Errors
/// Also where RFC 9112 only allows to refuse: ambiguous framing is never guessed at.
pub fn parse(raw: &[u8], asked: MethodKind) -> Result<Option<(AnswerHead, usize)>, MalformedMessage> {
    const NO_HTTP: MalformedMessage = MalformedMessage("the head of the answer is not HTTP");
    let (version, status, from) = match status_line(raw) {
        Ok(line) => line,
        Err(LineFault::Partial) => return Ok(None),
        Err(_) => return Err(NO_HTTP),
    };
    let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() < 600);
    let status = status.ok_or(MalformedMessage("the answer's status is not one of HTTP"))?;
    let mut gathered = Gathered::default();
    let (mut lines, mut challenges) = (FieldLines::new(), Vec::new());
    let mut at = from;
    loop {
        let (line, next) = match line::field(raw, at, LineEnd::Lf) {
            Ok(read) => read,
            Err(LineFault::Partial) => return Ok(None),
            Err(_) => return Err(NO_HTTP),
        };
        at = next;
        let Some(line) = line else { break };
        if line.name.len() > MAX_NAME {
            return Err(MalformedMessage("a header field of the answer has no valid name"));
        }
        if gathered.keeps(&line)? {
            lines.add(&line, &raw[from..]);
        }
        // RFC 9110, 15.5.8: without its challenge, a 407 is useless.
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED && line.name.eq_ignore_ascii_case(b"proxy-authenticate")
        {
            challenges.push(line.value);
        }
        if lines.len() > MAX_FIELDS {
            return Err(MalformedMessage("the answer has too many header fields"));
        }
    }
    // Places of fields are kept in 32 bits.
    if u32::try_from(at).is_err() {
        return Err(MalformedMessage("the head of the answer is too large"));
    }
    let mut headers = lines.within(&raw[from..at]);
    for challenge in challenges {
        let value = HeaderValue::from_bytes(challenge);
        headers.append(
            PROXY_AUTHENTICATE,
            value.map_err(|_| MalformedMessage("a header field of the answer has no valid value"))?,
        );
    }
    gathered.decide(status, version, asked, headers).map(|head| Some((head, at)))
}

/// Version, status, and where the fields begin. The reason phrase is ignored.
fn status_line(raw: &[u8]) -> Result<(u8, u16, usize), LineFault> {
    const LEAST: &[u8] = b"HTTP/1.x 200\n";
    if raw.len() < LEAST.len() {
        let so_far = raw.len().min(7);
        return Err(if raw[..so_far] == LEAST[..so_far] { LineFault::Partial } else { LineFault::Name });
    }
    let (version, rest) = match raw {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', version @ (b'0' | b'1'), b' ', rest @ ..] => (version - b'0', rest),
        _ => return Err(LineFault::Name),
    };
    let [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ' | b'\r' | b'\n', ..] = rest else {
        return Err(LineFault::Name);
    };
    let status = [a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    let (_, next) = line::value(raw, 12, LineEnd::Lf)?;
    Ok((version, status, next))
}

/// The fields for this connection, taken together.
#[derive(Default)]
struct Gathered<'a> {
    length: Option<u64>,
    coding: Option<&'a [u8]>,
    reuse: Option<Reuse>,
    /// Names that end here, by `Connection`.
    options: Vec<&'a [u8]>,
    upgrade: Option<&'a [u8]>,
    events: bool,
}

impl<'a> Gathered<'a> {
    /// Notes what a field says about framing and connection. Whether it is another one: those that are for us are never
    /// made into fields, since they are in nearly every answer.
    fn keeps(&mut self, line: &FieldLine<'a>) -> Result<bool, MalformedMessage> {
        let FieldLine { name, value, .. } = *line;
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => self.measure(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.coding.replace(value).is_some() {
                    return Err(MalformedMessage("the answer has two transfer-encodings"));
                }
            }
            10 if name.eq_ignore_ascii_case(b"connection") => self.connect(value),
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrade = Some(value),
            12 if name.eq_ignore_ascii_case(b"content-type") => {
                self.events = is_events(value);
                return Ok(true);
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    fn connect(&mut self, value: &'a [u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.reuse = Some(Reuse::Close);
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.reuse.get_or_insert(Reuse::Keep);
            } else {
                self.options.push(option);
            }
        }
    }

    fn measure(&mut self, value: &[u8]) -> Result<(), MalformedMessage> {
        let length = length(value).ok_or(MalformedMessage("the answer's content-length is invalid"))?;
        match &self.length {
            Some(first) if *first != length => Err(MalformedMessage("the answer has two lengths")),
            _ => {
                self.length = Some(length);
                Ok(())
            }
        }
    }

    fn decide(
        self,
        status: StatusCode,
        version: u8,
        asked: MethodKind,
        mut headers: AnswerFields,
    ) -> Result<AnswerHead, MalformedMessage> {
        let chunked = match &self.coding {
            None => false,
            Some(_) if self.length.is_some() => return Err(MalformedMessage("the answer has a length and a coding")),
            // RFC 9112, 6.1: a coding in HTTP/1.0 is faulty framing.
            Some(coding) if version == 1 && coding.eq_ignore_ascii_case(b"chunked") => true,
            Some(_) => return Err(MalformedMessage("the answer's transfer-encoding is not chunked alone")),
        };
        let bodiless = asked == MethodKind::Head
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
            && (asked == MethodKind::Head || status == StatusCode::NOT_MODIFIED)
        {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        for name in self.options.iter().filter_map(|option| HeaderName::from_bytes(option).ok()) {
            headers.remove(name);
        }
        let reuse = self.reuse.unwrap_or(if version == 1 { Reuse::Keep } else { Reuse::Close });
        let upgrade = self.upgrade.and_then(|value| HeaderValue::from_bytes(value).ok());
        // RFC 9110, 15.5.22: a 426 names the required protocol.
        if let (StatusCode::UPGRADE_REQUIRED, Some(protocol)) = (status, &upgrade) {
            headers.insert(UPGRADE, protocol.clone());
        }
        Ok(AnswerHead { status, headers, framing, reuse, upgrade, events: self.events })
    }
}

/// The length, or a list of the same length several times, as RFC 9110, 8.6, lets one read it.
fn length(value: &[u8]) -> Option<u64> {
    if !value.contains(&b',') {
        return digits(value);
    }
    let mut members = value.split(|byte| *byte == b',').map(|member| digits(member.trim_ascii()));
    let first = members.next()??;
    members.all(|member| member == Some(first)).then_some(first)
}

/// Digits only: no sign, no room for a second reading.
fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Some readers count in i64: a number they would see as negative is refused.
    std::str::from_utf8(value).ok()?.parse().ok().filter(|&length| i64::try_from(length).is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::answer::*;

    fn read(head: &str) -> Result<AnswerHead, MalformedMessage> {
        parse(head.as_bytes(), MethodKind::Other).map(|head| head.expect("a whole head").0)
    }

    #[test]
    fn framing_is_what_the_fields_say() {
        let framing = |fields: &str| read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).unwrap().framing;
        assert_eq!(framing("Content-Length: 5\r\n"), Framing::Length(5));
        assert_eq!(framing("Content-Length: 5\r\ncontent-length: 5\r\n"), Framing::Length(5));
        assert_eq!(framing("Content-Length: 5, 5,\t05\r\nContent-Length: 005\r\n"), Framing::Length(5));
        assert_eq!(framing("Content-Length: 00000000000000000000000000000005\r\n"), Framing::Length(5));
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
            "Content-Length: 5, 6\r\n",
            "Content-Length: 5,\r\n",
            "Content-Length: ,5\r\n",
            "Content-Length: 5, +5\r\n",
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
    fn what_belongs_to_a_status_is_kept() {
        let head = read("HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n").unwrap();
        assert_eq!(head.headers["upgrade"], "h2c");
        let head = read("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\n\r\n").unwrap();
        assert_eq!((head.headers.len(), &head.headers["proxy-authenticate"]), (1, &HeaderValue::from_static("Basic")));
    }

    #[test]
    fn a_length_without_a_body_stays_readable() {
        let head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", MethodKind::Head).unwrap().expect("whole").0;
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
