//! A place where answers are kept: an upstream, or an endpoint. Its questions and replies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Method;
use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, LOCATION};

use super::request_coalescing::CoalescedFetches;
use super::silence::FetchSilence;
use crate::cache::composition::AnswerParts;
use crate::cache::dependence::Dependence;
use crate::cache::rules::cache_status::ForwardReason;
use crate::cache::rules::control::RequestControl;
use crate::cache::rules::key::{Audience, Key};
use crate::cache::rules::methods::Methods;
use crate::cache::rules::policy::{self, CredentialUse, Lifetimes, UpstreamFailure};
use crate::cache::rules::tags::Tags;
use crate::cache::rules::vary::Selector;
use crate::cache::store::Store;
use crate::cache::store::counters::{CacheOwner, Traffic};
use crate::cache::store::entry::Entry;
use crate::cache::store::purge::{Purge, PurgeMode};
use crate::cache::store::shared_body::SharedBody;
use crate::cache::store::stored_answer::Kept;
use crate::error::Error;
use crate::http::date::Moment;
use crate::message::answer::Answer;

/// The configuration of a place.
#[derive(Clone, Debug, Default)]
pub struct CacheRules {
    pub lifetimes: Lifetimes,
    /// Which methods are served.
    pub methods: Methods,
    /// Fields of requests that answers depend on, besides those that answers name.
    pub vary: Vec<HeaderName>,
    /// The largest body that is kept.
    pub max_size: u64,
    /// The parts of requests that composed answers depend on.
    pub dependence: Dependence,
}

/// A place where answers are kept.
pub struct Cache {
    /// The name of the cache in `Cache-Status`.
    pub(crate) name: &'static str,
    pub(crate) store: Arc<Store>,
    pub(crate) rules: CacheRules,
    pub(crate) fetches: Arc<CoalescedFetches>,
    pub(crate) unkept: Unkept,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) silence: Arc<FetchSilence>,
}

/// Fetches an answer.
pub trait Fetch: Send + Sync + 'static {
    /// Gets it, for a request with these header fields. The first call in the name of a client may use up what the client
    /// sent; there may be further ones.
    fn fetch(&self, headers: HeaderMap, initiator: Initiator) -> BoxFuture<'static, Result<FetchedAnswer, Error>>;

    /// More tags of an answer, found in its body.
    fn tags(&self, _: &HeaderMap, _: &SharedBody) -> BoxFuture<'static, Option<Tags>> {
        Box::pin(std::future::ready(Some(Tags::default())))
    }
}

/// For whom a fetch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initiator {
    /// A client waits for it.
    Client,
    /// No client waits.
    Background,
}

/// The result of a fetch.
pub struct FetchedAnswer {
    pub answer: Answer,
    pub personal: CredentialUse,
    /// Its parts, if it is composed; complete when its body has ended.
    pub parts: Option<Arc<AnswerParts>>,
}

pub struct Question<'a> {
    pub method: &'a Method,
    /// Under what its answer is kept.
    pub key: Key,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// For whom the key is.
    pub audience: Audience,
}

pub enum Reply {
    /// The kept answer, with its entry; without an entry if the request accepts nothing but a kept answer.
    Answer(Answer, Option<Arc<Entry>>),
    /// The answer must be fetched.
    Fetch(Box<FetchPlan>),
}

/// The result of a fetch: the answer, and its stored entry if there is one.
pub type FetchResult = Result<(Answer, Option<Arc<Entry>>), Error>;

/// A request that goes further.
pub struct FetchPlan {
    pub(crate) method: Method,
    pub(crate) key: Key,
    pub(crate) control: RequestControl,
    /// The entry, if it is stale.
    pub(crate) stale: Option<Arc<Entry>>,
    /// Which requests count as the same.
    pub(crate) selector: Selector,
    pub(crate) why: ForwardReason,
    pub(crate) mode: ForwardMode,
    /// Given to the client already: this is a fetch behind it.
    pub(crate) behind: bool,
    pub(crate) audience: Audience,
}

impl FetchPlan {
    /// The entry that may be given stale if there is no answer, to a request that shares fetches with others.
    pub(crate) fn spare(&self) -> Option<Arc<Entry>> {
        let covers = |stale: &&Arc<Entry>| stale.terms.covers(UpstreamFailure::Unreachable, Moment::now());
        self.stale.as_ref().filter(|_| self.mode == ForwardMode::Together).filter(covers).cloned()
    }
}

