//! The setting `cache`, as written.

use std::time::Duration;

use http::header::HeaderName;
use serde_json::json;

use super::cache::CacheRules;
use crate::cache::dependence::Dependence;
use crate::cache::rules::methods::{CachedMethod, Methods};
use crate::cache::rules::policy::Lifetimes;
use crate::config::problem::{Problems, Span};
use crate::config::spec;
use crate::config::spec::{Decode, Definitions, ExpressionSpec, Json, Located, Node, NodeKind, Size, only};
use crate::spec;

/// Whether answers are kept, and how long.
#[derive(Clone, Debug)]
pub enum CacheSpec {
    /// They are not.
    Off,
    On(Box<CachingSpec>),
}

spec! {
    /// Which answers to cache, and for how long. Short form: `on`, which follows what the answers say (RFC 9111), or
    /// the time for answers that say nothing.
    pub struct CachingSpec {
        /// How long an answer is fresh if it does not say so itself and its status is 200, 203, 204, 300, 301 or 308.
        #[name = "for"]
        pub fallback: Option<Duration>,
        /// How long an answer is fresh, whatever it says: this overrides `no-store`, `no-cache`, `max-age` and
        /// `must-revalidate`, and an answer with a fallback in the place of a part is cached, too. An answer that is `private`, sets a cookie or was made for the client's credentials or
        /// cookies is still not cached, unless `private` says for whom; the latter is cached if it is `public`.
        pub force: Option<Duration>,
        /// How long an answer with status 404, 405, 410, 414, 451 or 501 is fresh if it does not say so itself.
        pub negative: Option<Duration>,
        /// How long after that the gateway serves the stale answer at once while it fetches a new one.
        /// `stale-while-revalidate` of the answer takes precedence.
        pub stale: Option<Duration>,
        /// How long after that the gateway serves the stale answer if the upstream fails: with no answer, or with
        /// 500, 502, 503 or 504. `stale-if-error` of the answer takes precedence. Default: 1h if there is no answer,
        /// and not at all for these statuses.
        pub stale_if_error: Option<Duration>,
        /// An expression that gives the tags of an answer, as texts. A purge can name tags. `.` is the answer's body,
        /// if it is JSON. The values of `cache-tag`, `surrogate-key` and `xkey` are tags too.
        pub tags: Option<ExpressionSpec>,
        /// An expression whose values are part of the cache key. Requests with different values never share an
        /// answer.
        pub key: Option<ExpressionSpec>,
        /// The methods whose answers are cached. Use `POST` and `QUERY` for APIs that only read with them. The
        /// gateway then reads the request body whole, at most `max_body` at an endpoint and 1 MiB at an upstream; it
        /// is part of the cache key.
        pub methods: Located<Vec<CachedMethod>> = Located::new(vec![CachedMethod::Get, CachedMethod::Head], Default::default()),
        /// Request header fields that answers depend on, besides those in their `vary`.
        /// The cache keeps at most 256 answers of one URL for different values. If a field has more values, use `key`.
        pub vary: Vec<Located<String>> = Vec::new(),
        /// Whether the order of query parameters matters.
        pub query: QueryOrder = QueryOrder::Kept,
        /// Caches answers that are for one client only, for that client.
        pub private: Option<PrivateSpec>,
        /// Whether to cache an answer that sets a cookie (`set-cookie`), with the cookie, for all clients. By default such
        /// an answer is for one client, whatever lifetime it declares: it is cached only under `private`, or if the
        /// answer itself names the field in `no-cache` or `private`.
        pub store_cookies: StoreCookies = StoreCookies::Off,
        /// Only at an endpoint: whether its answers are the same for everybody. They then leave as `public`, and fresh for the
        /// time of `for` or `force`, also if their head leaves before all of their parts are known. `check` refuses it where
        /// something of a client is part of the answer: its credentials, its cookies, `$claims`, `$client`, or a forwarded
        /// header field that is not in `vary`.
        pub public: Option<Located<Public>>,
        /// The largest body to cache. A larger one is passed through without caching.
        pub max_size: Size = Size(16 << 20),
    }
    short(short)
}

fn short(fallback: Located<String>, problems: &mut Problems) -> Option<CachingSpec> {
    only([("for", fallback)], problems)
}

spec! {
    /// Caches answers that are for one client only: those that are `private`, set a cookie, or were made for the
    /// client's credentials.
    pub struct PrivateSpec {
        /// An expression that identifies the client, such as `$claims.sub`. All its values are part of the cache key. If
        /// it gives none, or one of them is null or empty or contains null or an empty value, the client is not
        /// identified, and such answers are not cached.
        pub by: ExpressionSpec,
    }
}

crate::choice! {
    /// Whether answers that set cookies are cached for all clients.
    pub enum StoreCookies {
        /// No.
        Off = "off",
        /// Yes: every client gets the cookie of the first one. For cookies that are the same for all.
        On = "on",
    }
}

crate::choice! {
    /// Whether answers are the same for everybody.
    pub enum Public {
        /// They are what their parts say.
        Off = "off",
        /// They are.
        On = "on",
    }
}

crate::choice! {
    /// Whether the order of query parameters matters.
    pub enum QueryOrder {
        /// The cache key has the query as it came.
        Kept = "kept",
        /// The cache key has the parameters sorted by name. The upstream gets them as they came.
        Sorted = "sorted",
    }
}

