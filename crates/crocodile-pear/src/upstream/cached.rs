//! The cache in front of an upstream: what a call's answer is kept under, and for whom.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Method;
use http::header::{AUTHORIZATION, COOKIE, FORWARDED, HeaderMap, HeaderName, HeaderValue, VIA};
use tokio::time::Instant;

use super::forward::{Fields, filter};
use super::{Begun, Call, Root, Upstream, UpstreamSpec, chain};
use crate::cache::date::Moment;
use crate::cache::policy::{Fetched, Personal};
use crate::cache::{
    Cache, Entry, Errand, Fetch, Gained, Key, Parts, QueryOrder, Question, Reply, Service, SharedBody, Shelf, Standing,
    Standpoint, Tags, methods, reuse, status, tags,
};
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body};
use crate::jq::{self, Filter};
use crate::problem::Problems;
use crate::record::{CacheResult, CallKind, CallNote, Place};
use crate::scope::Scope;
use crate::spec::Located;
use crate::trace::span_id;

/// The cache of an upstream.
pub struct Cached {
    cache: Arc<Cache>,
    place: Box<[u8]>,
    key: Option<Filter>,
    by: Option<Filter>,
    tags: Option<Arc<Filter>>,
    query: QueryOrder,
    outline: String,
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cached").field(&self.outline).finish()
    }
}

/// For whom a call is made, as far as that makes a difference.
#[derive(Clone, Default)]
pub struct Keeping {
    /// What the call sends that is not the client's own.
    identity: Vec<u8>,
    /// Whether the identity says who the client is.
    private: bool,
    personal: Personal,
    /// The answer that it is a part of.
    parts: Option<Arc<Parts>>,
    /// Where what is given is left, if it is all that the client gets.
    shelf: Option<Arc<Shelf>>,
}

/// What tells of one hop. Answers do not depend on it, or say so.
const OF_A_HOP: [HeaderName; 6] = [
    VIA,
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-request-id"),
];

impl Cached {
    /// Makes ready what an upstream says of it; every problem is noted.
    pub(super) fn compile(
        spec: &UpstreamSpec,
        name: &str,
        given: &super::Given<'_>,
        problems: &mut Problems,
    ) -> Option<Option<Arc<Self>>> {
        let (Some(written), Some(store)) = (spec.cache.on(), &given.cache) else { return Some(None) };
        let expression = |expression: Option<&Located<String>>, problems: &mut Problems| match expression {
            None => Some(None),
            Some(written) => filter(written, problems).map(Some),
        };
        let rules = written.rules(problems);
        let key = expression(written.key.as_ref().map(|key| &key.0), problems);
        let by = expression(written.private.as_ref().map(|private| &private.by.0), problems);
        let tags = written.tags.as_ref().map_or(Some(None), |tags| tag_filter(&tags.0, problems).map(Some));
        let (rules, key, by, tags) = (rules?, key?, by?, tags?);
        let here = Standpoint::Upstream(name.to_owned());
        Some(Some(Arc::new(Cached {
            cache: Cache::new("crocodile-pear-upstream", &here, store.clone(), rules),
            place: format!("upstream {name}").into_bytes().into(),
            key,
            by,
            tags: tags.map(Arc::new),
            query: written.query,
            outline: written.outline(),
        })))
    }

    /// What `explain` says of it.
    pub(super) fn outline(&self) -> &str {
        &self.outline
    }
}

/// An expression that gives the tags of an answer: it knows the answer's body, and nothing of who asked for it.
fn tag_filter(written: &Located<String>, problems: &mut Problems) -> Option<Filter> {
    match Filter::compile(&written.value, &[]) {
        Ok(filter) => Some(filter),
        Err(faults) => {
            for fault in faults {
                problems.error::<()>(written.at(fault.offset, fault.length), fault.message, fault.remedy);
            }
            None
        }
    }
}

