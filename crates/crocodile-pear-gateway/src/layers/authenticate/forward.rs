//! `forward`: asks a service whether a request may pass (forward authentication).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::spec::{ExpressionSpec, Located, Timeout};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::jq::{self, Filter, Value};
use crocodile_pear::unstable::json;
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::request::facts::GrantedField;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::template::{Template, TemplateSource};
use crocodile_pear::unstable::upstream::{Likeness, ReadyUpstream, Timeouts, UpstreamCall, may_send};
use http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method as Verb, Response, StatusCode};

use super::method::{Judgement, Method, Outcome, Passed};
use super::remembered::{Hash, Remembered, hash, now};
use crate::http::response;
use crate::layer::Compile;

spec! {
    /// A service decides: oauth2-proxy, Authelia, Authentik, Open Policy Agent, or your own. The gateway sends it a
    /// request without the client's body. If it answers with a status 2xx, the request passes. Any other answer is the
    /// client's answer, also a redirect to a login page. If it does not answer, nobody passes: the client gets 502, 503
    /// or 504.
    ///
    /// The service gets the method, the URL and the address of the client in `x-forwarded-method`, `x-forwarded-proto`,
    /// `x-forwarded-host`, `x-forwarded-uri`, `x-forwarded-for`, `x-original-method` and `x-original-url`.
    pub struct ForwardAuth {
        /// The name of the upstream that decides.
        pub to: Located<String>,
        /// Path and query, as in `request`: text with `{}`. Expressions see the client's request.
        pub path: Located<String> = Located::new("/".to_owned(), Default::default()),
        /// The method; default: GET, or POST with a `body`.
        pub method: Option<Located<String>>,
        /// The client's header fields that the service gets.
        pub headers: Vec<Located<String>> = usual(),
        /// An expression over the client's request. Its value is sent as a JSON body: `{input: {path: $headers.host}}`.
        pub body: Option<ExpressionSpec>,
        /// The header fields of its answer that say who the client is. Every call of the pipeline sends them; a client
        /// cannot send them itself. `$claims` has them by their names in lower case: `$claims["x-user"]`.
        pub keep: Vec<Located<String>> = Vec::new(),
        /// The header fields of its answer that the client gets beside those of the endpoint's answer.
        pub answer: Vec<Located<String>> = vec![Located::new("set-cookie".to_owned(), Default::default())],
        /// A condition; `.` is its answer's JSON body. The request only passes if the status is 2xx and this is true:
        /// `.result == true`. Otherwise the client gets 403. At most 64 KiB are read.
        pub allow: Option<ExpressionSpec>,
        /// An expression for `$claims`, instead of the fields of `keep`; `.` is its answer's JSON body.
        pub claims: Option<ExpressionSpec>,
        /// How long a decision to let pass is used again, and for which requests. Off by default.
        pub cache: Option<DecisionCache>,
        /// Timeout for the answer. After it, the client gets 504.
        pub timeout: Duration = Duration::from_secs(5),
    }
}

spec! {
    /// For which requests a decision is used again.
    pub struct DecisionCache {
        /// How long.
        pub r#for: Duration,
        /// An expression over the client's request: requests with the same value share a decision. It must contain all
        /// that the service decides by: `[$headers.cookie, $path.id]`. If it is null, or a list of nulls, the service is
        /// asked. The method, the host and `path` are always a part of it.
        pub by: ExpressionSpec,
    }
}

fn usual() -> Vec<Located<String>> {
    let names = ["authorization", "cookie", "accept", "x-requested-with"];
    names.map(|name| Located::new(name.to_owned(), Default::default())).into()
}

/// The most bytes of a service's answer that are read for `allow` and `claims`.
const MOST: usize = 64 << 10;

