//! Header fields of an answer that point into the upstream point to the gateway instead: the way of the call, back.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use http::header::{CONTENT_LOCATION, HeaderValue, LINK, LOCATION, SET_COOKIE};
use http::uri::Authority;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::http1::AnswerFields;
use crate::http::http1::NameSet;
use crate::request::context::Scope;
use crate::template::{self, RestForm, Template, TemplatePart};
use crate::upstream::{ReadyUpstream, asked_host};

/// The fields that may point into the upstream.
static FIELDS: LazyLock<NameSet> = LazyLock::new(|| NameSet::of([LOCATION, CONTENT_LOCATION, LINK, SET_COOKIE]));

/// All but the unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Removes targets from an answer that point into its upstream, for an answer that is not passed through as it is: to clients
/// they would be addresses that they cannot reach, or other ones on the gateway.
pub(crate) fn withhold(headers: &mut AnswerFields, rewrite: Option<&Rewrite>, upstream: &ReadyUpstream, scope: &Scope) {
    static TARGETS: LazyLock<NameSet> = LazyLock::new(|| NameSet::of([LOCATION, CONTENT_LOCATION]));
    if !headers.has_any(&TARGETS) {
        return;
    }
    for name in TARGETS.iter() {
        let Some(text) = headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok()) else {
            continue;
        };
        let mapped = rewrite.and_then(|rules| Rewriting { rules, upstream, scope }.url(text));
        if mapped.is_none() && points_into(upstream, text, scope.host()) {
            headers.remove(name);
        }
    }
}

/// Whether a target is below the upstream: one without a host is relative to it.
fn points_into(upstream: &ReadyUpstream, url: &str, asked: Option<&[u8]>) -> bool {
    let Some((_, authority, _)) = split(url) else { return false };
    let Some(authority) = authority else { return true };
    if asked.is_some_and(|asked| asked.eq_ignore_ascii_case(authority.as_bytes())) {
        return false;
    }
    let host = authority.parse::<Authority>().map(|authority| authority.host().to_ascii_lowercase());
    // What cannot be read is not shown.
    host.map_or(true, |host| is_inside(&host) || upstream.has_host(|own| own.eq_ignore_ascii_case(&host)))
}

/// Whether a host is an address that only machines inside a network can reach.
fn is_inside(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => false,
    }
}

/// How a path of the upstream becomes one of the endpoint.
pub(crate) struct Rewrite {
    /// The path of the call.
    from: Vec<PathPiece>,
    /// The endpoint's own.
    to: Vec<PathPiece>,
    /// Whether `Link` fields are rewritten.
    links: bool,
}

enum PathPiece {
    Text(String),
    Param(Arc<str>),
    Rest(RestForm),
}

