//! `cache`: stores the answers of an endpoint and reuses them for equal requests.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::cache::rules::methods;
use crocodile_pear::unstable::cache::store::tags;
use crocodile_pear::unstable::cache::{
    AnswerParts, Audience, Cache, CacheOwner, CacheRules, CacheService, CacheSpec, Dependence, Distinction, Entry,
    Fetch, FetchedAnswer, Front, Identity, Initiator, Key, KeyUrl, Question, Reply, SharedBody, Shelf, Store, Tags,
};
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Node};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::http1::fields::hop_by_hop;
use crocodile_pear::unstable::jq::{self, Filter, Read};
use crocodile_pear::unstable::json::{self, value::as_object};
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::pipeline::plan::Plan;
use crocodile_pear::unstable::request::context::Scope;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};

/// Which answers of an endpoint are stored.
#[derive(Clone, Debug)]
pub struct EndpointCacheSpec {
    spec: CacheSpec,
    place: Span,
}

impl Decode for EndpointCacheSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        CacheSpec::decode(node, problems).map(|spec| EndpointCacheSpec { spec, place: node.span })
    }

    fn schema(definitions: &mut Definitions) -> Json {
        CacheSpec::schema(definitions)
    }

    fn fields() -> Vec<Field> {
        CacheSpec::fields()
    }
}

impl Spec for EndpointCacheSpec {
    type Ready = CompiledCache;

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "cache",
        "Which of its answers are cached, and for how long: `on`, a time for answers that do not say it \
             themselves, or a map; `off` for none. An answer made of several is as fresh as the least fresh of \
             them, and private if one of them is. It has its own `etag` and `max-age`. These are not known yet \
             while it streams for the first time, so it then has `no-cache`. Off by default.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<CompiledCache>> {
        let written = self.spec.on()?;
        let store = cx.services.persistent.cache.clone();
        let rules = written.rules(cx.problems);
        let key = written.key.as_ref().map_or(Some(None), |key| cx.filter(key, &[]).map(Some));
        let by = written.private.as_ref().map_or(Some(None), |private| cx.filter(&private.by, &[]).map(Some));
        let tags = written.tags.as_ref().map_or(Some(None), |tags| cx.of_answer(tags, &[]).map(Some));
        let (rules, key, by, tags) = (rules?, key?, by?, tags?.map(Arc::new));
        let (outline, place) = (written.outline(), self.place);
        let front = Front { key, by, query: written.query };
        let at = cx.place.into();
        let public = match (written.publishes(cx.problems)?, written.force.or(written.fallback)) {
            (None, _) => None,
            (Some(place), fresh) => fresh.zip(Some(place)),
        };
        Some(Arc::new(CompiledCache { store, rules, front, tags, outline, place, at, public }))
    }

    /// `None`: see [`CompiledCache::around`].
    fn around(_: &Arc<CompiledCache>, _: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        None
    }
}

/// The compiled settings, ready for each endpoint that they apply to.
pub struct CompiledCache {
    store: Arc<Store>,
    rules: CacheRules,
    front: Front,
    tags: Option<Arc<Filter>>,
    outline: String,
    place: Span,
    /// The endpoint or group where it is written.
    at: Box<str>,
    /// How long answers are fresh for everybody, if they are public, and where that is written.
    public: Option<(Duration, Span)>,
}

impl CompiledCache {
    /// The cache around the pipeline of an endpoint, whose layers have said what answers depend on. `None` if its answers
    /// cannot be stored, which is noted in `at`.
    pub fn around(self: &Arc<Self>, at: &mut LayerPosition<'_>) -> Option<EndpointCache> {
        let (plan, route) = (at.plan?, at.route?);
        if let Some((message, remedy)) = self.refuse(at) {
            at.refused.push((self.place, message, remedy));
            return None;
        }
        if plan.uses("id") {
            let message = "`$id` differs in each request and is part of the cache key: no answer is found again";
            let remedy = "leave `$id` out of the pipeline, or leave out `cache`";
            at.warned.push((self.place, message.to_owned(), remedy.to_owned()));
        }
        let here = CacheOwner::Endpoint(route.to_string());
        let rules = CacheRules { dependence: self.depend(at), ..self.rules.clone() };
        Some(EndpointCache {
            cache: Cache::new("crocodile-pear", &here, self.store.clone(), rules),
            plan: plan.clone(),
            place: format!("endpoint {route}").into_bytes().into(),
            reads: depended(plan.reads(), &self.rules.vary),
            caches: self.clone(),
        })
    }

