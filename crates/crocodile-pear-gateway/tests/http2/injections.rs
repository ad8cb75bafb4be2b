//! Requests of HTTP/2 that would be two requests, or another one, once they are written in HTTP/1.1: refused, or clean at
//! the upstream.

use crate::http2::scene::Scene;
use crate::stage::frames::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Raw, field, frame};

const METHOD: (&[u8], &[u8]) = (b":method", b"GET");
const SCHEME: (&[u8], &[u8]) = (b":scheme", b"http");
const AUTHORITY: (&[u8], &[u8]) = (b":authority", b"h");
const PATH: (&[u8], &[u8]) = (b":path", b"/a");

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn own(fields: &[(&[u8], &[u8])]) -> Fields {
    fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

/// A request with another value of a pseudo-field.
fn with(name: &[u8], value: &[u8]) -> Fields {
    let mut fields = own(&[METHOD, SCHEME, AUTHORITY, PATH]);
    let found = fields.iter_mut().find(|(known, _)| known == name).unwrap();
    found.1 = value.to_vec();
    fields
}

/// A request with further fields.
fn and(more: &[(&[u8], &[u8])]) -> Fields {
    [own(&[METHOD, SCHEME, AUTHORITY, PATH]), own(more)].concat()
}

/// The fields of a request, the body behind them, and the trailers behind that.
struct Case {
    fields: Fields,
    body: Option<&'static [u8]>,
    trailers: Option<Fields>,
}

fn bare(fields: Fields) -> Case {
    Case { fields, body: None, trailers: None }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // Values that end where they stand, in each place.
    for unfit in [&b"\r\nevil: 1"[..], b"\nevil: 1", b"\revil: 1", b"\0evil", b" HTTP/1.1\r\nevil: 1\r\n\r\nGET /evil"]
    {
        for name in [&b":method"[..], b":scheme", b":authority", b":path"] {
            let usual = own(&[METHOD, SCHEME, AUTHORITY, PATH]).into_iter().find(|(known, _)| known == name).unwrap().1;
            cases.push(bare(with(name, &[&usual, unfit].concat())));
        }
        cases.push(bare(and(&[(b"x", &[b"y", unfit].concat())])));
        cases.push(bare(and(&[(&[b"x", unfit].concat(), b"y")])));
        cases.push(bare(and(&[(b"cookie", &[b"a=b", unfit].concat())])));
    }
    // Targets that say more than a path.
    for path in [
        &b"/a HTTP/1.1"[..],
        b"/a evil",
        b"a",
        b"",
        b"http://evil/",
        b"//evil/a",
        b"/a#evil",
        b"/a\\evil",
        b"*",
        b"/a\tb",
    ] {
        cases.push(bare(with(b":path", path)));
    }
    for method in [&b"GET /evil HTTP/1.1"[..], b"GET ", b" GET", b"", b"G(T", b"CONNECT", b"TRACE"] {
        cases.push(bare(with(b":method", method)));
    }
    for authority in [&b"h evil"[..], b"evil@h", b"h/evil", b"h?evil", b"", b"h:80:90", b"[evil]", b"h,evil"] {
        cases.push(bare(with(b":authority", authority)));
    }
    for scheme in [&b"http://evil/?"[..], b"ftp", b"http evil", b""] {
        cases.push(bare(with(b":scheme", scheme)));
    }
    // Fields of a connection of HTTP/1.1, and fields that frame.
    for (name, value) in [
        (&b"connection"[..], &b"close"[..]),
        (b"connection", b"host, x-evil"),
        (b"keep-alive", b"timeout=1"),
        (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"transfer-encoding", b"identity"),
        (b"upgrade", b"h2c"),
        (b"te", b"chunked"),
        (b"te", b"trailers, chunked"),
        (b"content_length", b"4"),
        (b"transfer_encoding", b"chunked"),
        (b"Evil", b"1"),
        (b"evil ", b"1"),
        (b" evil", b"1"),
        (b"evil:", b"1"),
        (b"", b"evil"),
        (b"x", b" evil"),
        (b"x", b"evil\t"),
    ] {
        cases.push(bare(and(&[(name, value)])));
    }
    // Who it is for, said twice.
    cases.push(bare(and(&[(b"host", b"evil")])));
    cases.push(bare(and(&[(b"host", b"h"), (b"host", b"evil")])));
    cases.push(bare(and(&[(b"host", b"h"), (b"host", b"h")])));
    cases.push(bare(own(&[METHOD, SCHEME, PATH])));
    cases.push(bare(own(&[METHOD, SCHEME, PATH, (b"host", b"h\r\nevil: 1")])));
    // Pseudo-fields that are twice there, unknown, behind others, or not there.
    for more in [METHOD, SCHEME, AUTHORITY, PATH, (b":evil", b"1"), (b":status", b"200"), (b":protocol", b"evil")] {
        cases.push(bare([own(&[more]), own(&[METHOD, SCHEME, AUTHORITY, PATH])].concat()));
        cases.push(bare(and(&[(b"x", b"y"), more])));
    }
    for without in 0..3 {
        let mut fields = own(&[METHOD, SCHEME, PATH, AUTHORITY]);
        fields.remove(without);
        cases.push(bare(fields));
    }
    // Bodies that are not as long as they say.
    for length in [&b"3"[..], b"5", b"+4", b"4,4", b"4 ", b"0x4", b"", b"99999999999999999999"] {
        let fields = and(&[(b"content-length", length)]);
        cases.push(Case { fields, body: Some(b"evil"), trailers: None });
    }
    let fields = and(&[(b"content-length", b"4"), (b"content-length", b"0")]);
    cases.push(Case { fields, body: Some(b"evil"), trailers: None });
    let chunks = b"0\r\n\r\nGET /evil HTTP/1.1\r\nhost: h\r\n\r\n";
    cases.push(Case { fields: and(&[]), body: Some(chunks), trailers: None });
    cases.push(bare(and(&[(b"content-length", b"40")])));
    for trailer in [
        (&b":path"[..], &b"/evil"[..]),
        (b"x", b"y\r\nevil: 1"),
        (b"content-length", b"9"),
        (b"host", b"evil"),
        (b"transfer-encoding", b"chunked"),
        (b"te", b"trailers"),
    ] {
        cases.push(Case { fields: and(&[]), body: Some(b"body"), trailers: Some(own(&[trailer])) });
    }
    cases
}

#[test]
fn what_is_one_request_here_is_one_request_there() {
    let scene = Scene::new("injections", "  '/{*path}': shop /{*path}?*\n");
    let cases = cases();
    assert!(cases.len() >= 76, "{}", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let mut raw = Raw::new(scene.address);
        send(&mut raw, case, number);
        outcome(&mut raw);
    }
    // And one that is as it should be.
    let mut raw = Raw::new(scene.address);
    send(&mut raw, &bare(and(&[(b"x", b"y")])), cases.len());
    assert_eq!(raw.until(DATA).payload, b"yes");
    let seen = scene.upstream.seen();
    for came in &seen {
        let shown = came.escape_ascii().to_string();
        let number = shown.split("x-case: ").nth(1).and_then(|rest| rest.split('\\').next()?.parse().ok());
        let number: usize = number.unwrap_or_else(|| panic!("a request that nobody sent: {shown}"));
        let Some(case) = cases.get(number) else { continue };
        check(came, case).unwrap_or_else(|why| panic!("case {number}: {why}: {shown}"));
    }
    let clean = seen.len() - 1;
    eprintln!("{} injections: {} refused, {clean} clean at the upstream", cases.len(), cases.len() - clean);
    assert!(clean < cases.len() / 4, "{clean}");
}

fn send(raw: &mut Raw, case: &Case, number: usize) {
    let block = |fields: &Fields| fields.iter().flat_map(|(name, value)| field(name, value)).collect::<Vec<u8>>();
    let last = if case.body.is_none() { END_STREAM } else { 0 };
    let mark = field(b"x-case", number.to_string().as_bytes());
    raw.flood(&frame(HEADERS, END_HEADERS | last, 1, &[block(&case.fields), mark].concat()));
    if let Some(body) = case.body {
        raw.flood(&frame(DATA, if case.trailers.is_none() { END_STREAM } else { 0 }, 1, body));
    }
    if let Some(trailers) = &case.trailers {
        raw.flood(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(trailers)));
    }
}