impl Rewrite {
    /// From the template of a call and the path of the endpoint; `None` if an expression makes the path, because that
    /// cannot be reversed.
    pub(crate) fn new(target: &Template, route: &str) -> Option<Self> {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => Some(PathPiece::Text(text.clone())),
            TemplatePart::Param(name) => Some(PathPiece::Param(name.as_str().into())),
            TemplatePart::Rest(form) => Some(PathPiece::Rest(*form)),
            TemplatePart::Segments(..) | TemplatePart::Jq(..) => None,
        };
        let from: Vec<PathPiece> = target.path().iter().map(piece).collect::<Option<_>>()?;
        let segments = route.split('/').skip(1).flat_map(|segment| {
            match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
                Some(name) if name.starts_with('*') => vec![PathPiece::Rest(RestForm::Whole)],
                Some(name) => vec![PathPiece::Text("/".to_owned()), PathPiece::Param(name.into())],
                None => vec![PathPiece::Text(format!("/{}", utf8_percent_encode(segment, CONTROLS)))],
            }
        });
        let to: Vec<PathPiece> = segments.collect();
        let rest = |pieces: &[PathPiece]| pieces.iter().any(|piece| matches!(piece, PathPiece::Rest(_)));
        // Without the rest of the upstream's path, the endpoint's rest is unknown.
        (rest(&from) || !rest(&to)).then_some(Rewrite { from, to, links: true })
    }

    /// The same for an answer whose `Link` fields a step follows.
    pub(crate) fn without_links(self) -> Self {
        Rewrite { links: false, ..self }
    }

    /// The beginning of the client's path that the call leaves out: of `/shop/{*path}` and `/{*path}`, `/shop`. `None` if it leaves
    /// out none, or has another path instead.
    pub(crate) fn prefix(&self, upstream: &ReadyUpstream, scope: &Scope) -> Option<String> {
        let (from, to) = (pattern(&self.from), pattern(&self.to));
        let whole = upstream.find_base(None, None, None, |base| Some([base, &from].concat()))?;
        fill(to.strip_suffix(&*whole)?, scope).filter(|prefix| !prefix.is_empty())
    }

    /// Rewrites the fields of an answer. A target elsewhere, or one without a path of the endpoint, stays unchanged.
    pub(crate) fn apply(&self, headers: &mut AnswerFields, upstream: &ReadyUpstream, scope: &Scope) {
        // Most answers have none of these.
        if !headers.has_any(&FIELDS) {
            return;
        }
        let rewriting = Rewriting { rules: self, upstream, scope };
        for (name, value) in headers.iter_mut() {
            // Some servers write URLs in raw UTF-8.
            let Ok(text) = std::str::from_utf8(value.as_bytes()) else { continue };
            let made = match *name {
                LOCATION | CONTENT_LOCATION => {
                    rewriting.url(text).map(|url| utf8_percent_encode(&url, CONTROLS).to_string())
                }
                LINK if self.links => rewriting.links(text),
                SET_COOKIE => rewriting.cookie(text),
                _ => None,
            };
            if let Some(Ok(made)) = made.map(HeaderValue::try_from) {
                *value = made;
            }
        }
    }

    /// A path of the upstream, below its own, as a path of the endpoint.
    pub(crate) fn public(&self, path: &str, scope: &Scope) -> Option<String> {
        let taken = self.take(path)?;
        if template::check_path(path).is_err() {
            return None;
        }
        let mut made = String::with_capacity(path.len() + 32);
        for piece in &self.to {
            match piece {
                PathPiece::Text(text) => made.push_str(text),
                PathPiece::Param(name) => match taken.params.iter().find(|(known, _)| *known == name) {
                    Some((_, value)) => made.push_str(value),
                    None => made.extend(utf8_percent_encode(scope.param(name)?, RESERVED)),
                },
                PathPiece::Rest(_) => {
                    let (form, rest) = taken.rest?;
                    made.push_str(if form == RestForm::Bare { "/" } else { "" });
                    made.push_str(rest);
                }
            }
        }
        made.push_str(taken.after);
        match made.as_bytes() {
            [] => Some("/".to_owned()),
            // That would be another host.
            [b'/', b'/' | b'\\', ..] => None,
            _ => Some(made),
        }
    }

    /// The path of the call and that of the endpoint, as they are written.
    pub(crate) fn patterns(&self) -> (String, String) {
        (pattern(&self.from), pattern(&self.to))
    }

    /// The first segment of the call's path; `None` if it is not the same for all.
    pub(crate) fn first_segment(&self) -> Option<&str> {
        let [PathPiece::Text(text), behind @ ..] = self.from.as_slice() else { return None };
        let text = text.strip_prefix('/')?;
        let whole = match behind.first() {
            None | Some(PathPiece::Rest(RestForm::Whole)) => true,
            Some(_) => text.contains('/'),
        };
        text.split('/').next().filter(|segment| whole && !segment.is_empty())
    }

    /// How much of the call's path is the same for all.
    pub(crate) fn literal(&self) -> usize {
        let text = |piece: &PathPiece| if let PathPiece::Text(text) = piece { text.len() } else { 0 };
        self.from.iter().map(text).sum()
    }

    /// How much of the beginning of the endpoint's path another one has too.
    pub(crate) fn shared(&self, other: &Rewrite) -> usize {
        let (own, other) = (pattern(&self.to), pattern(&other.to));
        own.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
    }

    /// Matches a path of the upstream against the call's path.
    fn take<'p>(&self, path: &'p str) -> Option<SplitPath<'_, 'p>> {
        let mut taken = SplitPath { params: Vec::new(), rest: None, after: path };
        for (at, piece) in self.from.iter().enumerate() {
            let left = taken.after;
            // The next piece ends a value.
            let next = match self.from.get(at + 1) {
                Some(PathPiece::Text(text)) => text,
                _ => "",
            };
            taken.after = match piece {
                PathPiece::Text(text) => left.strip_prefix(text.as_str())?,
                PathPiece::Param(name) => {
                    let segment = up_to_slash(left);
                    let text = up_to_slash(next);
                    let end = if text.is_empty() { segment.len() } else { segment.rfind(text)? };
                    taken.params.push((name, Some(&left[..end]).filter(|value| !value.is_empty())?));
                    &left[end..]
                }
                PathPiece::Rest(form) => {
                    let end = if next.is_empty() { left.len() } else { left.rfind(next)? };
                    let whole = *form == RestForm::Bare || end == 0 || left.starts_with('/');
                    taken.rest = Some((*form, &left[..end])).filter(|_| whole);
                    taken.rest?;
                    &left[end..]
                }
            };
        }
        let ends = match self.from.last() {
            Some(PathPiece::Text(text)) => text.ends_with('/'),
            _ => false,
        };
        (ends || taken.after.is_empty() || taken.after.starts_with('/')).then_some(taken)
    }
}

