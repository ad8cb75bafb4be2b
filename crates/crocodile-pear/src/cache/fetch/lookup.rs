//! The way of a request in a cache: answered from an entry, or fetched, together with equal requests.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RANGE};
use http::{Method, StatusCode};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cache::{Cache, Fetch, FetchPlan, FetchResult, ForwardMode, Initiator, Question, Reply};
use super::fetch_task::FetchTask;
use super::request_coalescing::{CoalesceLeader, CoalescedOutcome, CoalescedResult, FetchOrigin, FetchSubject, Joined};
use crate::cache::rules::cache_status::{ForwardReason, Happened};
use crate::cache::rules::control::RequestControl;
use crate::cache::rules::key::Key;
use crate::cache::rules::policy::{UncachedReason, UpstreamFailure, Use};
use crate::cache::rules::vary::{self, Selector, Vary, VaryRequest};
use crate::cache::rules::{cache_status, methods};
use crate::cache::store::counters::CacheOutcome;
use crate::cache::store::entry::Entry;
use crate::cache::store::reuse;
use crate::cache::store::shared_body::SharedBody;
use crate::error::{Error, Kind};
use crate::http::date::Moment;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::runtime::deadline_timer::by;

/// So often a request waits for a fetch of others, where purges make what they got too old for it.
const ROUNDS: usize = 3;

impl Cache {
    /// Looks what is kept for a request. Where that may be given stale, what is behind it is given to `behind`.
    pub fn look(&self, question: Question<'_>) -> (Reply, Option<Box<FetchPlan>>) {
        let Question { method, key, headers, audience } = question;
        let control = RequestControl::from_headers(headers);
        let plan = |why, mode| {
            let (stale, selector, behind) = (None, Box::default(), false);
            Box::new(FetchPlan {
                method: method.clone(),
                key: key.clone(),
                control,
                stale,
                selector,
                why,
                mode,
                behind,
                audience,
            })
        };
        if *method != Method::GET && *method != Method::HEAD {
            // An answer to POST may be one to GET (RFC 9110, 9.3.3).
            let mode = if *method == Method::POST { ForwardMode::Alone } else { ForwardMode::Past };
            return (Reply::Fetch(plan(ForwardReason::Method, mode)), None);
        }
        if control.no_store || reuse::is_bound(headers) {
            return (Reply::Fetch(plan(ForwardReason::Request, ForwardMode::Past)), None);
        }
        let now = Moment::now();
        let other = RefCell::new(None);
        let asked = VaryRequest::from_headers(headers);
        let found = self.store.find(&key, |entry| {
            let matches = asked.matches(&entry.selector, &entry.headers);
            let holds = matches && reuse::holds(entry, headers);
            if !holds && (other.borrow().is_none() || matches) {
                let names: Vec<HeaderName> = entry.selector.iter().map(|(name, _)| name.clone()).collect();
                *other.borrow_mut() = Some((names, matches));
            }
            holds
        });
        let Some(found) = found else {
            if control.only_if_cached {
                self.traffic.count(CacheOutcome::Miss);
                return (Reply::Answer(self.nothing(), None), None);
            }
            let (why, names) = match other.into_inner() {
                None => (ForwardReason::UriMiss, Vec::new()),
                Some((names, true)) => (ForwardReason::Partial, names),
                Some((names, false)) => (ForwardReason::VaryMiss, names),
            };
            let together = !control.no_cache && *method == Method::GET && !self.unkept.has(&key, now);
            let mut plan = plan(why, if together { ForwardMode::Together } else { ForwardMode::Alone });
            plan.selector = self.select(&names, headers);
            return (Reply::Fetch(plan), None);
        };
        let entry = found.entry;
        let used = entry.terms.decide(&control, found.stale, now);
        if used == Use::Validate {
            if control.only_if_cached {
                self.traffic.count(CacheOutcome::Miss);
                return (Reply::Answer(self.nothing(), None), None);
            }
            let why = if control.no_cache || !found.stale && entry.terms.is_fresh(now) {
                ForwardReason::Request
            } else {
                ForwardReason::Stale
            };
            // A request that demands validation cannot share one that began before it.
            let alone = control.no_cache || control.max_age.is_some() || control.min_fresh.is_some();
            let together = !alone && *method == Method::GET && !self.unkept.has(&key, now);
            let mut plan = plan(why, if together { ForwardMode::Together } else { ForwardMode::Alone });
            plan.selector = entry.selector.clone();
            plan.stale = Some(entry);
            return (Reply::Fetch(plan), None);
        }
        self.traffic.count(if used == Use::Fresh { CacheOutcome::Hit } else { CacheOutcome::Stale });
        let behind = (used == Use::Revalidate).then(|| {
            let mut plan = plan(ForwardReason::Stale, ForwardMode::Together);
            (plan.selector, plan.stale, plan.behind) = (entry.selector.clone(), Some(entry.clone()), true);
            plan.method = Method::GET;
            plan
        });
        (Reply::Answer(self.hit(&entry, method, headers, now), Some(entry)), behind)
    }

