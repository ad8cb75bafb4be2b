//! The guard of the operators' listener: pages of other origins may not use it, and a configured token must come with every request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crocodile_pear::unstable::message::body::AnswerBody;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Response, StatusCode};
use ring::digest::{Digest, SHA256, digest};
use subtle::ConstantTimeEq;

use crate::http::response::refuse;
use crate::listeners::admin_spec::AdminSpec;

/// The challenge that makes browsers ask for a password.
const CHALLENGE: &str = r#"Basic realm="crocodile-pear admin", charset="UTF-8""#;

/// Fetch Metadata: browsers say where a request comes from, and what for.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The rule that decides whether a request is served.
pub struct Guard {
    hosts: Vec<String>,
    /// Its SHA-256, so that comparing takes the same time for every length.
    token: Option<Digest>,
}

impl Guard {
    pub fn new(spec: &AdminSpec) -> Self {
        let token = spec.token.as_ref().map(|token| digest(&SHA256, token.expose().as_bytes()));
        Guard { hosts: spec.hosts.clone(), token }
    }

    /// Why a request is refused, if it is.
    pub fn refuse(&self, method: &Method, headers: &HeaderMap) -> Option<Response<AnswerBody>> {
        let host = text(headers, &HOST).unwrap_or_default();
        if !is_own(host, &self.hosts) {
            let detail =
                "this host is not ours: use an IP address or `localhost`, or add the name to `hosts` of `admin`";
            return Some(refuse(StatusCode::MISDIRECTED_REQUEST, detail));
        }
        if is_foreign(method, host, headers) {
            return Some(refuse(StatusCode::FORBIDDEN, "pages of other origins may not use this address"));
        }
        (!self.knows(headers)).then(ask)
    }

    /// Whether a request brings the token, or needs none.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let brought = headers.get_all(AUTHORIZATION).iter().filter_map(|value| brought(value.to_str().ok()?));
        let same = |secret: Vec<u8>| bool::from(digest(&SHA256, &secret).as_ref().ct_eq(token.as_ref()));
        brought.fold(false, |known, secret| known | same(secret))
    }
}

/// The secret in the value of `Authorization`: a bearer token, or the password of any user.
fn brought(value: &str) -> Option<Vec<u8>> {
    let (scheme, secret) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(secret.trim().as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(secret.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn ask() -> Response<AnswerBody> {
    let detail = "bring the `token` of `admin`, as `Authorization: Bearer …` or as the password";
    let mut response = refuse(StatusCode::UNAUTHORIZED, detail);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    response
}

/// Whether a page of another origin sends this. A link to us may be followed: only the operator sees where it leads.
fn is_foreign(method: &Method, host: &str, headers: &HeaderMap) -> bool {
    let same = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
    if text(headers, &ORIGIN).is_some_and(|origin| !same(origin)) {
        return true;
    }
    let followed = method.is_safe() && text(headers, &SEC_FETCH_MODE) == Some("navigate");
    !followed && text(headers, &SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// Whether a host, with or without a port, is one that DNS rebinding cannot use: an IP address, `localhost`, or a name that the
/// operator has written. Any IP address will do, since the gateway may be reached through a translated one.
fn is_own(host: &str, hosts: &[String]) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let listed = hosts.iter().any(|own| own.eq_ignore_ascii_case(name));
    bare.parse::<std::net::IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_gives_are_ours() {
        let hosts = ["gateway-admin".to_owned()];
        for host in ["127.0.0.1:9090", "[::1]:9090", "localhost", "LOCALHOST:1", "10.0.0.1", "gateway-admin:9090"] {
            assert!(is_own(host, &hosts), "{host}");
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9090", "admin@evil", "[::1"]
        {
            assert!(!is_own(host, &hosts), "{host}");
        }
    }

    fn status(guard: &Guard, method: Method, fields: &[(&'static str, &str)]) -> Option<u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, value.parse().expect("a value"));
        }
        guard.refuse(&method, &headers).map(|response| response.status().as_u16())
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let guard = Guard { hosts: Vec::new(), token: None };
        let status = |method, fields: &[_]| status(&guard, method, fields);
        let host = ("host", "127.0.0.1:9090");
        for method in [Method::GET, Method::POST] {
            assert_eq!(status(method.clone(), &[host]), None);
            assert_eq!(status(method.clone(), &[host, ("origin", "http://127.0.0.1:9090")]), None);
            assert_eq!(status(method.clone(), &[host, ("origin", "http://evil.example")]), Some(403));
            assert_eq!(status(method.clone(), &[host, ("origin", "null")]), Some(403));
            assert_eq!(status(method.clone(), &[host, ("sec-fetch-site", "cross-site")]), Some(403));
            assert_eq!(status(method.clone(), &[("host", "evil.example")]), Some(421));
            assert_eq!(status(method, &[]), Some(421));
        }
        let followed = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(status(Method::GET, &followed), None);
        assert_eq!(status(Method::POST, &followed), Some(403));
    }

    #[test]
    fn where_a_token_is_written_nobody_comes_without_it() {
        let guard = Guard { hosts: Vec::new(), token: Some(digest(&SHA256, b"s3cret")) };
        let told = |value: &str| status(&guard, Method::GET, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(status(&guard, Method::GET, &[("host", "localhost")]), Some(401));
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for good in ["Bearer s3cret".to_owned(), "bearer  s3cret".to_owned(), basic("me:s3cret"), basic(":s3cret")] {
            assert_eq!(told(&good), None, "{good}");
        }
        for bad in ["Bearer s3cre", "Bearer", "Bearer ", "s3cret", "Basic s3cret", &basic("s3cret"), &basic("s3cret:")]
        {
            assert_eq!(told(bad), Some(401), "{bad}");
        }
    }
}
