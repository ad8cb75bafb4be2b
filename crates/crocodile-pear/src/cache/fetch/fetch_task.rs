//! A fetch for a cache: the request that is sent, and the handling of its answer.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, HeaderMap, RANGE};
use http::{Method, StatusCode};
use http_body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::Instant;

use super::cache::{Cache, Fetch, FetchPlan, FetchedAnswer, Initiator, resolve};
use super::request_coalescing::{CoalesceLeader, CoalescedOutcome, CoalescedResult, FetchOrigin};
use crate::cache::composition::AnswerParts;
use crate::cache::downstream;
use crate::cache::rules::key::Audience;
use crate::cache::rules::policy::{
    self, CredentialUse, FetchTimes, Lifetimes, ReuseTerms, UncachedReason, UpstreamFailure, Use,
};
use crate::cache::rules::tags::{self, MOST_TAGS, Tags};
use crate::cache::rules::vary::{self, Vary, VaryRequest};
use crate::cache::rules::{methods, range};
use crate::cache::store::Store;
use crate::cache::store::encoded_copies::Copies;
use crate::cache::store::entry::{Entry, compact};
use crate::cache::store::purge::PurgeMark;
use crate::cache::store::reuse;
use crate::cache::store::shared_body::{BodyWriter, SharedBody};
use crate::error::{Error, Fault};
use crate::http::date::Moment;
use crate::http::http1::AnswerFields;
use crate::http::media_type::has_events;
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};

/// So much of the store, as a part of it, may be on its way into all caches, besides the first piece of each body.
const ARRIVING: usize = 16;

static ARRIVING_NOW: AtomicUsize = AtomicUsize::new(0);

/// Not counted: what a body that is handed on holds, too.
const FIRST_PIECE: u64 = 64 << 10;

/// The places, in all caches, for bodies that nobody reads any more and that are fetched to their end. Without a bound, each client that
/// leaves after the head would keep a connection to the upstream open for as long as that is silent.
static UNREAD: Semaphore = Semaphore::const_new(128);

/// The time after which a fetch that still waits for its upstream looks for the readers of its body.
const LOOK: Duration = Duration::from_secs(1);

/// A fetch on its way.
pub(crate) struct FetchTask {
    pub cache: Arc<Cache>,
    pub plan: Box<FetchPlan>,
    pub headers: HeaderMap,
    pub fetch: Box<dyn Fetch>,
    pub leading: Option<CoalesceLeader>,
}

impl FetchTask {
    /// Fetches, tells those who wait, and keeps what may be kept.
    pub async fn run(mut self, mut leader: oneshot::Sender<CoalescedOutcome>) {
        if let Some(entry) = self.find_shared().await {
            return self.publish(
                &CoalescedResult { origin: FetchOrigin::Shared, ..CoalescedResult::new(entry, Ok(()), None) },
                leader,
            );
        }
        let validates = self.plan.stale.is_some() && self.plan.method == Method::GET;
        let (mut headers, mut times) =
            (self.conditions(validates), FetchTimes { asked: Moment::now(), came: Moment::now() });
        let mut mark = self.cache.store().mark();
        let begun = Instant::now();
        let mut fetched = self.ask(headers, &mut leader).await;
        match &fetched {
            Some(Ok(_)) => self.cache.silence.answers(begun.elapsed()),
            Some(Err(error)) if error.kind().fault() != Fault::Client => self.cache.silence.fails(),
            _ => {}
        }
        times.came = Moment::now();
        let confirmed =
            |fetched: &FetchedAnswer, stale: &Entry| policy::confirms(&stale.headers, &fetched.answer.headers);
        if let (Some(Ok(new)), Some(stale), true) = (&fetched, &self.plan.stale, validates)
            && new.answer.status == StatusCode::NOT_MODIFIED
        {
            if confirmed(new, stale) {
                let headers = policy::update(&stale.headers, &new.answer.headers);
                let leader = Some(leader);
                return self.freshen(&headers, new.personal, times, mark, StatusCode::NOT_MODIFIED, leader);
            }
            // It tells of something else than what is kept.
            headers = self.conditions(false);
            (times.asked, mark) = (Moment::now(), self.cache.store().mark());
            fetched = self.ask(headers, &mut leader).await;
            times.came = Moment::now();
        }
        match fetched {
            None => {}
            Some(Err(error)) => self.fail(error, leader),
            Some(Ok(fetched)) => self.arrive(fetched, times, mark, leader).await,
        }
    }