/// A path of the upstream, taken apart.
struct SplitPath<'r, 'p> {
    params: Vec<(&'r Arc<str>, &'p str)>,
    rest: Option<(RestForm, &'p str)>,
    /// The part below the call's own path.
    after: &'p str,
}

/// The beginning of a path, up to its first slash.
pub(super) fn up_to_slash(path: &str) -> &str {
    &path[..memchr::memchr(b'/', path.as_bytes()).unwrap_or(path.len())]
}

/// The rewriting of one answer.
struct Rewriting<'a> {
    rules: &'a Rewrite,
    upstream: &'a ReadyUpstream,
    scope: &'a Scope,
}

impl Rewriting<'_> {
    fn url(&self, url: &str) -> Option<String> {
        let (scheme, authority, rest) = split(url)?;
        let (path, tail) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        if authority.is_none() && !path.starts_with('/') {
            return None;
        }
        let path = &*resolve_dots(path);
        let asked = |authority: &str| self.client_host().is_some_and(|host| host.eq_ignore_ascii_case(authority));
        // The upstream was told the beginning of the client's path, and has used it: this leads here already.
        if authority.is_none_or(asked) && self.is_public(path) {
            return None;
        }
        let below = |base: &str| self.path(path.strip_prefix(base)?);
        let path = self.upstream.find_base(scheme, authority, Some(self.scope), below)?;
        Some(path + tail)
    }

    /// Whether a path begins with the part of the client's path that the upstream was told.
    fn is_public(&self, path: &str) -> bool {
        let told = if self.upstream.tells_prefix() { self.rules.prefix(self.upstream, self.scope) } else { None };
        let below =
            |prefix: String| path.strip_prefix(&*prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        told.is_some_and(below)
    }

    /// A path below the upstream's own, as a path of the endpoint.
    fn path(&self, path: &str) -> Option<String> {
        self.rules.public(path, self.scope)
    }

    /// The targets of a `Link` (RFC 8288, 3), between angle brackets that are not quoted.
    fn links(&self, field: &str) -> Option<String> {
        let (mut made, mut rest, mut changed) = (String::with_capacity(field.len()), field, false);
        while let Some(open) = opening(rest) {
            let (before, after) = rest.split_at(open + 1);
            let (target, end) = after.split_at(after.find('>')?);
            let url = self.url(target);
            changed |= url.is_some();
            made.push_str(before);
            made.push_str(url.as_deref().unwrap_or(target));
            rest = end;
        }
        made.push_str(rest);
        changed.then_some(made)
    }

    /// The `Path` and `Domain` of a cookie (RFC 6265, 4.1).
    fn cookie(&self, cookie: &str) -> Option<String> {
        let mut parts = cookie.split(';');
        let pair = parts.next()?;
        // A cookie of this name is refused unless its path is `/`.
        let bound = pair.trim_start().get(..7).is_some_and(|start| start.eq_ignore_ascii_case("__Host-"));
        let (mut made, mut changed) = (pair.to_owned(), false);
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            if name.eq_ignore_ascii_case("domain") && self.is_foreign(value) {
                changed = true;
                continue;
            }
            match self.cookie_path(value).filter(|_| name.eq_ignore_ascii_case("path") && !bound) {
                Some(path) => {
                    changed = true;
                    made.push_str("; Path=");
                    made.push_str(&path);
                }
                None => {
                    made.push(';');
                    made.push_str(part);
                }
            }
        }
        changed.then_some(made)
    }

    /// A cookie is for all paths below its own, with or without a slash at the end.
    fn cookie_path(&self, path: &str) -> Option<String> {
        let path = path.strip_prefix('/').map(|_| path.trim_end_matches('/'))?;
        if self.is_public(path) {
            return None;
        }
        self.upstream.find_base(None, None, None, |base| {
            let path = path.strip_prefix(base)?;
            self.path(path).or_else(|| self.above(path))
        })
    }

    /// A path above that of the call, where the endpoint's path ends as the call's does: of `/v1/items/{id}` and `/items/{id}`, the
    /// path `/v1` is `/`, and `/v1/items` is `/items`.
    fn above(&self, path: &str) -> Option<String> {
        let (from, to) = (pattern(&self.rules.from), pattern(&self.rules.to));
        let tail = from.strip_prefix(path).filter(|tail| tail.starts_with('/'))?;
        let made = fill(to.strip_suffix(tail)?, self.scope)?;
        Some(if made.is_empty() { "/".to_owned() } else { made })
    }

    /// Whether a domain is one of the upstream's, and not one that the client may have cookies of.
    fn is_foreign(&self, domain: &str) -> bool {
        let domain = domain.strip_prefix('.').unwrap_or(domain).to_ascii_lowercase();
        let within = |host: &str| {
            let host = host.to_ascii_lowercase();
            host.strip_suffix(&domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let client = self.client_host().map(|host| host.split(':').next().unwrap_or_default());
        self.upstream.has_host(within) && !client.is_some_and(within)
    }

    fn client_host(&self) -> Option<&str> {
        asked_host(self.scope)?.to_str().ok()
    }
}

/// A path with the parameters of a request.
fn fill(pattern: &str, scope: &Scope) -> Option<String> {
    let (mut left, mut made) = (pattern, String::new());
    while let Some((text, rest)) = left.split_once('{') {
        let (name, rest) = rest.split_once('}')?;
        made.push_str(text);
        made.extend(utf8_percent_encode(scope.param(name)?, RESERVED));
        left = rest;
    }
    made.push_str(left);
    Some(made)
}

fn pattern(pieces: &[PathPiece]) -> String {
    let mut pattern = String::new();
    for piece in pieces {
        match piece {
            PathPiece::Text(text) => pattern.push_str(text),
            PathPiece::Param(name) => pattern.extend(["{", name, "}"]),
            PathPiece::Rest(RestForm::Bare) => pattern.push_str("{*}"),
            PathPiece::Rest(_) => pattern.push_str("/{*}"),
        }
    }
    pattern
}

/// A path without dot segments, as a client resolves it (RFC 3986, 5.2.4, and the URL standard for those that are
/// encoded). More `..` than there are segments lead to the root.
pub(crate) fn resolve_dots(path: &str) -> Cow<'_, str> {
    let dots = |segment: &str| match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "." => 1,
        ".." => 2,
        _ => 0,
    };
    // Most paths have no segment that begins so.
    let may_be_dots = |two: &[u8]| two[0] == b'/' && matches!(two[1], b'.' | b'%');
    if !path.starts_with('/')
        || !path.as_bytes().windows(2).any(may_be_dots)
        || path.split('/').all(|segment| dots(segment) == 0)
    {
        return path.into();
    }
    let mut made: Vec<&str> = Vec::new();
    let mut segments = path[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let kind = dots(segment);
        match kind {
            0 => made.push(segment),
            1 => {}
            _ => drop(made.pop()),
        }
        // A dot segment at the end leaves its slash.
        if kind > 0 && segments.peek().is_none() {
            made.push("");
        }
    }
    format!("/{}", made.join("/")).into()
}

