//! The cache in front of an upstream: the key of each call, and for which client its answer is kept.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Method;
use http::header::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::authenticated_caller::{AuthenticatedCall, Caller};
use super::call::cache_scope::CacheScope;
use super::call::forward::filter;
use super::call::{TargetRoot, UpstreamCall};
use super::environment::UpstreamEnvironment;
use super::servers::SharedState;
use super::servers::server::PublicOrigin;
use crate::cache::rules::policy::CredentialUse;
use crate::cache::rules::{cache_status, methods};
use crate::cache::store::tags;
use crate::cache::{
    AnswerParts, Cache, CacheOwner, CacheService, CacheSpec, Dependence, Distinction, Entry, Fetch, FetchPlan,
    FetchedAnswer, Front, Identity, Initiator, KeptPart, Key, KeyUrl, Question, Reply, SharedBody, Shelf, Tags,
};
use crate::config::problem::Problems;
use crate::config::spec::Located;
use crate::error::{Error, Kind};
use crate::jq::{self, Filter};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::request::context::Scope;
use crate::telemetry::request_record::{CacheResult, CallKind, CallNote, CallPlace};
use crate::telemetry::trace::span_id;

pub struct UpstreamCache {
    cache: Arc<Cache>,
    place: Box<[u8]>,
    front: Front,
    tags: Option<Arc<Filter>>,
    outline: String,
}

impl std::fmt::Debug for UpstreamCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UpstreamCache").field(&self.outline).finish()
    }
}

impl UpstreamCache {
    /// Compiles the upstream's settings. Every problem is noted.
    pub(super) fn compile(
        spec: &CacheSpec,
        name: &str,
        given: &UpstreamEnvironment<'_>,
        problems: &mut Problems,
    ) -> Option<Option<Arc<Self>>> {
        let (Some(written), Some(store)) = (spec.on(), &given.cache) else { return Some(None) };
        if let Some(public) = &written.public {
            let remedy = "write it at the endpoint: an upstream says itself what is public";
            return problems.error(public.span, "`public` at the cache of an upstream", remedy);
        }
        let expression = |expression: Option<&Located<String>>, problems: &mut Problems| match expression {
            None => Some(None),
            Some(written) => filter(written, problems).map(Some),
        };
        let rules = written.rules(problems);
        let key = expression(written.key.as_ref().map(|key| &key.0), problems);
        let by = expression(written.private.as_ref().map(|private| &private.by.0), problems);
        let tags = written.tags.as_ref().map_or(Some(None), |tags| tag_filter(&tags.0, problems).map(Some));
        let (rules, key, by, tags) = (rules?, key?, by?, tags?);
        let here = CacheOwner::Upstream(name.to_owned());
        Some(Some(Arc::new(UpstreamCache {
            cache: Cache::new("crocodile-pear-upstream", &here, store.clone(), rules),
            place: format!("upstream {name}").into_bytes().into(),
            front: Front { key, by, query: written.query },
            tags: tags.map(Arc::new),
            outline: written.outline(),
        })))
    }

    /// The client for which a call is made, before its header fields are known. `parts` are those of the answer that it is for.
    pub(super) fn scope(&self, parts: Option<Arc<AnswerParts>>, scope: &Scope) -> Box<CacheScope> {
        let shelf = scope.extensions().get::<Arc<Shelf>>().filter(|shelf| shelf.takes_calls()).cloned();
        let identity = Identity::of(&self.place);
        Box::new(CacheScope { identity, parts, shelf, ..CacheScope::default() })
    }

    /// Adds what the settings say of the client.
    ///
    /// # Errors
    /// `BadRequest` if the expression of a key fails.
    pub(super) fn identify(&self, keeping: &mut CacheScope, scope: &Scope) -> Result<(), Error> {
        let variable = &mut |name: &str| scope.variable(name, &None);
        keeping.audience = self.front.identify(&mut keeping.identity, variable)?;
        Ok(())
    }

    /// The parts of a request on which its answers depend.
    pub(super) fn dependence(&self) -> Dependence {
        self.front.dependence(&self.cache.rules().vary)
    }

    /// The line of `explain`.
    pub(super) fn outline(&self) -> &str {
        &self.outline
    }
}

/// An expression that gives the tags of an answer. It sees the answer's body, and nothing of the request.
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

/// A call whose answer may be kept.
pub(super) fn start(
    cached: Option<Arc<UpstreamCache>>,
    caller: Caller,
    call: Box<UpstreamCall>,
    keeping: Box<CacheScope>,
) -> AuthenticatedCall {
    // A connection that changes its protocol, and a body, are for one client.
    let cached = cached.filter(|_| call.passage.upgrade.is_none());
    let service = cached.as_ref().map_or(CacheService::None, |cached| cached.serve(&call));
    match (cached, service) {
        (Some(cached), CacheService::Usual) => serve(cached, caller, call, keeping, None),
        (Some(cached), CacheService::WithBody) => {
            AuthenticatedCall::Boxed(Box::pin(with_body(cached, caller, call, keeping)))
        }
        _ => AuthenticatedCall::Boxed(Box::pin(uncached(caller, call, keeping))),
    }
}