    /// An entry of another gateway, if it may be used as it is. Otherwise it may be validated.
    async fn find_shared(&mut self) -> Option<Arc<Entry>> {
        self.leading.as_ref()?;
        let holds = |entry: &Entry| {
            VaryRequest::from_headers(&self.headers).matches(&entry.selector, &entry.headers)
                && reuse::holds(entry, &self.headers)
        };
        let found = self.cache.store().find_shared(&self.plan.key, holds).await?;
        if found.entry.terms.decide(&self.plan.control, found.stale, Moment::now()) == Use::Fresh {
            return Some(found.entry);
        }
        self.plan.stale.get_or_insert(found.entry);
        None
    }

    fn lifetimes(&self) -> Lifetimes {
        Lifetimes { private: self.plan.audience == Audience::One, ..self.cache.rules().lifetimes }
    }

    /// The fields to send: the client's conditions are about what the client has, ours are about what is kept.
    fn conditions(&self, validates: bool) -> HeaderMap {
        let mut headers = self.headers.clone();
        if self.plan.method == Method::GET {
            methods::CONDITIONS.iter().for_each(|name| drop(headers.remove(name)));
        }
        if let (true, Some(stale)) = (validates, &self.plan.stale) {
            headers.extend(reuse::validators(&stale.headers));
        }
        headers
    }

    /// `None` if no client waits any more.
    async fn ask(
        &self,
        headers: HeaderMap,
        leader: &mut oneshot::Sender<CoalescedOutcome>,
    ) -> Option<Result<FetchedAnswer, Error>> {
        let initiator = if self.plan.behind { Initiator::Background } else { Initiator::Client };
        let mut fetch = self.fetch.fetch(headers, initiator);
        if initiator == Initiator::Background {
            return Some(fetch.await);
        }
        tokio::select! {
            biased;
            fetched = &mut fetch => return Some(fetched),
            () = leader.closed() => {}
        }
        if self.leading.as_ref().is_none_or(CoalesceLeader::abandon) { None } else { Some(fetch.await) }
    }

    /// There is no answer.
    fn fail(&self, error: Error, leader: oneshot::Sender<CoalescedOutcome>) {
        if error.kind().fault() != Fault::Client && self.covers(UpstreamFailure::Unreachable) {
            return self.publish_stale(None, leader);
        }
        if let Some(leading) = &self.leading {
            // A failure that is the client's own, such as a token that is refused, is none of those who wait.
            leading.fetch.end(|| match error.kind().fault() {
                Fault::Client => CoalescedOutcome::Alone,
                _ => CoalescedOutcome::Failed(error.clone()),
            });
        }
        let _ = leader.send(CoalescedOutcome::Failed(error));
    }

    /// Whether what is kept may be given instead.
    fn covers(&self, failure: UpstreamFailure) -> bool {
        self.plan.stale.as_ref().is_some_and(|stale| stale.terms.covers(failure, Moment::now()))
    }

    fn publish_stale(&self, status: Option<StatusCode>, leader: oneshot::Sender<CoalescedOutcome>) {
        let Some(entry) = self.plan.stale.as_ref() else { return };
        let entry = self.cache.newest(&self.plan.key, entry);
        let status = Some(status.unwrap_or(StatusCode::BAD_GATEWAY));
        self.publish(&CoalescedResult::new(entry, Err(None), status), leader);
    }

    fn publish(&self, result: &CoalescedResult, leader: oneshot::Sender<CoalescedOutcome>) {
        let _ = leader.send(CoalescedOutcome::Shared(result.clone()));
        if let Some(leading) = &self.leading {
            leading.fetch.publish(result);
        }
    }

