//! The keys of a cache: what distinguishes the requests for one URL, and for whom their answers are.

use std::borrow::Cow;

use http::HeaderName;

use super::spec::{QueryOrder, sorted};
use crate::cache::dependence::Dependence;
use crate::cache::rules::key::{Audience, Key};
use crate::error::Error;
use crate::jq::{self, Filter};
use crate::json::value::{self, Shape, Value};

/// The distinction between requests for one URL: parts, each with its kind. Two lists of parts never have the same bytes.
#[derive(Clone, Debug, Default)]
pub struct Identity(Vec<u8>);

/// The kind of a part of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Distinction {
    /// The cache: an upstream or an endpoint.
    Cache = 1,
    /// The body, and how it was sent.
    Body,
    /// The host of the URL as it was sent, where that is not in lower case.
    Spelling,
    /// Another host that a request names, and its scheme.
    Host,
    /// A header field that the gateway adds to a call.
    Field,
    /// A variable that a pipeline reads.
    Variable,
    /// The values of `key`.
    Key,
    /// The values of `private.by`.
    Client,
    /// A call without the credentials of its upstream.
    Anonymous,
}

impl Identity {
    pub fn of(cache: &[u8]) -> Self {
        let mut identity = Identity(Vec::with_capacity(cache.len() + 64));
        identity.add(Distinction::Cache, [cache]);
        identity
    }

    /// Adds a part, and how many values it has.
    pub fn add<T: AsRef<[u8]>>(&mut self, what: Distinction, values: impl IntoIterator<Item = T>) {
        self.0.push(what as u8);
        for value in values {
            let value = value.as_ref();
            self.0.push(1);
            self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
            self.0.extend_from_slice(value);
        }
        self.0.push(0);
    }

    fn add_values(&mut self, what: Distinction, values: &[Value]) {
        self.add(what, values.iter().map(ToString::to_string));
    }
}

/// A URL, in its parts.
#[derive(Clone, Copy, Debug)]
pub struct KeyUrl<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The host with its port, as it was sent.
    pub host: &'a [u8],
    /// The URL before its path.
    pub base: &'a str,
    pub path: &'a str,
    /// The query, without `?`.
    pub query: Option<&'a str>,
}

/// The settings of a cache that make its keys, compiled: of an upstream or of an endpoint.
#[derive(Clone)]
pub struct Front {
    pub key: Option<Filter>,
    /// `private.by`
    pub by: Option<Filter>,
    pub query: QueryOrder,
}

impl Front {
    /// Adds what the configuration says of a request.
    ///
    /// # Errors
    /// The errors of the expressions.
    pub fn identify(
        &self,
        identity: &mut Identity,
        variable: &mut dyn FnMut(&str) -> Value,
    ) -> Result<Audience, Error> {
        if let Some(key) = &self.key {
            identity.add_values(Distinction::Key, &key.run(jq::null(), variable)?);
        }
        let Some(by) = &self.by else { return Ok(Audience::All) };
        let values = by.run(jq::null(), variable)?;
        identity.add_values(Distinction::Client, &values);
        let one = !values.is_empty() && values.iter().all(identifies);
        Ok(if one { Audience::One } else { Audience::All })
    }

    /// The parts of requests that the answers under its keys depend on, with these header fields.
    pub fn dependence(&self, vary: &[HeaderName]) -> Dependence {
        let mut dependence = Dependence::default();
        dependence.add_fields(vary);
        self.key.iter().chain(&self.by).for_each(|filter| dependence.add_reads(filter.reads()));
        if self.by.is_some() {
            dependence.personalise();
        }
        dependence
    }

    pub fn key(&self, url: &KeyUrl<'_>, mut identity: Identity) -> Key {
        let mut host = String::from_utf8_lossy(url.host);
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            host = host.to_ascii_lowercase().into();
        }
        // Purges name the host in lower case. A server may read it in another way.
        if host.as_bytes() != url.host {
            identity.add(Distinction::Spelling, [url.host]);
        }
        let query = url.query.map(|query| match self.query {
            QueryOrder::Kept => Cow::Borrowed(query),
            QueryOrder::Sorted => Cow::Owned(sorted(query)),
        });
        let mark = if query.is_some() { "?" } else { "" };
        let whole = [url.scheme, "://", &host, url.base, url.path, mark, &query.unwrap_or_default()].concat();
        Key::new(&whole, &identity.0)
    }
}