impl Decode for CacheSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_text().as_ref().map(Located::as_str) {
            Some("off" | "false") => Some(CacheSpec::Off),
            Some("on" | "true") => Some(CacheSpec::On(Box::new(spec::defaults()))),
            Some("yes") => node.wrong("`on`, `off`, a time or a map", "write `on`", problems),
            Some("no") => node.wrong("`on`, `off`, a time or a map", "write `off`", problems),
            _ if matches!(node.kind, NodeKind::Null | NodeKind::List(_)) => {
                node.wrong("`on`, `off`, a time or a map", "write `cache: on`, or `cache: 30s`", problems)
            }
            _ => CachingSpec::decode(node, problems).map(|spec| CacheSpec::On(Box::new(spec))),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        json!({"anyOf": [{"enum": ["on", "off", true, false]}, CachingSpec::schema(definitions)]})
    }

    fn written(&self) -> Option<Json> {
        self.on().is_none().then(|| "off".into())
    }

    fn fields() -> Vec<spec::Field> {
        CachingSpec::fields()
    }
}

impl CacheSpec {
    /// The settings, unless the cache is off.
    pub fn on(&self) -> Option<&CachingSpec> {
        match self {
            CacheSpec::Off => None,
            CacheSpec::On(spec) => Some(spec),
        }
    }
}

impl CachingSpec {
    /// Checks it and makes it ready, but for its expressions.
    pub fn rules(&self, problems: &mut Problems) -> Option<CacheRules> {
        let lifetimes = Lifetimes {
            fallback: self.fallback,
            force: self.force,
            negative: self.negative,
            stale: self.stale,
            stale_if_error: self.stale_if_error,
            private: false,
            cookies: self.store_cookies == StoreCookies::On,
        };
        let name = |written: &Located<String>| {
            let name = HeaderName::from_bytes(written.value.as_bytes()).ok();
            if name.is_none() {
                let remedy = "write the names of header fields, as in `[accept-language]`";
                problems.error::<()>(written.span, format!("`{written}` is not the name of a header field"), remedy);
            }
            name
        };
        let vary: Vec<Option<HeaderName>> = self.vary.iter().map(name).collect();
        let vary = vary.into_iter().collect::<Option<Vec<_>>>()?;
        let methods = self.methods(problems)?;
        let max_size = self.max_size.bytes() as u64;
        Some(CacheRules { lifetimes, methods, vary, max_size, dependence: Dependence::default() })
    }

    fn methods(&self, problems: &mut Problems) -> Option<Methods> {
        let Located { value: methods, span, .. } = &self.methods;
        if methods.is_empty() {
            return problems.error(
                *span,
                "without a method, nothing is cached",
                "write `[GET, HEAD]`, or `cache: off`",
            );
        }
        if methods.contains(&CachedMethod::Head) && !methods.contains(&CachedMethod::Get) {
            let message = "`HEAD` is answered from the cached `GET`, which is not among the methods";
            return problems.error(*span, message, "add `GET`");
        }
        Some(Methods::new(methods.clone()))
    }

    /// Where the answers are called public, if they are.
    pub fn publishes(&self, problems: &mut Problems) -> Option<Option<Span>> {
        let Some(public) = self.public.as_ref().filter(|public| public.value == Public::On) else { return Some(None) };
        if self.fallback.is_none() && self.force.is_none() {
            let remedy = "write `for: 1m` beside it, or how long that is";
            return problems.error(public.span, "`public` does not say how long answers are fresh", remedy);
        }
        Some(Some(public.span))
    }

    /// The line of `explain`.
    pub fn outline(&self) -> String {
        let told =
            |time: Duration| time.written().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
        let mut parts = vec![match (self.force, self.fallback) {
            (Some(force), _) => format!("every answer for {}, whatever it declares", told(force)),
            (None, Some(own)) => {
                format!("answers as they declare (RFC 9111), those without a lifetime for {}", told(own))
            }
            (None, None) => "answers as they declare (RFC 9111)".to_owned(),
        }];
        parts.extend(self.negative.map(|time| format!("errors without a lifetime for {}", told(time))));
        parts.extend(self.stale.map(|time| format!("stale ones for {} while a new one is fetched", told(time))));
        parts.extend(self.stale_if_error.map(|time| format!("stale ones for {} if the upstream fails", told(time))));
        let bodies =
            self.methods.value.iter().filter(|method| matches!(method, CachedMethod::Post | CachedMethod::Query));
        let bodies: Vec<&str> = bodies.map(|method| method.word()).collect();
        parts.extend((!bodies.is_empty()).then(|| format!("those to {} apart by their bodies", bodies.join(" and "))));
        parts.extend(self.key.as_ref().map(|key| format!("apart by {}", key.0)));
        parts.extend((!self.vary.is_empty()).then(|| {
            let names: Vec<String> = self.vary.iter().map(ToString::to_string).collect();
            format!("apart by the request's {}", names.join(", "))
        }));
        parts.extend(self.private.as_ref().map(|private| format!("private ones for each {}", private.by.0)));
        parts.extend((self.store_cookies == StoreCookies::On).then(|| "those that set cookies, too".to_owned()));
        let public = self.public.as_ref().is_some_and(|public| public.value == Public::On);
        parts.extend(public.then(|| "public ones, the same for everybody".to_owned()));
        parts.extend(self.tags.as_ref().map(|tags| format!("with the tags {}", tags.0)));
        parts.push(format!("bodies up to {} MiB", self.max_size.bytes().div_ceil(1 << 20)));
        format!("keeps {}", parts.join("; "))
    }
}

/// A query with its parameters sorted by name; those of one name stay in their order.
pub fn sorted(query: &str) -> String {
    let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_by_key(|pair| pair.split('=').next().unwrap_or_default());
    pairs.join("&")
}