    /// Renews the stored entry after an answer with this status has confirmed it. Without a leader no client waits any more.
    fn freshen(
        &self,
        headers: &HeaderMap,
        personal: CredentialUse,
        times: FetchTimes,
        mark: PurgeMark,
        status: StatusCode,
        leader: Option<oneshot::Sender<CoalescedOutcome>>,
    ) {
        let Some(stale) = &self.plan.stale else { return };
        let lifetimes = &self.lifetimes();
        let kept = policy::keep(stale.status, headers, personal, lifetimes, times);
        let (terms, stored) = match kept {
            Ok(terms) => (terms, Ok(())),
            Err(reason) => {
                (ReuseTerms { born: times.came, always_validate: true, ..ReuseTerms::default() }, Err(Some(reason)))
            }
        };
        let entry = Entry {
            status: stale.status,
            headers: compact(headers),
            selector: stale.selector.clone(),
            tags: tags::from_headers(headers).union(&stale.tags),
            terms,
            body: stale.body.clone(),
            copies: stale.copies.share(),
        };
        let entry = Arc::new(entry);
        match stored {
            Ok(()) => drop(self.cache.store().insert(mark, &self.plan.key, entry.clone())),
            Err(_) => self.cache.store().remove_entry(&self.plan.key, stale),
        }
        let Some(leader) = leader else { return };
        let result = CoalescedResult::new(entry, stored, Some(status));
        match stored {
            Ok(()) => self.publish(&result, leader),
            Err(_) => {
                let _ = leader.send(CoalescedOutcome::Shared(result));
            }
        }
    }

    /// There is an answer: its head.
    async fn arrive(
        self,
        mut fetched: FetchedAnswer,
        times: FetchTimes,
        mut mark: PurgeMark,
        leader: oneshot::Sender<CoalescedOutcome>,
    ) {
        let status = fetched.answer.status;
        if UpstreamFailure::from_status(status).is_some_and(|failure| self.covers(failure)) {
            return self.publish_stale(Some(status), leader);
        }
        if self.plan.method == Method::HEAD {
            self.compare(&fetched, times, mark);
        }
        if !policy::is_safe(&self.plan.method) {
            self.cache.invalidate(&self.plan.method, &self.plan.key, &fetched.answer);
            mark = self.cache.store().mark();
        }
        match self.judge(&fetched, times) {
            Ok(terms) => {
                self.cache.unkept().remove(&self.plan.key);
                self.keep(fetched, terms, mark, leader).await;
            }
            Err(reason) => {
                self.cache.unkept().add(&self.plan.key, times.came);
                if let Some(parts) = &fetched.parts {
                    parts.describe(&mut fetched.answer, &self.cache.rules().dependence);
                }
                self.share(fetched, reason, times, leader).await;
            }
        }
    }

    /// The head of what is kept updates it; that of another representation makes it stale (RFC 9111, 4.3.5).
    fn compare(&self, fetched: &FetchedAnswer, times: FetchTimes, mark: PurgeMark) {
        let Some(stale) = self.plan.stale.as_ref().filter(|_| fetched.answer.status == StatusCode::OK) else { return };
        let headers = &fetched.answer.headers;
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let other = length.is_some_and(|length| stale.body.length() != Some(length));
        if other || !policy::confirms(&stale.headers, headers) {
            return self.cache.store().remove_entry(&self.plan.key, stale);
        }
        let updated = policy::update(&stale.headers, headers);
        self.freshen(&updated, fetched.personal, times, mark, fetched.answer.status, None);
    }