/// Whether a value of `private.by` can be a client's: null, an empty text or list and what contains one of them is nobody's,
/// and so the same for all who have none.
fn identifies(value: &Value) -> bool {
    match value::shape(value) {
        Shape::Null => false,
        Shape::Text(text) | Shape::Bytes(text) => !text.is_empty(),
        Shape::List(values) => !values.is_empty() && values.iter().all(identifies),
        Shape::Object(fields) => !fields.is_empty() && fields.values().all(identifies),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::front::*;

    const URL: KeyUrl<'_> = KeyUrl { scheme: "http", host: b"shop", base: "", path: "/a", query: None };

    fn front(key: Option<&str>, by: Option<&str>) -> Front {
        let filter = |source: &str| Filter::compile(source, &["claims"]).expect(source);
        Front { key: key.map(filter), by: by.map(filter), query: QueryOrder::Kept }
    }

    /// The key for these claims, and for whom its answer is.
    fn key(front: &Front, claims: &str) -> (Key, Audience) {
        // JSON is an expression.
        let claims = Filter::compile(claims, &[]).expect(claims).run(jq::null(), &mut |_| jq::null());
        let claims = claims.expect("JSON").remove(0);
        let mut identity = Identity::of(b"upstream shop");
        let audience = front.identify(&mut identity, &mut |_| claims.clone()).expect("values");
        (front.key(&URL, identity), audience)
    }

    #[test]
    fn only_what_identifies_a_client_makes_a_key_private() {
        for (by, claims, wanted) in [
            ("$claims.sub", r#"{"sub": "a"}"#, Audience::One),
            ("$claims.sub", r#"{"sub": 7}"#, Audience::One),
            ("$claims.sub, $claims.admin", r#"{"sub": "a", "admin": false}"#, Audience::One),
            ("[$claims.sub, $claims.shop]", r#"{"sub": "a", "shop": "b"}"#, Audience::One),
            ("$claims.sub", "{}", Audience::All),
            ("$claims.sub", r#"{"sub": ""}"#, Audience::All),
            ("$claims.sub, $claims.shop", r#"{"sub": "a"}"#, Audience::All),
            ("$claims.sub, $claims.shop", r#"{"shop": "a"}"#, Audience::All),
            ("[$claims.sub, $claims.shop]", r#"{"sub": "a"}"#, Audience::All),
            ("{sub: $claims.sub}", "{}", Audience::All),
            ("$claims.groups", r#"{"groups": []}"#, Audience::All),
            ("$claims.groups[]?", "{}", Audience::All),
            ("{}", "{}", Audience::All),
        ] {
            assert_eq!(key(&front(None, Some(by)), claims).1, wanted, "{by} {claims}");
        }
    }

    #[test]
    fn different_values_are_different_keys() {
        let both = r#"{"a": "x", "b": "y"}"#;
        let fronts = [
            front(None, None),
            front(Some("$claims.a"), None),
            front(None, Some("$claims.a")),
            front(Some("$claims.a, $claims.b"), None),
            front(Some("$claims.a"), Some("$claims.b")),
            front(None, Some("$claims.a, $claims.b")),
            front(None, Some("$claims.a + $claims.b")),
            front(None, Some("[$claims.a, $claims.b]")),
            front(None, Some("empty")),
            front(None, Some("\"\"")),
            front(Some("\"\\\"x\\\"\""), None),
        ];
        let keys: Vec<Key> = fronts.iter().map(|front| key(front, both).0).collect();
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[at + 1..].iter().all(|other| other != one), "{at}");
        }
    }

    #[test]
    fn one_host_has_one_url_and_a_key_for_each_spelling() {
        let key = |host| front(None, None).key(&KeyUrl { host, ..URL }, Identity::of(b"x"));
        assert_eq!(key(b"shop"), key(b"shop"));
        assert_eq!(key(b"Shop").url(), "http://shop/a");
        for (one, other) in [(&b"Shop"[..], &b"shop"[..]), (b"\xff", b"\xfe"), (b"\xff", "\u{fffd}".as_bytes())] {
            assert_ne!(key(one), key(other), "{one:?} {other:?}");
        }
    }
}