/// Scheme, authority, and what follows; nothing for a URL of another kind.
fn split(url: &str) -> Option<(Option<&str>, Option<&str>, &str)> {
    let (scheme, rest) = match url.find([':', '/', '?', '#']) {
        Some(at) if url[at..].starts_with("://") => (Some(&url[..at]), &url[at + 1..]),
        Some(at) if url[at..].starts_with(':') => return None,
        _ => (None, url),
    };
    Some(match rest.strip_prefix("//") {
        Some(after) => {
            let (authority, rest) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
            (scheme, Some(authority), rest)
        }
        None => (scheme, None, rest),
    })
}

/// Where the next `<` is that is not quoted.
fn opening(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'<' => return !quoted,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use http::uri::PathAndQuery;
    use http::{HeaderMap, Method};

    use super::super::rewrite::*;
    use crate::config::spec::Located;
    use crate::message::body::AnswerBody;
    use crate::request::context::Params;
    use crate::template::TemplateKind;
    use crate::upstream::UpstreamSettings;

    fn rewrite(target: &str, route: &str) -> Option<Rewrite> {
        let target = Located::new(target.to_owned(), Default::default());
        let pieces = template::split(&target).expect("braces match");
        let template =
            Template::compile(pieces, TemplateKind::Target, |_, source| crate::jq::Filter::compile(source, &[]).ok());
        Rewrite::new(&template.expect("a template"), route)
    }

    /// The `location` that a client of `/t/a b/…` gets.
    fn location(target: &str, route: &str, location: &'static str) -> String {
        let url = "http://shop.test:80/base".parse().expect("a URL");
        let upstream = ReadyUpstream::new(UpstreamSettings::new("shop", url)).expect("an upstream");
        let path = PathAndQuery::from_static("/t/a%20b/x");
        let mut scope = Scope::new(Method::GET, Some(path), HeaderMap::new(), AnswerBody::empty());
        scope.set_params(Params { values: vec![("tenant".into(), "a b".to_owned())], rest: None });
        let mut headers = AnswerFields::from(HeaderMap::from_iter([(
            LOCATION,
            HeaderValue::from_bytes(location.as_bytes()).expect("a value"),
        )]));
        let rewrite = rewrite(target, route).expect("no expressions");
        rewrite.apply(&mut headers, &upstream, &scope);
        headers[LOCATION].to_str().expect("a text").to_owned()
    }

    #[test]
    fn a_path_goes_back_the_way_that_the_call_went() {
        for (target, route, from, to) in [
            ("/{*p}", "/{*p}", "/base/a//b?c#d", "/a//b?c#d"),
            ("/{*p}", "/{*p}", "http://SHOP.test/base", "/"),
            ("/{*p}", "/api/{*p}", "//shop.test/base/?x", "/api/?x"),
            ("/x/{*p}/end", "/api/{*p}", "/base/x/a/b/end", "/api/a/b"),
            ("/x/{*p}/end", "/api/{*p}", "/base/x/a/b/end/more", "/api/a/b/more"),
            ("/x-{*p}", "/api/{*p}", "/base/x-a/b", "/api/a/b"),
            ("/{id}.json", "/items/{id}", "/base/a.b.json", "/items/a.b"),
            ("/{a}/{b}", "/{b}/x/{a}", "/base/1/2/3", "/2/x/1/3"),
            ("/items", "/t/{tenant}/items", "/base/items/7", "/t/a%20b/items/7"),
            ("/items/", "/caf\u{e9}/", "/base/items/7", "/caf%C3%A9/7"),
            ("/", "/api", "/base/", "/api"),
            ("/items?a={q}", "/api/items", "/base/items?b", "/api/items?b"),
            ("/{*p}", "/api/{*p}", "/base/a/%2e%2e/b", "/api/b"),
            ("/{*p}", "/api/{*p}", "/../../base/./a/../../base/b/.", "/api/b/"),
            ("/{*p}", "/api/{*p}", "/base/caf\u{e9}?\u{e9}", "/api/caf%C3%A9?%C3%A9"),
        ] {
            assert_eq!(location(target, route, from), to, "{target} {route}");
        }
    }

    #[test]
    fn what_leads_elsewhere_stays_as_it_is() {
        for (target, route, from) in [
            // Without a host of its own, this would name one.
            ("/{*p}", "/{*p}", "/base//evil.test/x"),
            ("/{*p}", "/{*p}", "/base/\\evil.test/x"),
            ("/{*p}", "/{*p}", "/basement"),
            ("/{*p}", "/{*p}", "/base/../b"),
            ("/{*p}", "/{*p}", "/base/../../b"),
            ("/{*p}", "/{*p}", "/base/..%2f../b"),
            ("/{*p}", "/{*p}", "http://user@shop.test/base/x"),
            ("/{*p}", "/{*p}", "http://shop.test:8080/base/x"),
            ("/{*p}", "/{*p}", "http://shop.test.evil.test/base/x"),
            ("/{*p}", "/{*p}", "base/x"),
            ("/{*p}", "/{*p}", "javascript:/base/x"),
            ("/{*p}", "/{*p}", ""),
            ("/items", "/items", "/base/itemsx"),
            ("/items/{id}/x", "/items/{id}", "/base/items//x"),
            ("/items/{id}/x", "/items/{id}", "/base/items/7"),
        ] {
            assert_eq!(location(target, route, from), from, "{target}");
        }
        assert!(rewrite("/a/{.x}", "/a/{id}").is_none());
        assert!(rewrite("/a/{*(.x)}", "/a/{*p}").is_none());
        assert!(rewrite("/index.html", "/{*p}").is_none());
    }
}