    /// The request's values of the fields that its answer may depend on.
    fn select(&self, names: &[HeaderName], headers: &HeaderMap) -> Selector {
        let Vary::On(names) = Vary::On(self.rules.vary.clone()).and(names) else { return Box::default() };
        let names: Vec<HeaderName> = names.into_iter().filter(|name| *name != RANGE).collect();
        vary::select(&names, headers)
    }

    fn hit(&self, entry: &Entry, method: &Method, headers: &HeaderMap, now: Moment) -> Answer {
        let mut answer = reuse::answer(entry, method, headers, now, |bytes| read(&entry.body, bytes));
        cache_status::append(&mut answer.headers, self.name, Happened::Hit, Some(&entry.terms), now);
        answer
    }

    /// RFC 9111, 5.2.1.7
    fn nothing(&self) -> Answer {
        let mut headers = HeaderMap::new();
        let document = br#"{"title":"Gateway Timeout","status":504,"detail":"no cached answer can be used, and the request does not allow a call"}"#;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let happened =
            Happened::Forwarded { why: ForwardReason::Request, status: None, stored: Err(None), collapsed: false };
        cache_status::append(&mut headers, self.name, happened, None, Moment::now());
        Answer::new(StatusCode::GATEWAY_TIMEOUT, headers, AnswerBody::Bytes(document[..].into()))
    }

    /// Fetches a new answer after a stale one was given; no client waits for it.
    pub fn refresh(self: &Arc<Self>, plan: Box<FetchPlan>, headers: HeaderMap, fetch: Box<dyn Fetch>) {
        let subject =
            FetchSubject { key: plan.key.clone(), selector: plan.selector.clone(), range: headers.get(RANGE).cloned() };
        if let Joined::Leads(leading) = self.join(subject, self.store.purges()) {
            let (leader, _) = oneshot::channel();
            tokio::spawn(FetchTask { cache: self.clone(), plan, headers, fetch, leading: Some(leading) }.run(leader));
        }
    }