/// Waits until the stream has come to its end, or the connection.
fn outcome(raw: &mut Raw) {
    for frame in raw.by_ref() {
        let last = [HEADERS, DATA].contains(&frame.kind) && frame.flags & END_STREAM != 0;
        if last || [RST_STREAM, GOAWAY].contains(&frame.kind) {
            return;
        }
    }
}

/// Whether the bytes are one request and nothing else.
fn check(came: &[u8], case: &Case) -> Result<(), &'static str> {
    let end = came.windows(4).position(|end| end == b"\r\n\r\n").ok_or("no end of the head")?;
    let head = std::str::from_utf8(&came[..end]).map_err(|_| "no text")?;
    if head.split("\r\n").any(|line| line.contains(['\r', '\n', '\0'])) {
        return Err("a byte that ends something");
    }
    let mut lines = head.split("\r\n");
    let line: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    if !matches!(line[..], ["GET", path, "HTTP/1.1"] if path.starts_with('/')) {
        return Err("another request line");
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let count = |wanted: &str| fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).count();
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    if count("host") != 1 || lengths + codings > 1 || count("connection") > 0 {
        return Err("two readings");
    }
    if fields.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("evil")) {
        return Err("a field of somebody else's");
    }
    // It may have broken off.
    let (body, sent) = (&came[end + 4..], case.body.unwrap_or_default());
    let whole = match codings {
        0 => sent.to_vec(),
        _ if sent.is_empty() => b"0\r\n\r\n".to_vec(),
        // Trailers that are harmless may follow.
        _ => [format!("{:x}\r\n", sent.len()).as_bytes(), sent, b"\r\n0\r\n"].concat(),
    };
    let common = body.len().min(whole.len());
    let more = codings == 0 || case.trailers.is_none();
    let rest = &body[common..];
    if body[..common] != whole[..common] || (more && !rest.is_empty() && rest != b"\r\n") {
        return Err("another body");
    }
    Ok(())
}