    /// The part of `refuse` about the endpoint's method. The cache of a group applies only to those of its endpoints
    /// that it supports.
    fn refuse_method(&self, route: &str) -> Option<(String, String)> {
        let method = route.split_once(' ').and_then(|(method, _)| method.parse::<Method>().ok())?;
        let usual = matches!(method, Method::GET | Method::HEAD);
        if *self.at != *route || usual || self.rules.methods.serve(&method, &HeaderMap::new()) == CacheService::WithBody
        {
            return None;
        }
        let message = format!("answers to {method} are not cached, so this cache stores nothing");
        let remedy = match method.as_str() {
            "POST" | "QUERY" => format!(
                "write `cache: {{ methods: [{method}] }}` if it asks and changes nothing; leave out `cache` otherwise"
            ),
            _ => "leave out `cache`".to_owned(),
        };
        Some((message, remedy))
    }

    /// The parts of requests that the answers depend on in a way that other caches must know, after those of the layers.
    fn depend(&self, at: &mut LayerPosition<'_>) -> Dependence {
        let dependence = &mut at.dependence;
        dependence.add(&self.front.dependence(&self.rules.vary));
        // A key that the gateway checks is one that other caches do not know.
        dependence.settle();
        if let Some((fresh, place)) = self.public {
            let mut reachable = dependence.clone();
            at.plan.iter().for_each(|plan| reachable.add(plan.reachable()));
            match reachable.why_personal() {
                None => dependence.publish(fresh),
                Some(why) => {
                    let remedy = "leave out `public`; name a header field that answers depend on in `vary`, and leave those \
                                  out of `forward` that no answer depends on";
                    let message = format!("`public` for an answer that {why}");
                    at.refused.push((place, message, remedy.to_owned()));
                }
            }
        }
        dependence.clone()
    }

    /// Why the answers of this endpoint cannot be stored, and what to write instead.
    fn refuse(&self, at: &LayerPosition<'_>) -> Option<(String, String)> {
        let plan = at.plan?;
        if let Some(refused) = at.route.and_then(|route| self.refuse_method(route)) {
            return Some(refused);
        }
        if plan.is_endless() {
            let message = "a stream has no end and cannot be cached".to_owned();
            return Some((message, "leave out `cache` here; an upstream that it calls may have one".to_owned()));
        }
        let apart = self.front.key.is_some() || self.front.by.is_some();
        let crosses = |name: &&str| plan.uses(name) && !apart;
        if let Some(name) = ["client", "id"].into_iter().find(crosses) {
            let message =
                format!("the pipeline uses `${name}`, so its answer is for one client, and others would get it");
            return Some((message, format!("write `cache: {{ key: ${name}… }}` with what the answer depends on")));
        }
        if plan.uses("headers") && !apart && self.rules.vary.is_empty() {
            let message =
                "the pipeline uses `$headers`, so its answer depends on header fields, and others would get it";
            let remedy = "name the fields: `cache: { vary: [accept-language] }`, or write a `key`";
            return Some((message.to_owned(), remedy.to_owned()));
        }
        None
    }
}

/// The answers of an endpoint: stored ones, and those of its pipeline.
pub struct EndpointCache {
    cache: Arc<Cache>,
    plan: Arc<Plan>,
    place: Box<[u8]>,
    /// The parts of the request that answers depend on, besides its URL.
    reads: Box<[Read]>,
    caches: Arc<CompiledCache>,
}

impl EndpointCache {
    /// Answers a request that all layers let pass. `Verdict::Pass`: the pipeline answers it, and the cache stores nothing.
    pub fn answer<'a>(&'a self, scope: &'a Arc<Scope>) -> Verdict<'a> {
        if scope.passage().upgrade.is_some() {
            return Verdict::Pass;
        }
        match self.caches.rules.methods.serve(scope.call_method(), scope.headers()) {
            // Others make invalid what is kept.
            service if (service == CacheService::WithBody || scope.call_method().is_safe()) && hides_fields(scope) => {
                Verdict::Pass
            }
            CacheService::Usual if !(scope.call_method().is_safe() && has_body(scope)) => self.serve(scope, None),
            CacheService::WithBody => Verdict::Wait(Box::pin(self.with_body(scope))),
            _ => Verdict::Pass,
        }
    }

    /// A description for `explain`.
    pub fn outline(&self) -> String {
        let mut text = self.caches.outline.clone();
        if !self.reads.is_empty() {
            let names: Vec<String> = self.reads.iter().map(Read::to_string).collect();
            text.push_str(&format!("; apart by {}, which the pipeline uses", names.join(", ")));
        }
        if !self.plan.is_proxy() {
            text.push_str("; a composed answer is as fresh as its least fresh part, and private if a part is");
        }
        text
    }