    /// Fetches the answer of a request, together with equal requests.
    ///
    /// # Errors
    /// The errors of the fetch, and `Timeout` past the deadline.
    pub async fn fetch(
        self: &Arc<Self>,
        plan: Box<FetchPlan>,
        headers: HeaderMap,
        deadline: Option<Instant>,
        fetch: Box<dyn Fetch>,
    ) -> FetchResult {
        if plan.mode == ForwardMode::Past {
            return self.pass(&plan, headers, fetch).await;
        }
        let asked = CacheRequest {
            method: plan.method.clone(),
            control: plan.control,
            why: plan.why,
            headers: headers.clone(),
        };
        let subject =
            FetchSubject { key: plan.key.clone(), selector: plan.selector.clone(), range: headers.get(RANGE).cloned() };
        let purges = self.store.purges();
        let spare = plan.spare();
        for _ in 0..ROUNDS {
            if plan.mode != ForwardMode::Together {
                break;
            }
            let outcome = match self.join(subject.clone(), purges) {
                Joined::Ready(result) => CoalescedOutcome::Shared(result),
                Joined::Leads(leading) => {
                    return self.lead(plan, headers, Some(leading), &asked, deadline, fetch).await;
                }
                Joined::Waits(receiver, begun, since) => {
                    match self.wait(receiver, deadline, &subject.key, spare.as_ref(), since).await? {
                        Err(late) => return Ok(self.give(late, &asked, true)),
                        // The fetch began before a purge that this request came after.
                        Ok(CoalescedOutcome::Shared(result))
                            if self.is_before(&subject.key, &result, begun, purges) =>
                        {
                            continue;
                        }
                        Ok(outcome) => outcome,
                    }
                }
            };
            match outcome {
                CoalescedOutcome::Shared(result) if asked.may_have(&result) => {
                    return Ok(self.give(result, &asked, true));
                }
                CoalescedOutcome::Failed(error) => {
                    self.traffic.count(CacheOutcome::Collapsed);
                    return Err(error);
                }
                _ => break,
            }
        }
        // The shared answer is not for this request: it fetches alone, like all others of its kind.
        self.lead(plan, headers, None, &asked, deadline, fetch).await
    }

    /// Joins a fetch, unless what it has brought was purged since.
    fn join(&self, subject: FetchSubject, purges: u64) -> Joined {
        let key = subject.key.clone();
        self.fetches.join(subject, purges, |result, begun| !self.is_before(&key, result, begun, purges))
    }

    /// Whether an answer was purged between the start of its fetch and a request; both are numbers of purges.
    fn is_before(&self, key: &Key, result: &CoalescedResult, begun: u64, request: u64) -> bool {
        request > begun && self.store.is_outdated(begun, key, &result.entry)
    }

    /// Fetches it; others may wait for that.
    async fn lead(
        self: &Arc<Self>,
        plan: Box<FetchPlan>,
        headers: HeaderMap,
        leading: Option<CoalesceLeader>,
        asked: &CacheRequest,
        deadline: Option<Instant>,
        fetch: Box<dyn Fetch>,
    ) -> FetchResult {
        let (leader, receiver) = oneshot::channel();
        let spare = plan.spare();
        let trial = match &spare {
            Some(stale) if self.silence.patience().is_zero() => match self.silence.try_again() {
                // Enough others try whether it answers again.
                None => return Ok(self.give(late(self.newest(&plan.key, stale)), asked, false)),
                trial => trial,
            },
            _ => None,
        };
        // A task of its own: if its client leaves, the waiting requests still get the answer.
        let key = plan.key.clone();
        let task = FetchTask { cache: self.clone(), plan, headers, fetch, leading }.run(leader);
        tokio::spawn(async move {
            task.await;
            drop(trial);
        });
        match self.wait(receiver, deadline, &key, spare.as_ref(), Instant::now()).await? {
            Err(late) => Ok(self.give(late, asked, false)),
            Ok(CoalescedOutcome::Shared(result)) => Ok(self.give(result, asked, false)),
            Ok(CoalescedOutcome::Own(answer, reason)) => Ok((self.hand_on(*answer, asked, reason), None)),
            Ok(CoalescedOutcome::Failed(error)) => {
                self.traffic.count(asked.fetched());
                Err(error)
            }
            // Its task panicked: while the runtime shuts down, nobody is here to be told.
            Ok(CoalescedOutcome::Alone) => {
                tracing::error!(target: "crocodile_pear::cache", cache = self.name, "a fetch ended without an answer, because of a fault in the program");
                Err(Error::new(Kind::Internal, "the fetch for the cache ended without an answer"))
            }
        }
    }