impl Upstream {
    /// For whom a call with these header fields is made; nothing, where nothing is kept of its answer.
    ///
    /// # Errors
    /// `BadRequest` where the expression of a key fails.
    pub fn keeping(&self, scope: &Scope, headers: &HeaderMap) -> Result<Option<Box<Keeping>>, Error> {
        let parts = scope.extensions().get::<Arc<Parts>>().cloned();
        if self.cached.is_none() && parts.is_none() {
            return Ok(None);
        }
        let shelf = scope.extensions().get::<Arc<Shelf>>().filter(|shelf| shelf.takes_calls()).cloned();
        let mut keeping = Keeping { parts, shelf, ..Keeping::default() };
        for name in headers.keys().filter(|name| !OF_A_HOP.contains(name)) {
            keeping.note(scope, name, headers);
        }
        if let Some(value) = headers.get(FORWARDED) {
            keeping.add(place_of(value).as_bytes());
        }
        if let Some(parts) = &keeping.parts {
            parts.depend(self.named());
        }
        let Some(cached) = &self.cached else { return Ok(Some(Box::new(keeping))) };
        for filter in cached.key.iter().chain(&cached.by) {
            let values = filter.run(jq::null(), &mut |name| scope.variable(name, &None))?;
            for value in &values {
                keeping.add(value.to_string().as_bytes());
            }
            if cached.by.as_ref().is_some_and(|by| std::ptr::eq(by, filter)) {
                keeping.private = values.iter().any(|value| *value != jq::null()) && !values.is_empty();
            }
        }
        Ok(Some(Box::new(keeping)))
    }

    /// The client's header fields that it names: it asks for them because answers depend on them.
    fn named(&self) -> &[HeaderName] {
        match &self.forward.fields {
            Fields::Named(names) => names,
            Fields::All => &[],
        }
    }

    /// The variables that the header fields of its calls use.
    pub fn uses(&self) -> impl Iterator<Item = &String> {
        self.forward.uses()
    }
}

impl Keeping {
    fn add(&mut self, part: &[u8]) {
        self.identity.extend_from_slice(&(part.len() as u64).to_le_bytes());
        self.identity.extend_from_slice(part);
    }

    /// Notes a field of the call. The client's own are for `vary`, but for its credentials; the others are of the key.
    fn note(&mut self, scope: &Scope, name: &HeaderName, headers: &HeaderMap) {
        let same = headers.get_all(name).iter().eq(scope.headers().get_all(name).iter());
        match *name {
            AUTHORIZATION if same => self.personal.authorization = true,
            COOKIE if scope.headers().contains_key(COOKIE) => self.personal.cookie = true,
            _ if same => {}
            _ => {
                self.add(name.as_str().as_bytes());
                headers.get_all(name).iter().for_each(|value| self.add(value.as_bytes()));
            }
        }
    }
}

/// What `forwarded` says of the place that was asked for, without who asked.
fn place_of(forwarded: &HeaderValue) -> String {
    let text = forwarded.to_str().unwrap_or_default();
    let last = text.rsplit(',').next().unwrap_or_default();
    let place = |part: &&str| part.trim_start().starts_with("host=") || part.trim_start().starts_with("proto=");
    last.split(';').filter(place).collect::<Vec<_>>().join(";")
}

/// A call whose answer may be kept, or is a part of one that may.
pub(super) fn begin(upstream: Arc<Upstream>, mut call: Call) -> Begun {
    let keeping = call.keeping.take().unwrap_or_default();
    // A connection that changes its protocol, and a body, are for one client.
    let cached = upstream.cached.clone().filter(|_| call.passage.upgrade.is_none());
    let service = cached.as_ref().map_or(Service::None, |cached| cached.serve(&call));
    match (cached, service) {
        (Some(cached), Service::Usual) => serve(cached, upstream, call, keeping, None),
        (Some(cached), Service::WithBody) => Begun::Boxed(Box::pin(with_body(cached, upstream, call, keeping))),
        _ => Begun::Boxed(Box::pin(uncached(upstream, call, keeping))),
    }
}

/// A body larger than this is refused where it would be a part of a key.
const MOST_BODY: usize = 1 << 20;

/// A call whose body is a part of the key: it is read first.
async fn with_body(
    cached: Arc<Cached>,
    upstream: Arc<Upstream>,
    mut call: Call,
    mut keeping: Box<Keeping>,
) -> Result<Answer, Error> {
    let body = match call.body.take() {
        None => Bytes::new(),
        Some(body) => body.collect(MOST_BODY).await.map_err(|error| match error.kind() {
            Kind::Oversized => Error::new(Kind::BodyTooLarge, error.detail().to_owned()),
            _ => error,
        })?,
    };
    keeping.add(&methods::digest(&call.method, &call.headers, &body));
    call.body = (!body.is_empty()).then(|| Body::Bytes(body.clone()));
    finish(serve(cached, upstream, call, keeping, Some(body))).await
}

