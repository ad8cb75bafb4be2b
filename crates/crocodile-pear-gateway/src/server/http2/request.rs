//! Checks the head of an HTTP/2 request (RFC 9113, 8.3) as strictly as in HTTP/1.1, and passes it on in the same form.

use std::hash::{BuildHasher, RandomState};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::BytesMut;
use crocodile_pear::unstable::http::http1::fields::imitates;
use crocodile_pear::unstable::http::http1::request::{
    CONNECT, FIELDS, HeadBounds, MOST_FIELDS, Refusal, TARGET, TRACE, admit_target, authority, digits,
};
use crocodile_pear::unstable::http::media_type::is_grpc;
use h2::ext::Protocol;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, HeaderName, ORIGIN, SEC_WEBSOCKET_KEY, TE,
};
use http::header::{HeaderValue, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method, StatusCode};

/// Browsers never split a cookie into more parts than this.
const MOST_CRUMBS: usize = 256;

/// The facts in the head of a request.
pub struct Head {
    pub method: Method,
    pub target: PathAndQuery,
    pub headers: HeaderMap,
    /// The length of the body, if the head has it.
    pub length: Option<u64>,
    pub expects: bool,
    pub trailers: bool,
    /// The request asks for a tunnel (RFC 8441).
    pub tunnel: bool,
    /// The request is a gRPC call.
    pub grpc: bool,
}

const fn refuse<T>(detail: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status: StatusCode::BAD_REQUEST, detail })
}

/// Checks a head.
///
/// # Errors
/// Why the request is refused, and the origin of its page.
pub fn admit(mut head: Parts, bounds: HeadBounds) -> Result<Head, (Refusal, Option<HeaderValue>)> {
    examine(&mut head, bounds).map_err(|refusal| (refusal, head.headers.get(ORIGIN).cloned()))
}

fn examine(head: &mut Parts, bounds: HeadBounds) -> Result<Head, Refusal> {
    let Parts { method, uri, headers, extensions, .. } = head;
    let protocol = extensions.remove::<Protocol>();
    match *method {
        Method::TRACE => return Err(TRACE),
        Method::CONNECT if protocol.is_none() => return Err(CONNECT),
        _ => {}
    }
    let scheme = uri.scheme_str();
    if scheme.is_some_and(|scheme| !["http", "https"].contains(&scheme)) {
        return refuse("the request's target has a scheme other than http and https");
    }
    let uri = std::mem::take(uri).into_parts();
    let Some(target) = uri.path_and_query else { return refuse("the request's target is not a path") };
    let target = admit_target(method, target)?;
    if target.as_str().len() > bounds.target {
        return Err(TARGET);
    }
    let asked = uri.authority.as_ref().map(Authority::as_str);
    let line = method.as_str().len() + target.as_str().len() + asked.map_or(0, str::len);
    let found = look(headers, line, bounds)?;
    name_host(headers, asked, found.hosts)?;
    if found.crumbs > 1 {
        join_cookies(headers);
    }
    let mut head = Head {
        method: method.clone(),
        target,
        headers: std::mem::take(headers),
        length: found.length,
        expects: found.expects,
        trailers: found.trailers,
        tunnel: protocol.is_some(),
        grpc: found.grpc,
    };
    if let Some(protocol) = protocol {
        ask_for(&mut head, &protocol)?;
    }
    Ok(head)
}

/// The results of checking all fields of a head.
#[derive(Default)]
struct FoundFields {
    hosts: usize,
    crumbs: usize,
    length: Option<u64>,
    expects: bool,
    trailers: bool,
    grpc: bool,
}

fn look(headers: &HeaderMap, line: usize, bounds: HeadBounds) -> Result<FoundFields, Refusal> {
    let mut found = FoundFields::default();
    // The size that the head would have in HTTP/1.1.
    let mut size = line;
    for (name, value) in headers {
        let (text, bytes) = (name.as_str().as_bytes(), value.as_bytes());
        size += text.len() + bytes.len() + 4;
        // RFC 9113, 8.2.1
        if let [b' ' | b'\t', ..] | [.., b' ' | b'\t'] = bytes {
            return refuse("a header field's value is malformed");
        }
        match text.len() {
            4 if *name == HOST => found.hosts += 1,
            6 if *name == COOKIE => found.crumbs += 1,
            14 if *name == CONTENT_LENGTH && found.length.replace(digits(bytes)?).is_some() => {
                return refuse("there are two Content-Length fields");
            }
            // `h2` rejects `TE` with any other value.
            2 if *name == TE => found.trailers |= bytes.eq_ignore_ascii_case(b"trailers"),
            6 if *name == EXPECT => found.expects |= bytes.eq_ignore_ascii_case(b"100-continue"),
            12 if *name == CONTENT_TYPE => found.grpc |= is_grpc(bytes),
            _ if imitates(text) => {
                return refuse("a header field's name looks like one for framing");
            }
            _ => {}
        }
    }
    let fields = headers.len() - found.crumbs;
    if size > bounds.head || fields > bounds.fields.min(MOST_FIELDS) || found.crumbs > MOST_CRUMBS {
        return Err(FIELDS);
    }
    Ok(found)
}