    /// Waits for a fetch that began at this time. If it takes too long, the entry that may be given stale is given, and the
    /// fetch goes on.
    async fn wait(
        &self,
        mut receiver: oneshot::Receiver<CoalescedOutcome>,
        deadline: Option<Instant>,
        key: &Key,
        spare: Option<&Arc<Entry>>,
        since: Instant,
    ) -> Result<Result<CoalescedOutcome, CoalescedResult>, Error> {
        let Some(spare) = spare else {
            return Ok(Ok(within(deadline, receiver).await?.unwrap_or(CoalescedOutcome::Alone)));
        };
        let due = since + self.silence.patience();
        let due = deadline.map_or(due, |deadline| deadline.min(due));
        match by(due, &mut receiver).await {
            Some(outcome) => Ok(Ok(outcome.unwrap_or(CoalescedOutcome::Alone))),
            None => {
                self.silence.fails();
                // Somebody waits for it, so that it is not given up.
                tokio::spawn(receiver);
                Ok(Err(late(self.newest(key, spare))))
            }
        }
    }

    /// The stale entry to give: the newer one, if another fetch has brought one meanwhile, because a client may have seen that.
    pub(super) fn newest(&self, key: &Key, stale: &Arc<Entry>) -> Arc<Entry> {
        let successor = self.store.successor(key, stale);
        let covers = |newer: &Arc<Entry>| newer.terms.covers(UpstreamFailure::Unreachable, Moment::now());
        successor.filter(covers).unwrap_or_else(|| stale.clone())
    }

    /// An answer that several may have, for one of them.
    fn give(&self, result: CoalescedResult, asked: &CacheRequest, collapsed: bool) -> (Answer, Option<Arc<Entry>>) {
        let (now, entry) = (Moment::now(), &result.entry);
        let mut answer = reuse::answer(entry, &asked.method, &asked.headers, now, |bytes| read(&entry.body, bytes));
        reuse::complete(&mut answer.headers, &result.own);
        // An answer that was just made has no age.
        if !entry.headers.contains_key(http::header::AGE) && entry.terms.age(now).as_secs() == 0 {
            answer.headers.remove(http::header::AGE);
        }
        let (why, status, stored) = (asked.why, result.status, result.stored);
        self.traffic.count(match (result.origin, status) {
            _ if collapsed => CacheOutcome::Collapsed,
            (FetchOrigin::Shared, _) => CacheOutcome::Hit,
            (FetchOrigin::Fetched, Some(StatusCode::NOT_MODIFIED)) => CacheOutcome::Revalidated,
            (FetchOrigin::Fetched, Some(_)) => CacheOutcome::Stale,
            (FetchOrigin::Fetched, None) => asked.fetched(),
        });
        let happened = match result.origin {
            FetchOrigin::Fetched => Happened::Forwarded { why, status, stored, collapsed },
            FetchOrigin::Shared => Happened::Hit,
        };
        cache_status::append(&mut answer.headers, self.name, happened, Some(&entry.terms), now);
        (answer, (stored.is_ok() || status.is_some()).then_some(result.entry))
    }

    /// A personal answer. The client's conditions were not forwarded, so they are checked here.
    fn hand_on(&self, mut answer: Answer, asked: &CacheRequest, reason: UncachedReason) -> Answer {
        self.traffic.count(asked.fetched());
        let status = (asked.method == Method::GET).then_some(answer.status);
        if asked.method == Method::GET
            && asked.is_conditional()
            && reuse::has_it(answer.status, &answer.headers, &asked.headers)
        {
            answer = Answer {
                names: answer.names,
                upstream: answer.upstream,
                ..reuse::not_modified(answer.headers.into_map())
            };
        }
        let status = status.filter(|status| *status != answer.status);
        let happened = Happened::Forwarded { why: asked.why, status, stored: Err(Some(reason)), collapsed: false };
        cache_status::append(&mut answer.headers, self.name, happened, None, Moment::now());
        answer
    }