impl ForwardAuth {
    /// Makes it ready; every problem is noted.
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let upstream = cx.upstream(&self.to);
        let starts_right = self.path.value.starts_with('/');
        if !starts_right {
            let remedy = "begin it with `/`; the upstream's own path stands before it";
            cx.problems.error::<()>(self.path.span, "a path begins with `/`", remedy);
        }
        let target = cx.target(&self.path);
        let method = self.method(cx);
        let headers = names(&self.headers, cx);
        let keep = names(&self.keep, cx);
        let answer = names(&self.answer, cx);
        let body = self.body.as_ref().map_or(Some(None), |body| cx.filter(body, &[]).map(Some));
        let allow = self.allow.as_ref().map_or(Some(None), |allow| cx.of_answer(allow, &[]).map(Some));
        let claims = self.claims.as_ref().map_or(Some(None), |claims| cx.of_answer(claims, &[]).map(Some));
        let cache = self.cache.as_ref().map_or(Some(None), |cache| {
            let by = cx.filter(&cache.by, &[])?;
            Some(Some((cache.r#for.as_secs().max(1), by)))
        });
        let upstream = upstream.filter(|_| starts_right)?;
        let timeouts = Timeouts { call: Timeout::After(self.timeout), ..upstream.timeouts().clone() };
        // What another service has decided is not used again.
        let known = cx.carry.part(Arc::as_ptr(&upstream) as usize).state(Remembered::default);
        Some(Box::new(ReadyForward {
            asks: Arc::new(Asks {
                name: self.to.value.clone(),
                keep: keep?,
                answer: answer?,
                allow: allow?,
                claims: claims?,
                known,
                cache: cache?,
            }),
            upstream,
            target: target?,
            method: method?,
            headers: headers?,
            body: body?,
            timeouts: Arc::new(timeouts),
        }))
    }

    fn method(&self, cx: &mut Compile<'_>) -> Option<Verb> {
        let Some(written) = &self.method else {
            return Some(if self.body.is_some() { Verb::POST } else { Verb::GET });
        };
        let method = Verb::from_bytes(written.value.as_bytes()).ok();
        match method.filter(|method| written.value.bytes().all(|b| b.is_ascii_uppercase()) && *method != Verb::CONNECT)
        {
            Some(method) => Some(method),
            None => {
                let remedy = "write GET, HEAD or POST, in capitals";
                cx.problems.error(written.span, format!("`{written}` is not a method for a call"), remedy)
            }
        }
    }
}

fn names(written: &[Located<String>], cx: &mut Compile<'_>) -> Option<Vec<HeaderName>> {
    let name = |written: &Located<String>| {
        let name = HeaderName::from_bytes(written.value.as_bytes()).ok().filter(may_send).filter(|name| *name != HOST);
        if name.is_none() {
            let remedy = "names consist of letters, digits and `-`; framing and hop-by-hop fields end at the gateway, and \
                          the host is in `x-forwarded-host`";
            cx.problems.error::<()>(written.span, format!("`{written}` cannot be named here"), remedy);
        }
        name
    };
    let names: Vec<_> = written.iter().map(name).collect();
    names.into_iter().collect()
}

/// The compiled method.
struct ReadyForward {
    upstream: Arc<ReadyUpstream>,
    target: Template,
    method: Verb,
    headers: Vec<HeaderName>,
    body: Option<Filter>,
    /// The timeouts of the upstream that is named; `call` is the same for all.
    timeouts: Arc<Timeouts>,
    asks: Arc<Asks>,
}

/// The part that reads the service's answer.
struct Asks {
    name: String,
    keep: Vec<HeaderName>,
    answer: Vec<HeaderName>,
    allow: Option<Filter>,
    claims: Option<Filter>,
    /// For how many seconds, and by what.
    cache: Option<(u64, Filter)>,
    known: Arc<Remembered<Passed>>,
}

/// The client's request, as texts with braces see it.
struct ScopeSource<'a>(&'a Scope);

impl TemplateSource for ScopeSource<'_> {
    fn param(&self, name: &str) -> Option<&str> {
        self.0.param(name)
    }