/// A call that the cache serves: as GET, where there is a body that is a part of the key.
fn serve(
    cached: Arc<Cached>,
    upstream: Arc<Upstream>,
    mut call: Call,
    keeping: Box<Keeping>,
    body: Option<Bytes>,
) -> Begun {
    let key = cached.key_of(&upstream, &call, &keeping);
    let shelved = keeping.shelf.is_some().then(|| key.clone());
    let method = if body.is_some() { Method::GET } else { call.method.clone() };
    let question = Question { method: &method, key, headers: &call.headers, private: keeping.private };
    match cached.cache.look(question) {
        (Reply::Answer(answer, entry), behind) => {
            if let Some(note) = call.note.take() {
                upstream.note_answer(note, &call.method, call.target.clone(), &answer, Instant::now());
            }
            if let Some(errand) = behind {
                let headers = call.headers.clone();
                let fetch = Fetcher::new(&cached, &upstream, call, keeping.personal);
                cached.cache.refresh(errand, headers, Box::new(fetch));
            }
            keeping.note_kept(&answer, entry.as_deref());
            keeping.leave(&cached.cache, shelved, entry);
            Begun::Kept(Box::new(upstream.adopt(answer)))
        }
        (Reply::Fetch(errand), _) => Begun::Boxed(Box::pin(fetch(cached, upstream, call, keeping, shelved, errand))),
    }
}

async fn fetch(
    cached: Arc<Cached>,
    upstream: Arc<Upstream>,
    mut call: Call,
    keeping: Box<Keeping>,
    shelved: Option<Key>,
    errand: Box<Errand>,
) -> Result<Answer, Error> {
    let (headers, deadline) = (call.headers.clone(), call.deadline);
    // Where others fetch it, nobody notes this call.
    let unmade =
        call.note.as_ref().map(|note| (note.clone(), call.method.clone(), call.target.clone(), Instant::now()));
    if let Some(note) = &mut call.note {
        note.cache = Some(CacheResult::Miss);
    }
    let fetch = Fetcher::new(&cached, &upstream, call, keeping.personal);
    match cached.cache.fetch(errand, headers, deadline, Box::new(fetch)).await {
        Ok((answer, entry)) => {
            if let Some((note, method, target, began)) = unmade {
                upstream.note_answer(note, &method, target, &answer, began);
            }
            keeping.note_kept(&answer, entry.as_deref());
            keeping.leave(&cached.cache, shelved, entry);
            Ok(upstream.adopt(answer))
        }
        Err(error) => {
            keeping.parts.iter().for_each(|parts| parts.lack());
            Err(error.of_upstream(&upstream.name))
        }
    }
}

/// A call that is a part of an answer that may be kept, and is not kept itself.
async fn uncached(upstream: Arc<Upstream>, call: Call, keeping: Box<Keeping>) -> Result<Answer, Error> {
    let answer = make(&upstream, call).await;
    match &answer {
        Ok(answer) => keeping.note_kept(answer, None),
        Err(_) => keeping.parts.iter().for_each(|parts| parts.lack()),
    }
    answer
}

async fn make(upstream: &Arc<Upstream>, call: Call) -> Result<Answer, Error> {
    finish(upstream.begin(call)).await
}

async fn finish(begun: Begun) -> Result<Answer, Error> {
    match begun {
        Begun::Plain(ready) => chain(ready?).await,
        Begun::Boxed(call) => call.await,
        Begun::Kept(answer) => Ok(*answer),
    }
}

impl Keeping {
    /// Leaves what is given, where somebody wants to know.
    fn leave(&self, cache: &Cache, key: Option<Key>, entry: Option<Arc<Entry>>) {
        if let (Some(shelf), Some(key), Some(entry)) = (&self.shelf, key, entry) {
            shelf.leave(cache.kept(key, entry));
        }
    }

    /// Notes the answer as a part of another one.
    fn note_kept(&self, answer: &Answer, entry: Option<&Entry>) {
        let Some(parts) = &self.parts else { return };
        let now = Moment::now();
        let fetched = Fetched { asked: now, came: now };
        parts.note(answer.status, &answer.headers, self.personal, entry, fetched);
    }
}

impl Cached {
    /// How a call is served. The body of a method that has none is for one client.
    fn serve(&self, call: &Call) -> Service {
        match self.cache.rules().methods.serve(&call.method, &call.headers) {
            Service::Usual if call.body.is_some() && call.method.is_safe() => Service::None,
            service => service,
        }
    }