    /// Serves a request whose body is part of the key: reads the body first.
    async fn with_body(&self, scope: &Arc<Scope>) -> Option<Response<AnswerBody>> {
        let body = match scope.take_body() {
            None => Bytes::new(),
            Some(body) => match body.collect(self.plan.max_body()).await {
                Ok(body) => body,
                Err(error) if error.kind() == Kind::Oversized => {
                    return Some(response::fail(&Error::new(Kind::BodyTooLarge, error.detail().to_owned())));
                }
                Err(error) => return Some(response::fail(&error)),
            },
        };
        match self.serve(scope, Some(body)) {
            Verdict::Pass => None,
            Verdict::Answer(response) => Some(response),
            Verdict::Wait(verdict) => verdict.await,
        }
    }

    /// Serves a request from the cache. If the body is part of the key, the request is treated like a GET.
    fn serve<'a>(&'a self, scope: &'a Arc<Scope>, body: Option<Bytes>) -> Verdict<'a> {
        let (key, audience) = match self.key(scope, body.as_deref()) {
            Ok(key) => key,
            Err(error) => return Verdict::Answer(response::fail(&error)),
        };
        let shelf = scope.extensions().get::<Arc<Shelf>>().map(|shelf| (shelf, key.clone()));
        let put = move |entry: Option<Arc<Entry>>| {
            if let (Some((shelf, key)), Some(entry)) = (shelf, entry) {
                shelf.put(self.cache.kept(key, entry));
            }
        };
        let method = if body.is_some() { &Method::GET } else { scope.call_method() };
        let question = Question { method, key, headers: scope.headers(), audience };
        match self.cache.look(question) {
            (Reply::Answer(answer, entry), behind) => {
                put(entry);
                if let Some(fetch_plan) = behind {
                    let fetch = Box::new(self.pipeline(scope, body));
                    self.cache.refresh(fetch_plan, scope.headers().clone(), fetch);
                }
                Verdict::Answer(response::respond(Some(Ok(answer)), scope))
            }
            (Reply::Fetch(fetch_plan), _) => {
                let (fetch, headers) = (Box::new(self.pipeline(scope, body)), scope.headers().clone());
                Verdict::Wait(Box::pin(async move {
                    let fetched = self.cache.fetch(fetch_plan, headers, scope.deadline(), fetch).await;
                    let answer = fetched.map(|(answer, entry)| {
                        put(entry);
                        answer
                    });
                    Some(response::respond(Some(answer), scope))
                }))
            }
        }
    }
}

/// The parts of a request that a key must have because a pipeline reads them. What the URL and the place of the cache say is in every key.
fn depended(reads: &[Read], vary: &[HeaderName]) -> Box<[Read]> {
    // These mean the same in several spellings, which `vary` knows.
    let negotiated =
        |name: &HeaderName| [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE].contains(name) && vary.contains(name);
    let varied = |read: &Read| {
        let name = read.field.as_ref().and_then(|field| HeaderName::from_bytes(field.as_bytes()).ok());
        read.variable == "headers" && name.as_ref().is_some_and(negotiated)
    };
    let whole = |read: &Read| Read { variable: read.variable.clone(), field: None };
    let known = |name: &str| ["path", "query", "body", "route"].contains(&name);
    let reads: Vec<&Read> = reads.iter().filter(|read| !known(&read.variable) && !varied(read)).collect();
    let all = |read: &&Read| read.field.is_none() || !reads.contains(&&whole(read));
    reads.iter().copied().filter(all).cloned().collect()
}

/// Adds the value of a part of a request.
fn add_read(read: &Read, scope: &Scope, identity: &mut Identity) {
    let name = read.to_string();
    match (read.variable.as_str(), &read.field) {
        // Here the fields need not become a value.
        ("headers", Some(field)) => {
            let values = scope.headers().get_all(field.as_str()).iter().map(HeaderValue::as_bytes);
            identity.add(Distinction::Variable, iter::once(name.as_bytes()).chain(values));
        }
        (variable, field) => {
            let value = scope.variable(variable, &None);
            let value = match field {
                Some(field) => as_object(&value).and_then(|fields| fields.get(&jq::string(field)).cloned()),
                None => Some(value),
            };
            let text = value.as_ref().map(ToString::to_string);
            identity.add(Distinction::Variable, iter::once(name).chain(text));
        }
    }
}