    /// A request that this cache does not serve. One that is not safe makes invalid what is kept (RFC 9111, 4.4).
    async fn pass(&self, plan: &FetchPlan, headers: HeaderMap, fetch: Box<dyn Fetch>) -> FetchResult {
        self.traffic.count(CacheOutcome::Bypass);
        let mut answer = fetch.fetch(headers, Initiator::Client).await?.answer;
        self.invalidate(&plan.method, &plan.key, &answer);
        let happened = Happened::Forwarded { why: plan.why, status: None, stored: Err(None), collapsed: false };
        cache_status::append(&mut answer.headers, self.name, happened, None, Moment::now());
        Ok((answer, None))
    }
}

/// The bytes of a body, or all of it.
fn read(body: &SharedBody, bytes: Option<Range<u64>>) -> AnswerBody {
    match bytes {
        None => body.read(),
        Some(bytes) => body.read_range(bytes.start, bytes.end),
    }
}

/// A stale entry, instead of an answer that was not there in time.
fn late(stale: Arc<Entry>) -> CoalescedResult {
    CoalescedResult::new(stale, Err(None), Some(StatusCode::GATEWAY_TIMEOUT))
}

async fn within<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Result<T, Error> {
    match deadline {
        None => Ok(future.await),
        Some(deadline) => {
            let late = || Error::new(Kind::Timeout, "the answer was not there in time");
            by(deadline, future).await.ok_or_else(late)
        }
    }
}

/// The request, as far as its answer depends on it.
struct CacheRequest {
    method: Method,
    control: RequestControl,
    why: ForwardReason,
    headers: HeaderMap,
}

impl CacheRequest {
    fn fetched(&self) -> CacheOutcome {
        if self.why == ForwardReason::Method { CacheOutcome::Bypass } else { CacheOutcome::Miss }
    }

    fn is_conditional(&self) -> bool {
        methods::CONDITIONS.iter().any(|name| self.headers.contains_key(name))
    }

    /// Whether it may have what another one got.
    fn may_have(&self, result: &CoalescedResult) -> bool {
        let entry = &result.entry;
        let fits = VaryRequest::from_headers(&self.headers).matches(&entry.selector, &entry.headers)
            && reuse::holds(entry, &self.headers);
        let shared = result.stored.is_err() || result.status.is_some();
        let used = entry.terms.decide(&self.control, false, Moment::now());
        fits && (shared || used != Use::Validate)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::header::CACHE_CONTROL;
    use tokio::sync::Semaphore;

    use super::super::cache::{CacheRules, FetchedAnswer};
    use super::super::lookup::*;
    use crate::cache::rules::key::Audience;
    use crate::cache::rules::policy::CredentialUse;
    use crate::cache::store::Store;
    use crate::cache::store::counters::CacheOwner;
    use crate::cache::store::purge::{Purge, PurgeMode};
    use futures_util::future::BoxFuture;

    /// Answers with the number of the call, when it may.
    #[derive(Clone)]
    struct Numbers(Arc<(AtomicUsize, Semaphore)>);

    impl Numbers {
        fn new() -> Self {
            Numbers(Arc::new((AtomicUsize::new(0), Semaphore::new(0))))
        }

        fn calls(&self) -> usize {
            self.0.0.load(Ordering::SeqCst)
        }
    }

    impl Fetch for Numbers {
        fn fetch(&self, _: HeaderMap, _: Initiator) -> BoxFuture<'static, Result<FetchedAnswer, Error>> {
            let (number, own) = (self.0.0.fetch_add(1, Ordering::SeqCst) + 1, self.clone());
            Box::pin(async move {
                own.0.1.acquire().await.expect("never closed").forget();
                let headers = HeaderMap::from_iter([
                    (CACHE_CONTROL, HeaderValue::from_static("max-age=60")),
                    (HeaderName::from_static("cache-tag"), HeaderValue::from_static("item")),
                ]);
                let answer = Answer::new(StatusCode::OK, headers, AnswerBody::Bytes(number.to_string().into()));
                Ok(FetchedAnswer { answer, personal: CredentialUse::default(), parts: None })
            })
        }
    }