/// The largest body that may be a part of a key.
const MOST_BODY: usize = 1 << 20;

/// A call whose body is a part of the key: the body is read first.
async fn with_body(
    cached: Arc<UpstreamCache>,
    caller: Caller,
    mut call: Box<UpstreamCall>,
    mut keeping: Box<CacheScope>,
) -> Result<Answer, Error> {
    let body = match call.body.take() {
        None => Bytes::new(),
        Some(body) => body.collect(MOST_BODY).await.map_err(|error| match error.kind() {
            Kind::Oversized => Error::new(Kind::BodyTooLarge, error.detail().to_owned()),
            _ => error,
        })?,
    };
    keeping.identity.add(Distinction::Body, [methods::digest(&call.method, &call.headers, &body)]);
    call.body = (!body.is_empty()).then(|| AnswerBody::Bytes(body.clone()));
    serve(cached, caller, call, keeping, Some(body)).finish().await
}

/// A call that the cache serves: like GET if it has a body that is a part of the key.
fn serve(
    cached: Arc<UpstreamCache>,
    caller: Caller,
    mut call: Box<UpstreamCall>,
    keeping: Box<CacheScope>,
    body: Option<Bytes>,
) -> AuthenticatedCall {
    let key = cached.key_of(caller.face(), &call, &keeping);
    let shelved = keeping.shelf.is_some().then(|| key.clone());
    let method = if body.is_some() { Method::GET } else { call.method.clone() };
    let question = Question { method: &method, key, headers: &call.headers, audience: keeping.audience };
    match cached.cache.look(question) {
        (Reply::Answer(answer, entry), behind) => {
            if let Some(note) = call.note.take() {
                note_answer(&caller.shared, note, &call.method, call.target.clone(), &answer, Instant::now());
            }
            if let Some(plan) = behind {
                let headers = std::mem::take(&mut call.headers);
                let fetch = Fetcher::new(&cached, &caller, call, keeping.personal);
                cached.cache.refresh(plan, headers, Box::new(fetch));
            }
            keeping.record_part(&answer, cached.part(entry.as_deref()));
            keeping.put(&cached.cache, shelved, entry);
            AuthenticatedCall::Kept(Box::new(adopt(&caller.shared, answer)))
        }
        (Reply::Fetch(plan), _) => {
            AuthenticatedCall::Boxed(Box::pin(fetch(cached, caller, call, keeping, shelved, plan)))
        }
    }
}

async fn fetch(
    cached: Arc<UpstreamCache>,
    caller: Caller,
    mut call: Box<UpstreamCall>,
    keeping: Box<CacheScope>,
    shelved: Option<Key>,
    plan: Box<FetchPlan>,
) -> Result<Answer, Error> {
    let (headers, deadline) = (std::mem::take(&mut call.headers), call.deadline);
    // If another request fetches the answer, no exchange notes this call.
    let unmade =
        call.note.as_ref().map(|note| (note.clone(), call.method.clone(), call.target.clone(), Instant::now()));
    if let Some(note) = &mut call.note {
        note.cache = Some(CacheResult::Miss);
    }
    let fetch = Fetcher::new(&cached, &caller, call, keeping.personal);
    match cached.cache.fetch(plan, headers, deadline, Box::new(fetch)).await {
        Ok((answer, entry)) => {
            if let Some((note, method, target, began)) = unmade {
                note_answer(&caller.shared, note, &method, target, &answer, began);
            }
            keeping.record_part(&answer, cached.part(entry.as_deref()));
            keeping.put(&cached.cache, shelved, entry);
            Ok(adopt(&caller.shared, answer))
        }
        Err(error) => {
            keeping.parts.iter().for_each(|parts| parts.lack());
            Err(error.of_upstream(&caller.shared.name))
        }
    }
}

/// A call whose answer is not kept, but is a part of an answer that may be.
async fn uncached(caller: Caller, call: Box<UpstreamCall>, keeping: Box<CacheScope>) -> Result<Answer, Error> {
    let answer = caller.start(call).finish().await;
    keeping.note_outcome(&answer);
    answer
}

impl UpstreamCache {
    /// How a call is served. The body of a method that has none is for one client.
    fn serve(&self, call: &UpstreamCall) -> CacheService {
        match self.cache.rules().methods.serve(&call.method, &call.headers) {
            CacheService::Usual if call.body.is_some() && call.method.is_safe() => CacheService::None,
            service => service,
        }
    }

