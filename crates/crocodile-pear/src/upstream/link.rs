//! Links in answers: resolved against their document, and allowed to configured upstreams only.

use std::sync::Arc;

use http::HeaderMap;
use http::header::LINK;
use http::uri::Authority;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::call::forward::same;
use super::connect::counters::ConnectionEvent;
use super::connect::origin::Origin;
use super::ready::ReadyUpstream;
use super::servers::server::PublicOrigin;
use crate::error::{Error, Kind};
use crate::request::context::Scope;
use crate::template::check_path;

/// The longest link, in bytes: more than any server accepts.
const LENGTH: usize = 8 << 10;

/// The characters that must not stand in a URL as they are (RFC 3986, 2), but are found there all the same.
const UNFIT: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

impl ReadyUpstream {
    /// The result of `found` for the first of the paths of its servers, as far as a URL of this scheme and authority leads to them; of all
    /// of them for a URL without. An upstream that was told which host the client asked for may have made a URL of it.
    pub fn find_base<T>(
        &self,
        scheme: Option<&str>,
        authority: Option<&str>,
        scope: Option<&Scope>,
        mut found: impl FnMut(&str) -> Option<T>,
    ) -> Option<T> {
        let all = authority.is_none_or(|authority| self.forward.names(authority, scope));
        let hosted = authority.is_some();
        let authority = authority.filter(|authority| !authority.contains('@'));
        let authority = authority.and_then(|authority| authority.parse::<Authority>().ok());
        let origin = move |usual: &str| Origin::new(scheme.unwrap_or(usual), authority.as_ref()?);
        let leads = |face: &PublicOrigin| all || origin(face.origin.scheme()).as_ref() == Some(&face.origin);
        let served = self.find_face(|face| if leads(face) { found(&face.base) } else { None });
        let further = |other: &PublicOrigin| origin(other.origin.scheme()).as_ref() == Some(&other.origin);
        if served.is_some() || !hosted {
            return served;
        }
        self.find_origin(|other| if further(other) { found(&other.base) } else { None })
    }

    /// Whether this is so of one of the hosts that it is reached by, of the one that its calls name, or of its `origins`.
    pub fn has_host(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let own = |face: &PublicOrigin| wanted(&face.origin.host).then_some(());
        let known = self.find_face(own).or_else(|| self.find_origin(own));
        known.is_some() || self.forward.host_name().is_some_and(wanted)
    }
}

/// An address that belongs to an upstream: where links to it begin.
pub(crate) struct UpstreamAddress {
    /// `None` for a host that calls name: the upstream may write it with either scheme.
    origin: Option<Origin>,
    authority: Box<str>,
    /// The path of the upstream there.
    pub(crate) base: Box<str>,
    /// Whether the upstream only knows it from the client.
    pub(crate) told: bool,
}

impl UpstreamAddress {
    /// Whether a URL of this scheme and authority leads there.
    pub(crate) fn is(&self, scheme: Option<&str>, authority: &str) -> bool {
        match &self.origin {
            None => same(&self.authority, authority),
            Some(_) if authority.contains('@') => false,
            Some(origin) => authority.parse::<Authority>().is_ok_and(|authority| {
                Origin::new(scheme.unwrap_or(origin.scheme()), &authority).as_ref() == Some(origin)
            }),
        }
    }
}

impl ReadyUpstream {
    /// All addresses that belong to it, for this request.
    pub(crate) fn addresses(&self, scope: &Scope) -> Vec<UpstreamAddress> {
        let mut all = Vec::new();
        let mut add = |face: &PublicOrigin| {
            let (authority, base) = (face.authority.clone(), face.base.clone());
            all.push(UpstreamAddress { origin: Some(face.origin.clone()), authority, base, told: false });
            None::<()>
        };
        self.find_face(&mut add);
        self.find_origin(&mut add);
        for (authority, told) in self.forward.hosts(scope) {
            all.push(UpstreamAddress { origin: None, authority: authority.into(), base: self.base().into(), told });
        }
        all
    }

    /// Counts links of its documents, by what became of them.
    pub(crate) fn count_links(&self, mapped: u64, unserved: u64) {
        self.caller.shared.counters.add(ConnectionEvent::LinkMapped, mapped);
        self.caller.shared.counters.add(ConnectionEvent::LinkUnserved, unserved);
    }
}