/// Whether `connection` names a field that a call would have otherwise: then the answer is to another request than the one that
/// the key and `vary` see.
fn hides_fields(scope: &Scope) -> bool {
    let options =
        scope.headers().get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let usual = |option: &[u8]| {
        option.is_empty()
            || option.eq_ignore_ascii_case(b"close")
            || HeaderName::from_bytes(option).is_ok_and(|name| hop_by_hop(&name))
    };
    !options.map(<[u8]>::trim_ascii).all(usual)
}

/// Whether the request has a body.
fn has_body(scope: &Scope) -> bool {
    let Some(body) = scope.take_body() else { return false };
    let empty = body.is_empty();
    scope.put_body(body);
    !empty
}

impl EndpointCache {
    /// The key under which the answer to a request is stored, and for whom that is.
    fn key(&self, scope: &Scope, body: Option<&[u8]>) -> Result<(Key, Audience), Error> {
        let mut identity = Identity::of(&self.place);
        if let Some(body) = body {
            identity.add(Distinction::Body, [methods::digest(scope.call_method(), scope.headers(), body)]);
        }
        self.reads.iter().for_each(|read| add_read(read, scope, &mut identity));
        for (name, value) in scope.facts().granted() {
            let value = value.as_ref().map(HeaderValue::as_bytes);
            identity.add(Distinction::Field, iter::once(name.as_str().as_bytes()).chain(value));
        }
        let audience = self.caches.front.identify(&mut identity, &mut |name| scope.variable(name, &None))?;
        let client = scope.facts().client();
        let told = client.and_then(|client| client.host.as_ref()).map(HeaderValue::as_bytes);
        let sent = scope.host().unwrap_or_default();
        if told.is_some_and(|told| told != sent) {
            // Calls may name either.
            identity.add(Distinction::Host, [sent]);
        }
        let (scheme, path) = (client.map_or("http", |client| client.scheme()), scope.path().unwrap_or("/"));
        let url = KeyUrl { scheme, host: told.unwrap_or(sent), base: "", path, query: scope.query() };
        Ok((self.caches.front.key(&url, identity), audience))
    }

    fn pipeline(&self, scope: &Arc<Scope>, body: Option<Bytes>) -> Pipeline {
        let (plan, tags) = (self.plan.clone(), self.caches.tags.clone());
        Pipeline { plan, scope: scope.clone(), tags, body }
    }
}

/// Runs the pipeline for the cache.
struct Pipeline {
    plan: Arc<Plan>,
    scope: Arc<Scope>,
    tags: Option<Arc<Filter>>,
    /// The client's body, if it is part of the key.
    body: Option<Bytes>,
}

impl Fetch for Pipeline {
    fn fetch(&self, mut headers: HeaderMap, initiator: Initiator) -> BoxFuture<'static, Result<FetchedAnswer, Error>> {
        if self.body.is_some() {
            // Only GET and HEAD are revalidated.
            methods::CONDITIONS.iter().for_each(|name| drop(headers.remove(name)));
        }
        let (mut scope, parts) = (self.scope.fork(headers), AnswerParts::kept(self.plan.joins()));
        if initiator == Initiator::Client {
            scope.set_passage(self.scope.passage().clone());
            self.scope.take_body().into_iter().for_each(|body| scope.put_body(body));
        }
        self.body.iter().for_each(|body| scope.put_body(AnswerBody::Bytes(body.clone())));
        scope.note_parts(&parts);
        let plan = self.plan.clone();
        Box::pin(async move {
            let outcome = plan.answer(&Arc::new(scope)).await;
            let answer = match outcome {
                None => Answer::new(StatusCode::NO_CONTENT, HeaderMap::new(), AnswerBody::empty()),
                Some(answer) => written(answer?)?,
            };
            let personal = parts.personal();
            Ok(FetchedAnswer { answer, personal, parts: (!plan.is_proxy()).then_some(parts) })
        })
    }

    fn tags(&self, headers: &HeaderMap, body: &SharedBody) -> BoxFuture<'static, Option<Tags>> {
        match &self.tags {
            None => Box::pin(std::future::ready(Some(Tags::default()))),
            Some(filter) => {
                let scope = self.scope.clone();
                let known = move |name: &str| scope.variable(name, &None);
                Box::pin(tags::evaluate(filter.clone(), headers.clone(), body.clone(), known))
            }
        }
    }
}

/// Turns a value into the JSON that will be sent.
fn written(answer: Answer) -> Result<Answer, Error> {
    let bytes = match answer.body {
        AnswerBody::Value(ref value) => json::to_bytes(value)?,
        AnswerBody::Json(ref raw) => raw.bytes().clone(),
        _ => return Ok(answer),
    };
    let mut answer = Answer { body: AnswerBody::Bytes(bytes), ..answer };
    answer.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}