    /// Whether it may be kept.
    fn judge(&self, fetched: &FetchedAnswer, times: FetchTimes) -> Result<ReuseTerms, UncachedReason> {
        let FetchedAnswer { answer, personal, parts } = fetched;
        let rules = self.cache.rules();
        match &self.plan.method {
            method if *method == Method::GET => {}
            method if *method == Method::POST && self.tells_of_itself(answer) => {}
            _ => return Err(UncachedReason::Method),
        }
        if matches!(answer.body, AnswerBody::Tunnel(_)) || has_events(&answer.headers) {
            return Err(UncachedReason::Endless);
        }
        let length = answer.body.length();
        if length.is_some_and(|length| length > rules.max_size) {
            return Err(UncachedReason::TooLarge);
        }
        if answer.status == StatusCode::PARTIAL_CONTENT {
            let part = range::part(&answer.headers).ok_or(UncachedReason::Status)?;
            let sound = length.is_none_or(|length| length == part.bytes.end - part.bytes.start) && part.whole.is_some();
            if !sound || !self.headers.contains_key(RANGE) {
                return Err(UncachedReason::Status);
            }
        }
        match parts {
            None => policy::keep(answer.status, &answer.headers, *personal, &self.lifetimes(), times),
            Some(parts) => parts.terms(answer, &self.lifetimes(), &rules.dependence, times),
        }
    }

    /// An answer to POST is one to GET if it says so, and says how long (RFC 9110, 9.3.3).
    fn tells_of_itself(&self, answer: &Answer) -> bool {
        let named = answer.headers.get(CONTENT_LOCATION).and_then(|value| value.to_str().ok());
        let own = named.and_then(|named| resolve(self.plan.key.url(), named));
        answer.status == StatusCode::OK
            && own.as_deref() == Some(self.plan.key.url())
            && !policy::says_nothing(&answer.headers)
    }

    /// Stores the answer, and gives it to all waiters while it arrives.
    async fn keep(
        mut self,
        fetched: FetchedAnswer,
        terms: ReuseTerms,
        mark: PurgeMark,
        leader: oneshot::Sender<CoalescedOutcome>,
    ) {
        let FetchedAnswer { answer, parts, .. } = fetched;
        let depends = Vary::from_headers(&answer.headers).and(&self.cache.rules().vary);
        let depends = parts.as_ref().map_or(depends.clone(), |parts| depends.and(&parts.vary()));
        let Vary::On(names) = depends else { return self.hand_over(answer, UncachedReason::Varies, leader) };
        let (body, arriving) = match spread(answer.body) {
            Ok(spread) => spread,
            Err(error) => return self.fail(error, leader),
        };
        let mut selector = Vec::from(vary::select(&names, &self.headers));
        if answer.status == StatusCode::PARTIAL_CONTENT {
            let part = answer.headers.get(CONTENT_RANGE);
            selector.push((RANGE, part.map(|part| part.as_bytes().into())));
        }
        let own = policy::unkept(&answer.headers);
        let mut headers = policy::kept(&answer.headers);
        if parts.is_some() {
            downstream::strip(&mut headers, &self.cache.rules().dependence);
        }
        let headers = compact(&headers);
        let entry = Entry {
            status: answer.status,
            tags: tags::from_headers(&headers),
            headers,
            selector: selector.into(),
            terms,
            body,
            copies: Copies::default(),
        };
        match arriving {
            None => self.keep_whole(entry, own, parts.as_deref(), mark, leader).await,
            Some((pulled, writer)) => {
                let mut result = CoalescedResult { own, ..CoalescedResult::new(Arc::new(entry), Ok(()), None) };
                if let Some(parts) = &parts {
                    let (entry, dependence) = (&result.entry, &self.cache.rules().dependence);
                    result.own.extend(parts.describe_early(entry.status, &entry.terms, dependence));
                }
                match &parts {
                    None => self.publish(&result, leader),
                    // Whether others may have it is known at its end.
                    Some(_) => drop(leader.send(CoalescedOutcome::Shared(result.clone()))),
                }
                let CoalescedResult { entry, ticket, .. } = result;
                if self.pump(pulled, writer, ticket).await {
                    self.keep_arrived(entry, parts.as_deref(), mark).await;
                }
            }
        }
    }