/// A resolved link: which upstream to call for what.
pub struct ResolvedLink {
    /// The upstream that serves it.
    pub upstream: Arc<ReadyUpstream>,
    /// Path and query, whole.
    pub target: String,
    /// The whole URL.
    pub url: Arc<str>,
}

/// Resolves a link in the document at `base`, which the upstream `from` served for the request in `scope`.
///
/// # Errors
/// `Unusable` if it is not a URL, or if it leads to no configured upstream: to none of their origins, or past their base
/// paths. The link is not quoted: clients learn nothing about what is behind the gateway.
pub fn resolve(
    upstreams: &[Arc<ReadyUpstream>],
    from: &str,
    base: &str,
    link: &str,
    scope: Option<&Scope>,
) -> Result<ResolvedLink, Error> {
    match within(upstreams, from, base, link) {
        Some(place) => Ok(place),
        None => anywhere(upstreams, from, base, link, scope),
    }
}

/// A path of an upstream, below its own; `None` for a path with two readings.
pub fn at(upstream: &Arc<ReadyUpstream>, path: &str) -> Option<ResolvedLink> {
    check_path(path.split('?').next().unwrap_or_default()).ok()?;
    let target = upstream.find_face(|face| Some([&*face.base, path].concat()))?;
    Some(ResolvedLink { upstream: upstream.clone(), target, url: upstream.url(path).into() })
}

fn anywhere(
    upstreams: &[Arc<ReadyUpstream>],
    from: &str,
    base: &str,
    link: &str,
    scope: Option<&Scope>,
) -> Result<ResolvedLink, Error> {
    let refuse = |reason| Error::new(Kind::Unusable, reason);
    let url = join(base, link).ok_or_else(|| refuse("a link in the answer is not a URL that can be called"))?;
    let authority: Authority = url.authority.parse().map_err(|_| refuse("a link in the answer names no host"))?;
    let origin = Origin::new(&url.scheme, &authority).filter(|_| !url.authority.contains('@'));
    let origin = origin.ok_or_else(|| refuse("a link in the answer is not a URL that can be called"))?;
    // Decoded by its server, such a path would be another one.
    check_path(&url.path).map_err(|_| refuse("a link in the answer has a path with two readings"))?;
    let nowhere = || refuse("a link in the answer leads to no configured upstream");
    let target = |path: String| match &url.query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    if let Some(upstream) = choose(upstreams, from, &origin, &url.path) {
        let target = target(url.path.clone());
        let whole = format!("{}://{}{target}", url.scheme, url.authority);
        return Ok(ResolvedLink { upstream: upstream.clone(), target, url: whole.into() });
    }
    let (upstream, path) = choose_alias(upstreams, from, &url, &origin, scope).ok_or_else(nowhere)?;
    let target = target(path);
    // Under its own address: a document that has two is one document.
    let whole = upstream.root_url(&target);
    Ok(ResolvedLink { upstream: upstream.clone(), target, url: whole.into() })
}

/// The upstream that has this address only in its documents, and the path at its server: one of its `origins`, or the host that
/// its calls name. A host that the client asked for is one for the upstream that wrote the link, since only that was told it.
fn choose_alias<'a>(
    upstreams: &'a [Arc<ReadyUpstream>],
    from: &str,
    url: &Url,
    origin: &Origin,
    scope: Option<&Scope>,
) -> Option<(&'a Arc<ReadyUpstream>, String)> {
    let listed = |upstream: &'a Arc<ReadyUpstream>| {
        let mut best: Option<(usize, String)> = None;
        upstream.find_origin(|other| {
            let rest = url.path.strip_prefix(&*other.base).filter(|_| other.origin == *origin);
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
            if let Some(rest) = rest.filter(|_| best.as_ref().is_none_or(|(length, _)| *length < other.base.len())) {
                best = Some((other.base.len(), [upstream.base(), rest].concat()));
            }
            None::<()>
        });
        best.map(|(length, path)| (length, upstream, path))
    };
    let named = |upstream: &'a Arc<ReadyUpstream>| {
        let scope = scope.filter(|_| **upstream.name() == *from);
        let rest = url.path.strip_prefix(upstream.base())?;
        let below = rest.is_empty() || rest.starts_with('/');
        (below && upstream.forward.names(&url.authority, scope))
            .then(|| (upstream.base().len(), upstream, url.path.clone()))
    };
    let best = |found: &mut dyn Iterator<Item = (usize, &'a Arc<ReadyUpstream>, String)>| {
        found.max_by_key(|(length, upstream, _)| (*length, **upstream.name() == *from))
    };
    let found =
        best(&mut upstreams.iter().filter_map(listed)).or_else(|| best(&mut upstreams.iter().filter_map(named)));
    found.map(|(_, upstream, path)| (upstream, path))
}

