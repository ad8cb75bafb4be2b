//! `/cache`: what is kept, and `POST /cache/purge`.

use crocodile_pear::cache::Store;
use crocodile_pear::flow::Body;
use http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use crate::purge::{ModeSpec, Purging};
use crate::respond::{self, refuse};
use crate::server::ClientRequest;

/// The most bytes that a purge may be.
const MOST: usize = 256 << 10;

/// What is kept, in figures.
pub fn show(cache: &Store) -> Response<Body> {
    let seen = cache.counters();
    respond::json(&json!({
        "entries": seen.entries, "bytes": seen.bytes, "max_bytes": seen.bound,
        "hits": seen.hits, "misses": seen.misses, "stored": seen.insertions,
        "evicted": seen.evictions, "refused": seen.refused, "purges": seen.purges,
    }))
}

/// Purges what the body says. `hosts` are the names by which operators call us.
pub async fn purge(request: ClientRequest, hosts: &[String], cache: &Store) -> Response<Body> {
    if let Some(refused) = foreign(request.headers.map(), hosts) {
        return refused;
    }
    let body = match request.body.collect(MOST).await {
        Ok(body) => body,
        Err(error) => return respond::fail(&error),
    };
    match read(&body) {
        Ok(purging) => respond::json(&json!({ "purged": purging.apply_counted(cache) })),
        Err(told) => refuse(StatusCode::BAD_REQUEST, &told),
    }
}

fn read(body: &[u8]) -> Result<Purging, String> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Purging::of_map(&fields, ModeSpec::Soft),
        Ok(_) => Err("the body is no JSON object: write `{\"tag\": \"…\"}`".to_owned()),
        Err(error) => Err(format!("the body is no JSON: {error}")),
    }
}

/// Fetch Metadata: browsers say where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a page in an operator's browser could send, it may not: it would name a foreign host that resolves to us, or
/// could not send JSON without asking first.
fn foreign(headers: &HeaderMap, hosts: &[String]) -> Option<Response<Body>> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(&HOST).unwrap_or_default();
    if !is_own(host, hosts) {
        let detail = "this host is not ours: use an IP address or `localhost`, or add the name to `hosts` of `admin`";
        return Some(refuse(StatusCode::MISDIRECTED_REQUEST, detail));
    }
    let ours = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
    let elsewhere = text(&SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if elsewhere || text(&ORIGIN).is_some_and(|origin| !ours(origin)) {
        return Some(refuse(StatusCode::FORBIDDEN, "pages of other origins may not purge"));
    }
    let media = text(&CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Some(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send `content-type: application/json`"));
    }
    None
}

/// Whether a host, perhaps with a port, is one that no foreign name server can make ours.
fn is_own(host: &str, hosts: &[String]) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let listed = |name: &str| hosts.iter().any(|own| own.eq_ignore_ascii_case(name));
    bare.parse::<std::net::IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || listed(name)
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

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let status = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(*name, value.parse().expect("a value"));
            }
            foreign(&headers, &[]).map(|response| response.status().as_u16())
        };
        let (host, json) = (("host", "127.0.0.1:9090"), ("content-type", "application/json; charset=utf-8"));
        assert_eq!(status(&[host, json]), None);
        assert_eq!(status(&[host, json, ("origin", "http://127.0.0.1:9090")]), None);
        assert_eq!(status(&[host, json, ("origin", "http://evil.example")]), Some(403));
        assert_eq!(status(&[host, json, ("origin", "null")]), Some(403));
        assert_eq!(status(&[host, json, ("sec-fetch-site", "cross-site")]), Some(403));
        assert_eq!(status(&[("host", "evil.example"), json]), Some(421));
        assert_eq!(status(&[json]), Some(421));
        assert_eq!(status(&[host, ("content-type", "text/plain")]), Some(415));
        assert_eq!(status(&[host]), Some(415));
    }
}