    fn rest(&self) -> &str {
        self.0.rest()
    }

    fn evaluate(&self, filter: &Filter) -> Result<jq::Data, Error> {
        value(filter, self.0).map(Into::into)
    }
}

/// The value of an expression over the client's request.
fn value(filter: &Filter, scope: &Scope) -> Result<Value, Error> {
    let value = filter.run_one(jq::null(), &mut |name| scope.variable(name, &None));
    let value = value.map_err(|error| Error::new(Kind::BadRequest, error.detail().to_owned()))?;
    Ok(value.unwrap_or_else(jq::null))
}

impl Method for ReadyForward {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        let found = self.upstream.chosen(scope).and_then(|chosen| {
            let target = self.target.target(&ScopeSource(scope))?;
            Ok((chosen, self.asks.key(scope, chosen.name(), &target)?))
        });
        let (chosen, key) = match found {
            Ok(found) => found,
            Err(error) => return Judgement::Now(Outcome::Unavailable(error)),
        };
        if let Some(passed) = key.and_then(|key| self.asks.known.find(&key, now())) {
            return Judgement::Now(Outcome::Passed(passed));
        }
        let calling = self.call(chosen, scope).and_then(|call| self.upstream.call_chosen(chosen, call, scope));
        match calling {
            Ok(calling) => Judgement::Wait(Box::pin(self.ask(calling, key))),
            Err(error) => Judgement::Now(Outcome::Unavailable(error)),
        }
    }

    fn challenge(&self, _: Option<&'static str>) -> Option<HeaderValue> {
        None
    }

    fn places(&self, _: &mut Credentials) {}

    fn is_ambient(&self) -> bool {
        self.headers.contains(&COOKIE)
    }

    fn outline(&self) -> String {
        let cache = self.asks.cache.as_ref().map(|(seconds, _)| format!(", for {seconds} s")).unwrap_or_default();
        format!("that `{}` lets the request pass{cache}", self.asks.name)
    }
}

impl ReadyForward {
    /// The request that asks about this one, for the upstream that was chosen.
    fn call(&self, upstream: &ReadyUpstream, scope: &Scope) -> Result<UpstreamCall, Error> {
        let target = self.target.target(&ScopeSource(scope))?;
        let mut fields = upstream.fields(scope, Likeness::Other)?;
        for name in &self.headers {
            fields.hand_on(name, scope.headers());
        }
        // Every request is asked about: a cache for answers would give one client's decision to another.
        upstream.keep(scope, &mut fields)?;
        let mut headers = fields.into_map();
        describe(scope, &mut headers);
        let body = match &self.body {
            None => None,
            Some(filter) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Some(AnswerBody::Value(value(filter, scope)?))
            }
        };
        let timeouts = match std::ptr::eq(upstream, &*self.upstream) {
            true => self.timeouts.clone(),
            false => Arc::new(Timeouts { call: self.timeouts.call, ..upstream.timeouts().clone() }),
        };
        Ok(UpstreamCall {
            method: self.method.clone(),
            headers,
            body,
            timeouts: Some(timeouts),
            deadline: scope.deadline(),
            host: upstream.host(scope),
            received: scope.version(),
            ..UpstreamCall::get(target)
        })
    }

    async fn ask(&self, calling: impl Future<Output = Result<Answer, Error>>, key: Option<Hash>) -> Outcome {
        match calling.await {
            Ok(answer) if answer.status.is_success() => match self.asks.read(answer).await {
                Ok(Some(passed)) => {
                    if let (Some(key), Some((seconds, _))) = (key, &self.asks.cache) {
                        self.asks.known.keep(key, now() + seconds, passed.clone());
                    }
                    Outcome::Passed(passed)
                }
                Ok(None) => {
                    let refused = response::refuse(StatusCode::FORBIDDEN, "the request is not allowed");
                    Outcome::Answered(Box::new(refused))
                }
                Err(error) => Outcome::Unavailable(error),
            },
            Ok(answer) => Outcome::Answered(Box::new(response(answer))),
            Err(error) => Outcome::Unavailable(error),
        }
    }
}