/// The usual link, a path that needs no repair, in a document that came from a URL of its upstream as it is configured.
fn within(upstreams: &[Arc<ReadyUpstream>], from: &str, base: &str, link: &str) -> Option<ResolvedLink> {
    let path = usual_path(link)?;
    let (scheme, rest) = base.split_at(memchr::memchr(b':', base.as_bytes())?);
    let rest = rest.strip_prefix("://")?;
    let authority = &rest[..memchr::memchr(b'/', rest.as_bytes()).unwrap_or(rest.len())];
    let upstream = upstreams.iter().find(|upstream| **upstream.name() == *from)?;
    let found = upstream.find_face(|face| {
        let same = *face.authority == *authority && *face.origin.scheme() == *scheme;
        same.then(|| choose(upstreams, from, &face.origin, path))
    });
    let odd = authority.bytes().any(|byte| byte == b'@' || byte == b'?');
    let upstream = found.flatten().filter(|_| !odd)?.clone();
    let url = [scheme, "://", authority, link].concat().into();
    Some(ResolvedLink { upstream, target: link.to_owned(), url })
}

/// The path of a link that begins with it, in which nothing has to be escaped or resolved.
fn usual_path(link: &str) -> Option<&str> {
    let bytes = link.as_bytes();
    if bytes.len() > LENGTH || bytes.first() != Some(&b'/') || bytes.get(1) == Some(&b'/') {
        return None;
    }
    let (mut end, mut before) = (bytes.len(), 0);
    for (at, &byte) in bytes.iter().enumerate() {
        if !USUAL[usize::from(byte)] || (byte == b'.' && before == b'/') {
            return None;
        }
        if byte == b'?' {
            end = end.min(at);
        }
        before = byte;
    }
    link.get(..end)
}

/// Bytes that may stand in a path or a query as they are, and mean nothing but themselves and `?`.
static USUAL: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 256 {
        let marks = b"/.-_~=&?+,:;@!$'()*";
        let mut mark = 0;
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        while mark < marks.len() {
            table[byte] |= byte as u8 == marks[mark];
            mark += 1;
        }
        byte += 1;
    }
    table
};

/// The upstream at this origin whose base path the link's path begins with; of several the one with the longest base
/// path, among equals the one that served the document.
fn choose<'a>(
    upstreams: &'a [Arc<ReadyUpstream>],
    from: &str,
    origin: &Origin,
    path: &str,
) -> Option<&'a Arc<ReadyUpstream>> {
    let below = |base: &str| {
        let rest = path.strip_prefix(base)?;
        (rest.is_empty() || rest.starts_with(['/', '?'])).then_some(base.len())
    };
    let there = |upstream: &Arc<ReadyUpstream>| {
        let mut most = None;
        upstream.find_face(|face| {
            if face.origin == *origin {
                most = most.max(below(&face.base));
            }
            None::<()>
        });
        most
    };
    let found = upstreams.iter().filter_map(|upstream| Some((there(upstream)?, upstream)));
    found.max_by_key(|(below, upstream)| (*below, **upstream.name() == *from)).map(|(_, upstream)| upstream)
}

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    authority: String,
    path: String,
    query: Option<String>,
}

/// Resolves a reference (RFC 3986, 5.2). The fragment is the client's own, and left out.
fn join(base: &str, reference: &str) -> Option<Url> {
    let reference = reference.trim_matches(|c: char| c == ' ' || c.is_ascii_control());
    let unfit = |c: char| c.is_ascii_control() || c == '\\';
    if reference.len() > LENGTH || reference.contains(unfit) {
        return None;
    }
    let reference = utf8_percent_encode(reference.split('#').next().unwrap_or_default(), UNFIT).to_string();
    let (scheme, rest) = scheme(&reference);
    let (authority, path, query) = split(rest);
    let (own_scheme, own) = scheme_of(base)?;
    let (own_authority, own_path, own_query) = split(own);
    let url = |scheme: &str, authority: &str, path: &str, query: Option<&str>| Url {
        scheme: scheme.to_ascii_lowercase(),
        authority: authority.to_owned(),
        path: tidy(path),
        query: query.map(str::to_owned),
    };
    Some(match (scheme, authority) {
        (Some(scheme), authority) => url(scheme, authority?, path, query),
        (None, Some(authority)) => url(own_scheme, authority, path, query),
        (None, None) => {
            let own_authority = own_authority?;
            match path {
                "" => url(own_scheme, own_authority, own_path, query.or(own_query)),
                path if path.starts_with('/') => url(own_scheme, own_authority, path, query),
                path => {
                    let folder = own_path.rfind('/').map_or("/", |end| &own_path[..=end]);
                    url(own_scheme, own_authority, &[folder, path].concat(), query)
                }
            }
        }
    })
}