/// How a request goes further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardMode {
    Together,
    /// Alone, and its answer may be kept.
    Alone,
    /// Alone, as it is, and its answer is not kept.
    Past,
}

impl Cache {
    pub fn new(name: &'static str, here: &CacheOwner, store: Arc<Store>, rules: CacheRules) -> Arc<Self> {
        let traffic = store.traffics().at(here);
        let (fetches, unkept, silence) = (CoalescedFetches::new(), Unkept::default(), Arc::default());
        Arc::new(Cache { name, store, rules, fetches, unkept, traffic, silence })
    }

    /// The configuration.
    pub fn rules(&self) -> &CacheRules {
        &self.rules
    }

    /// The entry, as it was given to a request with this key.
    pub fn kept(&self, key: Key, entry: Arc<Entry>) -> Kept {
        Kept::new(self.store.clone(), key, entry)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn unkept(&self) -> &Unkept {
        &self.unkept
    }

    /// Purges what an answer makes invalid.
    pub(crate) fn invalidate(&self, method: &Method, key: &Key, answer: &Answer) {
        if !policy::invalidates(method, answer.status) {
            return;
        }
        self.store.purge(&Purge::Url(key.url().to_owned()), PurgeMode::Hard);
        for name in [LOCATION, CONTENT_LOCATION] {
            let named = answer.headers.get(name).and_then(|value| value.to_str().ok());
            if let Some(url) = named.and_then(|named| resolve(key.url(), named)).filter(|url| *url != key.url()) {
                self.store.purge(&Purge::Url(url), PurgeMode::Hard);
            }
        }
    }
}

/// A URL of the same origin (RFC 9111, 4.4), as it is in keys.
pub(crate) fn resolve(base: &str, named: &str) -> Option<String> {
    let path_at = base.find("://").map_or(0, |at| at + 3);
    let path_at = base[path_at..].find(['/', '?']).map_or(base.len(), |at| path_at + at);
    let (origin, path) = base.split_at(path_at);
    let named = named.trim().split('#').next().unwrap_or_default();
    if let Some((scheme, _)) = named.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?'])) {
        let same = named.get(..origin.len()).is_some_and(|start| start.eq_ignore_ascii_case(origin));
        let rest = named.get(origin.len()..).unwrap_or_default();
        return (same && !scheme.is_empty() && (rest.is_empty() || rest.starts_with(['/', '?'])))
            .then(|| format!("{origin}{rest}"));
    }
    if named.starts_with("//") {
        return None;
    }
    let path = path.split('?').next().unwrap_or_default();
    let whole = match named.as_bytes().first() {
        None => return Some(base.to_owned()),
        Some(b'/') => named.to_owned(),
        Some(b'?') => format!("{path}{named}"),
        Some(_) => format!("{}{named}", &path[..path.rfind('/').map_or(0, |at| at + 1)]),
    };
    Some(format!("{origin}{}", dotless(&whole)))
}

/// RFC 3986, 5.2.4
fn dotless(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    if !path.contains("/.") {
        return format!("{path}{query}");
    }
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        match *segment {
            ".." => {
                if kept.len() > 1 {
                    kept.pop();
                }
                kept.extend(last.then_some(""));
            }
            "." => kept.extend(last.then_some("")),
            segment => kept.push(segment),
        }
    }
    format!("{}{query}", kept.join("/"))
}

/// How long a key counts as one that is not kept. Varnish has two minutes; here a wrong guess only costs calls.
const MEMORY: Duration = Duration::from_secs(10);

/// So many keys are remembered.
const MOST: usize = 16_384;

/// The keys whose answers were lately not stored: requests for them do not wait for each other, since none could use the other's
/// answer. They are hashes: one that is mistaken for another costs a call.
#[derive(Default)]
pub(crate) struct Unkept(Mutex<HashMap<u64, Moment>>);

impl Unkept {
    /// Remembers a key.
    pub fn add(&self, key: &Key, now: Moment) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, until| *until > now);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key.hash(), now.after(MEMORY));
    }

    pub fn has(&self, key: &Key, now: Moment) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key.hash()).is_some_and(|until| *until > now)
    }

    /// Forgets a key: it was kept.
    pub fn remove(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.hash());
    }
}