    fn key_of(&self, upstream: &Upstream, call: &Call, keeping: &Keeping) -> Key {
        let first = &upstream.servers[0];
        let host = call.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or(&first.authority);
        let base = if call.root == Root::Upstream { &*first.base } else { "" };
        let target = match (self.query, call.target.split_once('?')) {
            (QueryOrder::Sorted, Some((path, query))) => {
                Cow::Owned(format!("{path}?{}", crate::cache::spec::sorted(query)))
            }
            _ => Cow::Borrowed(call.target.as_str()),
        };
        let url = [first.origin.scheme(), "://", &host.to_ascii_lowercase(), base, &target].concat();
        Key::new(&url, &[&*self.place, &keeping.identity].join(&0))
    }
}

impl Upstream {
    /// Notes a call that was answered without a call to a server; one with a call has been noted by that.
    fn note_answer(&self, note: CallNote, method: &Method, target: String, answer: &Answer, began: Instant) {
        let Some(result) = status::told(&answer.headers).filter(|result| result.is_spared()) else { return };
        let place = Place { kind: CallKind::Http, upstream: &self.name, server: None, tls: false };
        let span = note.record.trace().map_or(0, |_| span_id());
        let bytes = if let Body::Bytes(bytes) = &answer.body { bytes.len() as u64 } else { 0 };
        note.begin(place, method, target, began, span).revise(|call, record| {
            let now = Some(record.at(Instant::now()));
            (call.head, call.ended, call.status, call.bytes) = (now, now, Some(answer.status), bytes);
            call.cache = Some(result);
        });
    }

    /// An answer that was kept is one of this upstream.
    fn adopt(&self, answer: Answer) -> Answer {
        Answer { upstream: Some(self.name.clone()), lists: self.lists.clone(), ..answer }
    }
}

/// Makes a call for the cache.
struct Fetcher {
    upstream: Arc<Upstream>,
    /// The first call takes along what there is once: the body, and what the client takes beside the answer.
    calls: Mutex<(Option<Call>, Call)>,
    personal: Personal,
    tags: Option<Arc<Filter>>,
    validates: bool,
}

impl Fetcher {
    fn new(cached: &Cached, upstream: &Arc<Upstream>, call: Call, personal: Personal) -> Self {
        let again = Call {
            method: call.method.clone(),
            timeouts: call.timeouts.clone(),
            root: call.root,
            host: call.host.clone(),
            received: call.received,
            // One that is a part of the key is at hand.
            body: match &call.body {
                Some(Body::Bytes(body)) => Some(Body::Bytes(body.clone())),
                _ => None,
            },
            ..Call::get(call.target.clone())
        };
        let validates = call.method != Method::POST && call.method.as_str() != "QUERY";
        let (upstream, calls, tags) = (upstream.clone(), Mutex::new((Some(call), again)), cached.tags.clone());
        Fetcher { upstream, calls, personal, tags, validates }
    }
}

impl Fetcher {
    /// Only GET and HEAD are validated.
    fn with_conditions(&self, mut headers: HeaderMap) -> HeaderMap {
        if !self.validates {
            reuse::CONDITIONS.iter().for_each(|name| drop(headers.remove(name)));
        }
        headers
    }
}

impl Fetch for Fetcher {
    fn fetch(&self, headers: HeaderMap, standing: Standing) -> BoxFuture<'static, Result<Gained, Error>> {
        let headers = self.with_conditions(headers);
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = match (calls.0.take(), standing) {
            // Others may wait for it who have more time.
            (Some(call), Standing::Client) => Call { headers, deadline: None, ..call },
            _ => {
                let again = calls.1.repeat().unwrap_or_else(|| Call::get(String::new()));
                Call { headers, ..again }
            }
        };
        drop(calls);
        let (upstream, personal) = (self.upstream.clone(), self.personal);
        Box::pin(async move {
            let answer = make(&upstream, call).await?;
            Ok(Gained { answer, personal, parts: None })
        })
    }

    fn tags(&self, headers: &HeaderMap, body: &SharedBody) -> BoxFuture<'static, Option<Tags>> {
        match &self.tags {
            None => Box::pin(std::future::ready(Some(Tags::default()))),
            Some(filter) => Box::pin(tags::evaluate(filter.clone(), headers.clone(), body.clone(), |_| jq::null())),
        }
    }
}