    async fn keep_whole(
        &self,
        entry: Entry,
        own: HeaderMap,
        parts: Option<&AnswerParts>,
        mark: PurgeMark,
        leader: oneshot::Sender<CoalescedOutcome>,
    ) {
        let (entry, stored) = match self.complete(&entry, parts).await {
            Ok(None) => (entry, Ok(())),
            Ok(Some(complete)) => (complete, Ok(())),
            Err(reason) => (entry, Err(Some(reason))),
        };
        let result = CoalescedResult { own, ..CoalescedResult::new(Arc::new(entry), stored, None) };
        if stored.is_err() {
            return drop(leader.send(CoalescedOutcome::Shared(result)));
        }
        // Before it is told, so that who has the answer finds it.
        self.cache.store().insert(mark, &self.plan.key, result.entry.clone());
        self.publish(&result, leader);
    }

    /// The last of it has come.
    async fn keep_arrived(&self, entry: Arc<Entry>, parts: Option<&AnswerParts>, mark: PurgeMark) {
        let entry = match self.complete(&entry, parts).await {
            Ok(None) => entry,
            Ok(Some(complete)) => Arc::new(complete),
            Err(_) => return,
        };
        self.cache.store().insert(mark, &self.plan.key, entry.clone());
        if let (Some(leading), Some(_)) = (&self.leading, parts) {
            leading.fetch.publish(&CoalescedResult::new(entry, Ok(()), None));
        }
    }

    /// The entry with its tags and, if composed, its terms, now that the whole body is here. `None` if that changes
    /// nothing.
    async fn complete(&self, entry: &Entry, parts: Option<&AnswerParts>) -> Result<Option<Entry>, UncachedReason> {
        let lifetimes = &self.lifetimes();
        let terms = parts.map_or(Ok(entry.terms), |parts| parts.settled(entry.status, entry.terms, lifetimes))?;
        let more = self.fetch.tags(&entry.headers, &entry.body).await.ok_or(UncachedReason::Tags)?;
        if more.is_empty() && parts.is_none() {
            return Ok(None);
        }
        let tags = entry.tags.union(&more).union(&parts.map(AnswerParts::tags).unwrap_or_default());
        if tags.len() > MOST_TAGS {
            return Err(UncachedReason::Tags);
        }
        let mut headers = entry.headers.clone();
        if let Some(parts) = parts {
            let mut fields = AnswerFields::from(headers);
            parts.describe_kept(entry.status, &mut fields, &terms, &self.cache.rules().dependence);
            headers = fields.into_map();
            reuse::describe(&mut headers, &entry.body);
        }
        let (status, selector, body) = (entry.status, entry.selector.clone(), entry.body.clone());
        Ok(Some(Entry { status, headers, selector, tags, terms, body, copies: Copies::default() }))
    }

    /// Returns an answer that is not stored to the request that asked. A failure also goes to the waiters: asking again would not
    /// help them.
    async fn share(
        mut self,
        fetched: FetchedAnswer,
        reason: UncachedReason,
        times: FetchTimes,
        leader: oneshot::Sender<CoalescedOutcome>,
    ) {
        let answer = fetched.answer;
        let shared = self.leading.is_some()
            && policy::is_shared_failure(answer.status, &answer.headers)
            && fetched.personal == CredentialUse::default()
            && !has_events(&answer.headers);
        let names = match Vary::from_headers(&answer.headers).and(&self.cache.rules().vary) {
            Vary::On(names) if shared => names,
            _ => return self.hand_over(answer, reason, leader),
        };
        let (body, arriving) = match spread(answer.body) {
            Ok(spread) => spread,
            Err(error) => return self.fail(error, leader),
        };
        let entry = Arc::new(Entry {
            status: answer.status,
            headers: policy::kept(&answer.headers),
            selector: vary::select(&names, &self.headers),
            tags: Tags::default(),
            terms: ReuseTerms { born: times.came, ..ReuseTerms::default() },
            body,
            copies: Copies::default(),
        });
        let result = CoalescedResult::new(entry, Err(Some(reason)), None);
        self.publish(&result, leader);
        // Who comes now may find it well again.
        self.leading = None;
        if let Some((pulled, writer)) = arriving {
            self.pump(pulled, writer, result.ticket).await;
        }
    }