/// The answer of the service, for the client.
fn response(answer: Answer) -> Response<AnswerBody> {
    let mut response = Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers.into_map();
    response
}

impl Asks {
    /// The key that the decision about this request is kept under; `None` where it is not kept.
    fn key(&self, scope: &Scope, upstream: &str, target: &str) -> Result<Option<Hash>, Error> {
        let Some((_, by)) = &self.cache else { return Ok(None) };
        let value = value(by, scope)?;
        let bytes = json::to_bytes(&value)?;
        let says_nothing = bytes.iter().all(|byte| b"[]nul, ".contains(byte));
        if says_nothing {
            return Ok(None);
        }
        let host = scope.host().unwrap_or_default();
        let texts = [scope.method().as_str().as_bytes(), host, upstream.as_bytes(), target.as_bytes(), &bytes[..]];
        Ok(Some(hash(&texts.join(&0))))
    }

    /// The facts about a request that passes; `None` if `allow` is not true.
    async fn read(&self, answer: Answer) -> Result<Option<Passed>, Error> {
        let headers = answer.headers.into_map();
        let document = match (&self.allow, &self.claims) {
            (None, None) => {
                // Read, so that the connection is kept. What is longer closes it.
                let _ = answer.body.collect(MOST).await;
                None
            }
            _ => Some(json::read(&answer.body.collect(MOST).await?)?),
        };
        let over = |filter: &Filter| {
            let document = document.clone().unwrap_or_else(jq::null);
            filter.run_one(document, &mut |_| jq::null()).map(|value| value.unwrap_or_else(jq::null))
        };
        if let Some(allow) = &self.allow
            && !json::to_bytes(&over(allow)?).is_ok_and(|value| &value[..] == b"true")
        {
            return Ok(None);
        }
        let text = |value: &HeaderValue| jq::string(&String::from_utf8_lossy(value.as_bytes()));
        let kept = self.keep.iter().filter_map(|name| Some((name.as_str(), text(headers.get(name)?))));
        let claims = match &self.claims {
            None => jq::object(kept),
            Some(claims) => over(claims)?,
        };
        let fields: Arc<[GrantedField]> =
            self.keep.iter().map(|name| (name.clone(), headers.get(name).cloned())).collect();
        let back =
            self.answer.iter().flat_map(|name| headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
        Ok(Some(Passed { claims, fields, back: back.collect() }))
    }
}

/// Says which request it is: the fields that authorisation servers read.
fn describe(scope: &Scope, headers: &mut HeaderMap) {
    let client = scope.facts().client();
    let scheme = client.map_or("http", |client| client.scheme());
    let host = client.and_then(|client| client.host.clone()).or_else(|| scope.headers().get(HOST).cloned());
    let target = scope.target().map_or("/", |target| target.as_str());
    let address = client.map(|client| client.address.to_string());
    let mut set = |name: &'static str, value: Option<HeaderValue>| {
        match value {
            Some(value) => headers.insert(HeaderName::from_static(name), value),
            None => headers.remove(name),
        };
    };
    let text = |text: &str| HeaderValue::from_str(text).ok();
    set("x-forwarded-method", text(scope.method().as_str()));
    set("x-original-method", text(scope.method().as_str()));
    set("x-forwarded-proto", text(scheme));
    set("x-forwarded-uri", text(target));
    let url = host.as_ref().and_then(|host| {
        HeaderValue::from_bytes(&[scheme.as_bytes(), b"://", host.as_bytes(), target.as_bytes()].concat()).ok()
    });
    set("x-original-url", url);
    set("x-forwarded-host", host);
    set("x-forwarded-for", address.as_deref().and_then(text));
}