    fn key_of(&self, first: &PublicOrigin, call: &UpstreamCall, keeping: &CacheScope) -> Key {
        let host = call.host.as_ref().map_or(first.authority.as_bytes(), HeaderValue::as_bytes);
        let base = if call.root == TargetRoot::Upstream { &*first.base } else { "" };
        let (path, query) = match call.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (call.target.as_str(), None),
        };
        let url = KeyUrl { scheme: first.origin.scheme(), host, base, path, query };
        self.front.key(&url, keeping.identity.clone())
    }

    /// The stored entry of an answer that is a part of another one.
    fn part<'a>(&self, entry: Option<&'a Entry>) -> Option<KeptPart<'a>> {
        let timed = |status| self.cache.rules().lifetimes.configured(status).is_some();
        entry.map(|entry| KeptPart { terms: &entry.terms, tags: &entry.tags, timed: timed(entry.status) })
    }
}

/// Notes a call that was answered without a call to a server; one with a call has been noted by that.
fn note_answer(shared: &SharedState, note: CallNote, method: &Method, target: String, answer: &Answer, began: Instant) {
    let Some(result) = cache_status::result(&answer.headers).filter(|result| result.is_spared()) else { return };
    let place = CallPlace { kind: CallKind::Http, upstream: &shared.name, server: None, tls: false };
    let span = note.record.trace().map_or(0, |_| span_id());
    let bytes = if let AnswerBody::Bytes(bytes) = &answer.body { bytes.len() as u64 } else { 0 };
    note.begin(place, method, target, began, span).revise(|call, record| {
        let now = Some(record.at(Instant::now()));
        (call.head, call.ended, call.status, call.bytes) = (now, now, Some(answer.status), bytes);
        call.cache = Some(result);
    });
}

/// An answer that was kept is one of this upstream.
fn adopt(shared: &SharedState, answer: Answer) -> Answer {
    Answer { upstream: Some(shared.name.clone()), lists: shared.lists.clone(), ..answer }
}

/// Makes a call for the cache.
struct Fetcher {
    caller: Caller,
    /// The first call gets what exists only once: the body, and the client's side channels (upgrade, interim
    /// answers). Neither has header fields: each fetch has its own.
    calls: Mutex<(Option<Box<UpstreamCall>>, UpstreamCall)>,
    personal: CredentialUse,
    tags: Option<Arc<Filter>>,
    validates: bool,
}

impl Fetcher {
    fn new(cached: &UpstreamCache, caller: &Caller, call: Box<UpstreamCall>, personal: CredentialUse) -> Self {
        let again = UpstreamCall {
            method: call.method.clone(),
            timeouts: call.timeouts.clone(),
            root: call.root,
            host: call.host.clone(),
            received: call.received,
            affinity: call.affinity,
            presents: call.presents,
            // A body that is a part of the key is in memory.
            body: match &call.body {
                Some(AnswerBody::Bytes(body)) => Some(AnswerBody::Bytes(body.clone())),
                _ => None,
            },
            ..UpstreamCall::get(call.target.clone())
        };
        let validates = call.method != Method::POST && call.method.as_str() != "QUERY";
        let (caller, calls, tags) = (caller.clone(), Mutex::new((Some(call), again)), cached.tags.clone());
        Fetcher { caller, calls, personal, tags, validates }
    }
}

impl Fetcher {
    /// Only GET and HEAD are validated.
    fn with_conditions(&self, mut headers: HeaderMap) -> HeaderMap {
        if !self.validates {
            methods::CONDITIONS.iter().for_each(|name| drop(headers.remove(name)));
        }
        headers
    }
}

impl Fetch for Fetcher {
    fn fetch(&self, headers: HeaderMap, initiator: Initiator) -> BoxFuture<'static, Result<FetchedAnswer, Error>> {
        let headers = self.with_conditions(headers);
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut call = match (calls.0.take(), initiator) {
            (Some(call), Initiator::Client) => call,
            _ => Box::new(calls.1.repeat().unwrap_or_else(|| UpstreamCall::get(String::new()))),
        };
        drop(calls);
        // Other requests with later deadlines may wait for it.
        (call.headers, call.deadline) = (headers, None);
        let (caller, personal) = (self.caller.clone(), self.personal);
        Box::pin(async move {
            let answer = caller.start(call).finish().await?;
            Ok(FetchedAnswer { answer, personal, parts: None })
        })
    }

    fn tags(&self, headers: &HeaderMap, body: &SharedBody) -> BoxFuture<'static, Option<Tags>> {
        match &self.tags {
            None => Box::pin(std::future::ready(Some(Tags::default()))),
            Some(filter) => Box::pin(tags::evaluate(filter.clone(), headers.clone(), body.clone(), |_| jq::null())),
        }
    }
}