/// Puts the host into the `Host` field, where all later code looks for it (RFC 9113, 8.3.1).
fn name_host(headers: &mut HeaderMap, asked: Option<&str>, hosts: usize) -> Result<(), Refusal> {
    if hosts > 1 {
        return refuse("there are two Host fields");
    }
    let told = headers.get(HOST).map(|host| authority(host.as_bytes())).transpose()?;
    let Some(asked) = asked else {
        return if told.is_some() { Ok(()) } else { refuse("there is neither :authority nor Host") };
    };
    authority(asked.as_bytes())?;
    if told.is_some_and(|told| !told.eq_ignore_ascii_case(asked.as_bytes())) {
        return refuse("the request's :authority and Host differ");
    }
    let Ok(host) = HeaderValue::from_str(asked) else { return refuse("Host is not valid") };
    headers.insert(HOST, host);
    Ok(())
}

/// RFC 9113, 8.2.3: joins the parts of a cookie, because other protocols have a single field.
fn join_cookies(headers: &mut HeaderMap) {
    let mut whole = BytesMut::new();
    for crumb in headers.get_all(COOKIE) {
        if !whole.is_empty() {
            whole.extend_from_slice(b"; ");
        }
        whole.extend_from_slice(crumb.as_bytes());
    }
    if let Ok(whole) = HeaderValue::from_maybe_shared(whole.freeze()) {
        headers.insert(COOKIE, whole);
    }
}

/// Turns an extended CONNECT into an HTTP/1.1 upgrade.
fn ask_for(head: &mut Head, protocol: &Protocol) -> Result<(), Refusal> {
    let Ok(named) = HeaderValue::from_str(protocol.as_str()) else { return refuse("the :protocol is malformed") };
    head.method = Method::GET;
    if head.length.is_some() {
        return refuse("a request for a tunnel has no body");
    }
    head.headers.insert(UPGRADE, named);
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if protocol.as_str().eq_ignore_ascii_case("websocket") {
        head.headers.insert(SEC_WEBSOCKET_KEY, key());
    }
    Ok(())
}

/// Sixteen unpredictable bytes.
fn key() -> HeaderValue {
    let random = || RandomState::new().hash_one(0_u8).to_be_bytes();
    let key = BASE64_STANDARD.encode([random(), random()].concat());
    HeaderValue::from_str(&key).expect("base64 is a value")
}

/// Whether a field of an answer is about an HTTP/1.1 connection or frames its body.
pub fn framing(name: &HeaderName) -> bool {
    // Checks the first letter, which rules out most names.
    match name.as_str().as_bytes()[0] {
        b'c' => *name == CONNECTION,
        b'k' => name.as_str() == "keep-alive",
        b'p' => name.as_str() == "proxy-connection",
        b't' => name.as_str() == "transfer-encoding" || *name == TE,
        b'u' => *name == UPGRADE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const BOUNDS: HeadBounds = HeadBounds { head: 1024, target: 256, fields: 16 };

    fn read(uri: &str, fields: &[(&str, &str)]) -> Result<Head, Refusal> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        admit(request.body(()).expect("a request").into_parts().0, BOUNDS).map_err(|(refusal, _)| refusal)
    }

    #[test]
    fn the_host_is_said_in_one_way() {
        let host = |uri, fields| read(uri, fields).map(|head| head.headers[HOST].clone()).ok();
        assert_eq!(host("http://a:80/", &[]).expect("a host"), "a:80");
        assert_eq!(host("http://a:80/", &[("host", "A:80")]).expect("a host"), "a:80");
        assert_eq!(host("/", &[("host", "a")]).expect("a host"), "a");
        for (uri, fields) in [
            ("/", &[][..]),
            ("http://a/", &[("host", "b")]),
            ("http://a/", &[("host", "a"), ("host", "a")]),
            ("http://u@a/", &[]),
            ("/", &[("host", "a b")]),
            ("/", &[("host", "a/b")]),
        ] {
            assert!(host(uri, fields).is_none(), "{uri} {fields:?}");
        }
    }

    #[test]
    fn cookies_are_one_field_again() {
        let head = read("http://a/", &[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]);
        let head = head.unwrap_or_else(|refusal| panic!("{refusal:?}"));
        let cookies: Vec<_> = head.headers.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2; c=3"]);
    }

    #[test]
    fn a_head_has_bounds() {
        let status =
            |uri: &str, fields: &[(&str, &str)]| read(uri, fields).err().map(|refusal| refusal.status.as_u16());
        let long = "x".repeat(1024);
        assert_eq!(status("http://a/", &[("x", &long)]), Some(431));
        assert_eq!(status(&format!("http://a/{}", &long[..300]), &[]), Some(414));
        let names: Vec<String> = (0..17).map(|at| format!("x{at}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(status("http://a/", &many), Some(431));
        assert_eq!(status("http://a/", &many[..16]), None);
        assert_eq!(status("http://a/", &[("x", " a")]), Some(400));
        assert_eq!(status("http://a/", &[("content_length", "1")]), Some(400));
        assert_eq!(status("http://a/", &[("content-length", "1"), ("content-length", "1")]), Some(400));
    }
}