    fn hand_over(&self, answer: Answer, reason: UncachedReason, leader: oneshot::Sender<CoalescedOutcome>) {
        if let Some(leading) = &self.leading {
            leading.fetch.end(|| CoalescedOutcome::Alone);
        }
        let _ = leader.send(CoalescedOutcome::Own(Box::new(answer), reason));
    }

    /// Reads a body for all who read it. Says whether it is whole, and may be kept.
    async fn pump(&mut self, mut pulled: PulledBody, writer: BodyWriter, ticket: Arc<()>) -> bool {
        let (most, mut counted) = (self.cache.rules().max_size, ArrivingBytes(0));
        let (mut passing, mut trailers) = (false, None);
        let (mut look, mut place) = (pin!(tokio::time::sleep(LOOK)), None);
        loop {
            let frame = tokio::select! {
                biased;
                frame = std::future::poll_fn(|cx| pulled.as_mut().poll_frame(cx)) => frame,
                () = look.as_mut() => {
                    look.as_mut().reset(Instant::now() + LOOK);
                    if !self.goes_on(&writer, &ticket, &mut place) {
                        return false;
                    }
                    continue;
                }
            };
            let frame = match frame {
                None => break,
                Some(Err(error)) => {
                    writer.fail(error);
                    return false;
                }
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(bytes) => writer.push(bytes),
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
            let written = writer.written();
            if !passing && (written > most || !counted.grow(written, self.cache.store())) {
                // Nobody joins any more; those who were told read it first.
                self.leading = None;
                while Arc::strong_count(&ticket) > 1 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                writer.pass();
                passing = true;
            }
            if passing {
                if writer.readers() == 0 {
                    return false;
                }
                writer.room().await;
            }
        }
        writer.finish(trailers);
        !passing
    }

    /// Whether a fetch that takes longer goes on: for a reader of its body, or for the cache alone, if a place is free for that.
    fn goes_on(&mut self, writer: &BodyWriter, ticket: &Arc<()>, place: &mut Option<SemaphorePermit<'static>>) -> bool {
        if writer.readers() > 0 {
            *place = None;
            return true;
        }
        *place = place.take().or_else(|| UNREAD.try_acquire().ok());
        if place.is_some() {
            return true;
        }
        // Nobody joins any more; those who were told are going to read it.
        self.leading = None;
        Arc::strong_count(ticket) > 1 || writer.readers() > 0
    }
}

/// A body that several read, and what is still to come of it.
type Spread = (SharedBody, Option<(PulledBody, BodyWriter)>);

fn spread(body: AnswerBody) -> Result<Spread, Error> {
    match body {
        AnswerBody::Bytes(bytes) => Ok((SharedBody::from(bytes), None)),
        body => {
            let pulled = body.into_pulled()?;
            let (shared, writer) = SharedBody::arriving(pulled.size_hint().exact());
            Ok((shared, Some((pulled, writer))))
        }
    }
}

/// How much of the bodies on their way is of this one.
struct ArrivingBytes(usize);

impl ArrivingBytes {
    /// Counts what has come. False, where there is no more room.
    fn grow(&mut self, written: u64, store: &Store) -> bool {
        let now = usize::try_from(written.saturating_sub(FIRST_PIECE)).unwrap_or(usize::MAX);
        let more = now.saturating_sub(self.0);
        if more == 0 {
            return true;
        }
        self.0 = now;
        let most = store.largest() * 4 / ARRIVING;
        ARRIVING_NOW.fetch_add(more, Ordering::Relaxed) + more <= most.max(1 << 20)
    }
}

impl Drop for ArrivingBytes {
    fn drop(&mut self) {
        ARRIVING_NOW.fetch_sub(self.0, Ordering::Relaxed);
    }
}