/// The scheme that a reference begins with, and what follows its colon.
fn scheme(reference: &str) -> (Option<&str>, &str) {
    scheme_of(reference).map_or((None, reference), |(scheme, rest)| (Some(scheme), rest))
}

fn scheme_of(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(fits)).then_some((scheme, rest))
}

/// Authority, path and query of what follows a scheme.
fn split(rest: &str) -> (Option<&str>, &str, Option<&str>) {
    let (hierarchy, query) = match rest.split_once('?') {
        Some((hierarchy, query)) => (hierarchy, Some(query)),
        None => (rest, None),
    };
    let Some(after) = hierarchy.strip_prefix("//") else { return (None, hierarchy, query) };
    let end = after.find('/').unwrap_or(after.len());
    (Some(&after[..end]), &after[end..], query)
}

/// The path without dot segments (RFC 3986, 5.2.4), also where a dot is written `%2e` (6.2.2.2).
fn tidy(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        match dots(segment) {
            0 => kept.push(segment),
            count => {
                if count == 2 {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
        }
    }
    format!("/{}", kept.join("/"))
}

/// 1 for `.`, 2 for `..`, 0 for any other segment.
fn dots(segment: &str) -> usize {
    match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "." => 1,
        ".." => 2,
        _ => 0,
    }
}

/// The targets of the `Link` fields with this relation (RFC 8288, 3).
pub fn of_header(headers: &HeaderMap, relation: &str) -> Vec<String> {
    let fields = headers.get_all(LINK).iter().filter_map(|field| field.to_str().ok());
    fields.flat_map(links).filter(|(_, rel)| has(rel, relation)).map(|(target, _)| target.to_owned()).collect()
}

fn has(relations: &str, wanted: &str) -> bool {
    relations.split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case(wanted))
}

/// Each link of a field: its target, and its first `rel`.
fn links(mut field: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    while let Some((_, after)) = field.split_once('<') {
        let Some((target, parameters)) = after.split_once('>') else { break };
        let (relation, rest) = relation(parameters);
        found.push((target, relation));
        field = rest;
    }
    found
}

/// The `rel` among the parameters of a link, and what follows the link.
fn relation(mut rest: &str) -> (String, &str) {
    let mut relation = None;
    while let Some(after) = rest.trim_start().strip_prefix(';') {
        let end = after.find(['=', ';', ',']).unwrap_or(after.len());
        let name = after[..end].trim();
        let (value, next) = match after[end..].strip_prefix('=') {
            Some(value) => parameter(value.trim_start()),
            None => (String::new(), &after[end..]),
        };
        if name.eq_ignore_ascii_case("rel") {
            relation.get_or_insert(value);
        }
        rest = next;
    }
    (relation.unwrap_or_default(), rest)
}