    /// The result of a request.
    async fn ask(cache: Arc<Cache>, numbers: Numbers) -> Vec<u8> {
        let headers = HeaderMap::new();
        let key = Key::new("http://a/item", b"");
        let answer =
            match cache.look(Question { method: &Method::GET, key, headers: &headers, audience: Audience::All }) {
                (Reply::Answer(answer, _), _) => answer,
                (Reply::Fetch(plan), _) => {
                    cache.fetch(plan, headers, None, Box::new(numbers)).await.expect("an answer").0
                }
            };
        answer.body.collect(100).await.expect("a body").to_vec()
    }

    /// Lets all tasks go as far as they can.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    async fn purged_meanwhile(purge: Purge) -> [Vec<u8>; 4] {
        let (here, store) = (CacheOwner::Upstream("test".to_owned()), Arc::new(Store::new(1 << 20)));
        let cache = Cache::new("test", &here, store, CacheRules { max_size: 1 << 20, ..CacheRules::default() });
        let numbers = Numbers::new();
        let early = [(); 2].map(|()| tokio::spawn(ask(cache.clone(), numbers.clone())));
        settle().await;
        cache.store().purge(&purge, PurgeMode::Soft);
        let late = [(); 2].map(|()| tokio::spawn(ask(cache.clone(), numbers.clone())));
        settle().await;
        assert_eq!(numbers.calls(), 1);
        numbers.0.1.add_permits(2);
        let mut bodies = Vec::new();
        for asked in early.into_iter().chain(late) {
            bodies.push(asked.await.expect("it ends"));
        }
        bodies.try_into().expect("four")
    }

    #[tokio::test]
    async fn a_request_after_a_purge_does_not_get_what_was_fetched_before_it() {
        let bodies = purged_meanwhile(Purge::Tag("item".to_owned())).await;
        assert_eq!(bodies, [b"1", b"1", b"2", b"2"].map(|body| body.to_vec()));
    }

    /// Panics.
    struct Faulty;

    impl Fetch for Faulty {
        fn fetch(&self, _: HeaderMap, _: Initiator) -> BoxFuture<'static, Result<FetchedAnswer, Error>> {
            Box::pin(async { panic!("a fault") })
        }
    }

    #[tokio::test]
    async fn a_fetch_that_panics_is_told_as_a_fault_and_leaves_the_place_free() {
        let (here, store) = (CacheOwner::Upstream("test".to_owned()), Arc::new(Store::new(1 << 20)));
        let cache = Cache::new("test", &here, store, CacheRules { max_size: 1 << 20, ..CacheRules::default() });
        let (headers, key) = (HeaderMap::new(), Key::new("http://a/item", b""));
        let question = Question { method: &Method::GET, key, headers: &headers, audience: Audience::All };
        let (Reply::Fetch(plan), _) = cache.look(question) else { panic!("nothing is kept") };
        let failed = cache.fetch(plan, HeaderMap::new(), None, Box::new(Faulty)).await.err().expect("no answer");
        assert_eq!(
            (failed.kind(), failed.detail()),
            (Kind::Internal, "the fetch for the cache ended without an answer")
        );
        let numbers = Numbers::new();
        numbers.0.1.add_permits(1);
        assert_eq!(ask(cache, numbers).await, b"1");
    }

    #[tokio::test]
    async fn a_purge_of_something_else_keeps_nobody_apart() {
        let bodies = purged_meanwhile(Purge::Tag("other".to_owned())).await;
        assert_eq!(bodies, [b"1"; 4].map(|body| body.to_vec()));
    }
}