/// The value of a parameter, a token or a quoted text, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',']).unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return (value, &quoted[at + 1..]),
            c => {
                escaped = false;
                value.push(c);
            }
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamSettings;
    use http::HeaderValue;

    #[test]
    fn references_are_resolved_as_rfc_3986_has_it() {
        let resolved = |reference| {
            let url = join("http://a/b/c/d;p?q", reference).expect(reference);
            let query = url.query.map(|query| format!("?{query}")).unwrap_or_default();
            format!("{}://{}{}{query}", url.scheme, url.authority, url.path)
        };
        // 5.4.1 and 5.4.2, without fragments.
        for (reference, wanted) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("%2e%2E/g", "http://a/b/g"),
            ("HTTP://B:80/x", "http://B:80/x"),
            (" g h ä ", "http://a/b/c/g%20h%20%C3%A4"),
        ] {
            assert_eq!(resolved(reference), wanted, "{reference:?}");
        }
        for unfit in ["http:g", "g\r\nh", "a\\b", "mailto:a@b", "javascript:x"] {
            assert!(join("http://a/b", unfit).is_none(), "{unfit:?}");
        }
    }

    fn upstreams() -> Vec<Arc<ReadyUpstream>> {
        let upstream = |(name, url): (&str, &str)| {
            ReadyUpstream::new(UpstreamSettings::new(name, url.parse().expect("a URL"))).expect("an upstream")
        };
        [("root", "http://shop.test"), ("api", "http://shop.test:80/api"), ("other", "http://127.0.0.1:8000/x")]
            .map(upstream)
            .into()
    }

    #[test]
    fn only_configured_origins_are_reached() {
        let upstreams = upstreams();
        let find = |link: &str| resolve(&upstreams, "api", "http://shop.test/api/list", link, None);
        let name = |link: &str| find(link).map(|place| (place.upstream.name().to_string(), place.target)).ok();
        let found = |name: &str, target: &str| Some((name.to_owned(), target.to_owned()));
        assert_eq!(name("a?b"), found("api", "/api/a?b"));
        assert_eq!(name("/apis"), found("root", "/apis"));
        assert_eq!(name("../x"), found("root", "/x"));
        assert_eq!(name("http://SHOP.test./api/a"), found("api", "/api/a"));
        assert_eq!(name("http://127.0.0.1:8000/x/y?z"), found("other", "/x/y?z"));
        assert_eq!(name("http://127.0.0.1:8000/y/../x"), found("other", "/x"));
        for foreign in [
            "http://evil.test/",
            "//evil.test/a",
            "https://shop.test/api",
            "http://shop.test:8080/",
            "http://169.254.169.254/latest/meta-data",
            "http://127.0.0.1:8001/",
            "http://shop.test@evil.test/",
            "http://user@shop.test/",
            "http://shop.test:/",
            "http://[::1]/",
            "http:///x",
            "file:///etc/passwd",
            // Past the base path.
            "http://127.0.0.1:8000/",
            "http://127.0.0.1:8000/y",
            "http://127.0.0.1:8000/xy",
            "http://127.0.0.1:8000/x/../y",
            "http://127.0.0.1:8000/x/%2e%2e/y",
            "http://127.0.0.1:8000/x/..%2fy",
            "http://127.0.0.1:8000/x/..;/y",
            "http://127.0.0.1:8000/x/%252e%252e/y",
            "http://127.0.0.1:8000/x/..%5cy",
            "http://127.0.0.1:8000/x/%c0%ae%c0%ae/y",
            "http://127.0.0.1:8000/%78/y",
            "/api/..%2fx",
            "/api/%00",
        ] {
            assert!(find(foreign).is_err(), "{foreign}");
        }
    }

    #[test]
    fn links_are_found_in_header_fields() {
        let mut headers = HeaderMap::new();
        headers
            .append(LINK, HeaderValue::from_static("</a,b;c>; title=\"x, \\\"y>\"; rel=\"prev  NEXT\", <c>;rel=last"));
        headers.append(LINK, HeaderValue::from_static("<d>; rel=next; rel=other"));
        assert_eq!(of_header(&headers, "next"), ["/a,b;c", "d"]);
        assert_eq!(of_header(&headers, "last"), ["c"]);
        assert_eq!(of_header(&headers, "other"), Vec::<String>::new());
    }

    #[test]
    fn a_usual_link_is_resolved_as_any_other() {
        let upstream = |name: &'static str, url: &str| {
            ReadyUpstream::new(UpstreamSettings::new(name, url.parse().expect("a URL"))).expect("an upstream")
        };
        let upstreams =
            [upstream("a", "http://api:8080"), upstream("b", "http://api:8080/v1"), upstream("c", "http://c")];
        let links =
            ["/d/1", "/v1/x?q=/..&a=1", "/", "/v1", "/a/./b", "/a/..", "//c/x", "/a%2f", "d", "", "/.x", "/a#b", "/ä"];
        let mut usual = 0;
        for (from, base) in
            [("a", "http://api:8080/list?x=/"), ("a", "http://api:8080"), ("c", "http://C/x"), ("", "none:")]
        {
            for link in links {
                let Some(place) = within(&upstreams, from, base, link) else { continue };
                let other = anywhere(&upstreams, from, base, link, None).expect(link);
                assert_eq!((&place.url, &place.target), (&other.url, &other.target));
                assert_eq!(place.upstream.name(), other.upstream.name(), "{link}");
                usual += 1;
            }
        }
        assert_eq!(usual, 6);
    }
}
