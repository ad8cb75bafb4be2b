//! The parts of a composed answer: it is as fresh as its least fresh part, private if a part is, and depends on whatever its
//! parts depend on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    MAX_FORWARDS, RANGE, SET_COOKIE, TE, VIA,
};

use super::dependence::Dependence;
use super::downstream::{self, Assembly};
use super::rules::policy::{self, CredentialUse, FetchTimes, Lifetimes, ReuseTerms, UncachedReason};
use super::rules::tags::{self, MOST_TAGS, Tags};
use super::rules::vary::Vary;
use super::said::{AskedWith, CombinedDirectives};
use crate::http::date::Moment;
use crate::http::http1::{AnswerFields, NameSet};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;

/// The parts of one answer, noted as they come.
pub struct AnswerParts {
    /// Made when the first part says something, or when it is asked for. Most answers never need it.
    sum: OnceLock<Box<Mutex<Sum>>>,
    /// Parts that say nothing, and that are not in the sum yet. Most parts are such ones.
    silent: AtomicUsize,
    /// Whether a cache may keep the answer.
    kept: bool,
    /// Whether parts may come after its head.
    joins: bool,
}

#[derive(Clone, Default)]
struct Sum {
    /// The directives of the parts for clients and for caches downstream.
    said: CombinedDirectives,
    /// The terms of all parts that have some, combined.
    terms: Option<ReuseTerms>,
    /// The terms of all parts that do not declare how long they are fresh, combined, as guessed from their dates: for
    /// where the configuration does not say it either.
    silent: Option<ReuseTerms>,
    /// Why the whole is not kept.
    forbidden: Vec<UncachedReason>,
    /// Whether it is not kept for all by force: a part was made for credentials, and only a lifetime allows to share it.
    unforced: bool,
    personal: CredentialUse,
    tags: Tags,
    vary: Vec<HeaderName>,
}

/// A part that the cache of its upstream keeps.
#[derive(Clone, Copy)]
pub struct KeptPart<'a> {
    pub terms: &'a ReuseTerms,
    pub tags: &'a Tags,
    /// Whether the configuration of that cache says how long answers are fresh.
    pub timed: bool,
}

/// Every answer has terms with these, whoever it is for.
const FOR_ONE: Lifetimes = Lifetimes { private: true, ..Lifetimes::NONE };

/// With these, no answer is kept that its own lifetime does not make public.
const OURS: Lifetimes = Lifetimes { fallback: Some(Duration::ZERO), ..Lifetimes::NONE };

/// With these, no answer is kept that does not say that it is public.
const FORCED: Lifetimes = Lifetimes { force: Some(Duration::ZERO), ..Lifetimes::NONE };

/// An answer with one of these is for its client alone.
static COOKIES: LazyLock<NameSet> = LazyLock::new(|| NameSet::of([SET_COOKIE]));

/// Whether a request field is about the body of its request, or about how that of the answer is sent: the calls for parts
/// have bodies of their own, and their codings are undone. Conditions and ranges are about what a client or a cache has already.
fn is_of_body(name: &HeaderName) -> bool {
    const ABOUT: [HeaderName; 6] = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE];
    is_neutral(name) || ABOUT.contains(name) || name.as_str().starts_with("content-")
}

/// Whether a field says nothing that an answer depends on but where it says so: codings are undone where an answer is read, and
/// `via` and traces are about the way of the request.
pub fn is_neutral(name: &HeaderName) -> bool {
    [ACCEPT_ENCODING, VIA, TE, MAX_FORWARDS].contains(name) || matches!(name.as_str(), "traceparent" | "tracestate")
}

impl AnswerParts {
    /// The parts of an answer that no cache of the gateway stores. `joins`: parts may come after its head.
    pub fn new(joins: bool) -> Arc<Self> {
        Arc::new(AnswerParts { sum: OnceLock::new(), silent: AtomicUsize::new(0), kept: false, joins })
    }

    /// The parts of an answer that a cache may store.
    pub fn kept(joins: bool) -> Arc<Self> {
        Arc::new(AnswerParts { sum: OnceLock::new(), silent: AtomicUsize::new(0), kept: true, joins })
    }

    fn sum(&self) -> MutexGuard<'_, Sum> {
        let mut sum = self.sum.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner);
        // Not swapped at once: hardly any sum is asked for more than once.
        if self.silent.load(Ordering::Relaxed) > 0 {
            sum.said.add_all_silent(self.silent.swap(0, Ordering::Relaxed));
        }
        sum
    }

    /// Notes an answer that was asked for with nothing of the client's, if it says nothing of itself and no cache keeps the
    /// whole. Returns false for any other.
    pub fn note_plain(&self, headers: &AnswerFields) -> bool {
        let plain = !self.kept && !CombinedDirectives::tells(headers);
        if plain {
            self.silent.fetch_add(1, Ordering::Relaxed);
        }
        plain
    }

    /// Notes an answer, how it was asked for, and what is kept of it.
    pub fn note(
        &self,
        status: StatusCode,
        headers: &AnswerFields,
        (personal, asked): (CredentialUse, &AskedWith),
        kept: Option<KeptPart<'_>>,
        fetched: FetchTimes,
    ) {
        let mut sum = self.sum();
        sum.said.add(headers, asked, fetched.came);
        if self.kept {
            sum.note(status, headers, personal, kept, fetched);
        }
    }

    /// Notes a part that says nothing of itself: rows of a database.
    pub fn note_silent(&self, came: Moment) {
        let mut sum = self.sum();
        sum.said.add_silent();
        sum.add_silent(ReuseTerms::stale(came));
    }

    /// Gives the answer the fields that say how it may be kept.
    pub fn describe(&self, answer: &mut Answer, dependence: &Dependence) {
        let streaming = self.joins && matches!(answer.body, AnswerBody::Pulled(_));
        if !streaming && self.is_silent() && dependence.adds_nothing() && !answer.headers.has_any(&COOKIES) {
            if self.silent.load(Ordering::Relaxed) > 1 {
                downstream::strip_all(&mut answer.headers);
            }
            return;
        }
        let sum = self.sum();
        let made = if streaming { Assembly::Streaming(&sum.said) } else { Assembly::Whole(&sum.said) };
        // Only what has an end is measured from now.
        let now = sum.said.until.map_or(Moment::default(), |_| Moment::now());
        downstream::describe(answer.status, &mut answer.headers, made, dependence, now);
    }

    /// Whether there are parts and none of them says anything about keeping it. Then there is nothing to say of the whole.
    fn is_silent(&self) -> bool {
        self.sum.get().is_none() && self.silent.load(Ordering::Relaxed) > 0
    }

    /// The fields of an answer with this status that is kept on these terms, in addition to its own.
    pub fn describe_kept(
        &self,
        status: StatusCode,
        headers: &mut AnswerFields,
        terms: &ReuseTerms,
        dependence: &Dependence,
    ) {
        let made = Assembly::Kept(&self.sum().said, terms);
        downstream::describe(status, headers, made, dependence, Moment::now());
    }

    /// The header fields of an answer that is stored while its body still arrives.
    pub fn describe_early(&self, status: StatusCode, terms: &ReuseTerms, dependence: &Dependence) -> HeaderMap {
        let (mut headers, sum) = (AnswerFields::default(), self.sum());
        let made = if self.joins { Assembly::Streaming(&sum.said) } else { Assembly::Kept(&sum.said, terms) };
        downstream::describe(status, &mut headers, made, dependence, Moment::now());
        headers.into_map()
    }

    /// Notes that the answer depends on what a call does.
    pub fn note_dependence(&self, dependence: &Dependence) {
        if dependence.is_silent() {
            return;
        }
        self.sum().said.depend(dependence);
    }

    /// Notes that a call sends these fields of the client's request as they came; `None` for all. Caches downstream must know
    /// of those too that this request does not have; whether the others are named, each part says.
    pub fn depend<'a>(&self, names: Option<&[HeaderName]>, request: impl FnOnce() -> &'a HeaderMap) {
        match names {
            None => self.sum().said.sends_all = true,
            // Here the client's fields need not be read.
            Some([]) => {}
            Some(names) => {
                if self.kept {
                    self.sum().vary.extend_from_slice(names);
                }
                let request = request();
                let told = |name: &&HeaderName| !request.contains_key(*name) && !is_of_body(name);
                let mut absent = names.iter().filter(told).peekable();
                if absent.peek().is_some() {
                    self.sum().said.miss(absent);
                }
            }
        }
    }

    /// Notes a part that is missing: the whole is not what it could be.
    pub fn lack(&self) {
        let mut sum = self.sum();
        sum.said.lack();
        sum.forbid(UncachedReason::Status);
    }

    /// Whether a client's credentials were sent for a part.
    pub fn personal(&self) -> CredentialUse {
        self.sum().personal
    }

    pub fn tags(&self) -> Tags {
        self.sum().tags.clone()
    }

    /// The fields of requests that the parts depend on.
    pub fn vary(&self) -> Vec<HeaderName> {
        self.sum().vary.clone()
    }

    /// The terms of the whole, as far as its parts are known.
    ///
    /// # Errors
    /// Why it is not kept.
    pub fn terms(
        &self,
        answer: &Answer,
        lifetimes: &Lifetimes,
        dependence: &Dependence,
        fetched: FetchTimes,
    ) -> Result<ReuseTerms, UncachedReason> {
        let mut sum = self.sum().clone();
        if policy::sets_cookie(&answer.headers) {
            sum.forbid(UncachedReason::Cookie);
        }
        // Other fields are those of a part, which has been noted.
        if dependence.sets_lifetime() && !policy::says_nothing(&answer.headers) {
            sum.add(policy::keep(answer.status, &answer.headers, sum.personal, lifetimes, fetched)?);
        }
        sum.whole(answer.status, lifetimes, fetched.came)
    }

    /// The terms of the whole, now that all parts are known. `terms` are those that it had at its head.
    ///
    /// # Errors
    /// Why it is not kept.
    pub fn settled(
        &self,
        status: StatusCode,
        terms: ReuseTerms,
        lifetimes: &Lifetimes,
    ) -> Result<ReuseTerms, UncachedReason> {
        let sum = self.sum();
        if let Some(reason) = sum.forbids(lifetimes) {
            return Err(reason);
        }
        if sum.tags.len() > MOST_TAGS {
            return Err(UncachedReason::TooLarge);
        }
        if lifetimes.force.is_some() || sum.terms.is_none() && sum.silent.is_none() {
            return Ok(terms);
        }
        sum.whole(status, lifetimes, terms.born).map(|whole| together(terms, whole))
    }
}

impl Sum {
    fn note(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        personal: CredentialUse,
        kept: Option<KeptPart<'_>>,
        fetched: FetchTimes,
    ) {
        self.personal.authorization |= personal.authorization;
        self.personal.cookie |= personal.cookie;
        self.personal.address |= personal.address;
        self.tags = self.tags.union(&kept.map_or_else(|| tags::from_headers(headers), |kept| kept.tags.clone()));
        match Vary::from_headers(headers) {
            Vary::On(names) => self.vary.extend(names),
            Vary::Unknown => self.forbid(UncachedReason::Varies),
        }
        self.unforced |= policy::keep(status, headers, personal, &FORCED, fetched) == Err(UncachedReason::Credentials);
        match policy::keep(status, headers, personal, &OURS, fetched) {
            // It may be kept for one client at its place, and the whole is for others, too.
            Err(reason @ (UncachedReason::Private | UncachedReason::Credentials)) => self.forbid(reason),
            // With its cookie it is kept only where that is written.
            Err(UncachedReason::Cookie) if kept.is_none() => self.forbid(UncachedReason::Cookie),
            _ => {}
        }
        let own = policy::keep(status, headers, personal, &FOR_ONE, fetched);
        let own = kept.map_or(own, |kept| Ok(*kept.terms));
        let silent = policy::says_nothing(headers) && !kept.is_some_and(|kept| kept.timed);
        match own {
            // What is guessed, or kept only to be validated, is no time that somebody has written.
            Ok(terms) if silent => self.add_silent(terms),
            Err(UncachedReason::NoLifetime) if silent => self.add_silent(ReuseTerms::stale(fetched.came)),
            Ok(terms) => self.add(terms),
            Err(UncachedReason::NoLifetime) => self.add(ReuseTerms::stale(fetched.came)),
            Err(reason) => self.forbid(reason),
        }
    }

    fn add(&mut self, terms: ReuseTerms) {
        self.terms = Some(self.terms.map_or(terms, |known| together(known, terms)));
    }

    fn add_silent(&mut self, terms: ReuseTerms) {
        self.silent = Some(self.silent.map_or(terms, |known| together(known, terms)));
    }

    fn forbid(&mut self, reason: UncachedReason) {
        if !self.forbidden.contains(&reason) {
            self.forbidden.push(reason);
        }
    }

    /// A private answer is kept if the key identifies the client, and a cookie where that is written. By force, also one
    /// with a fallback in the place of a part, or with a part that must not be kept, if it is for all.
    fn forbids(&self, lifetimes: &Lifetimes) -> Option<UncachedReason> {
        let for_all = lifetimes.private || self.personal == CredentialUse::default();
        let allowed = |reason: &UncachedReason| match reason {
            UncachedReason::Status | UncachedReason::NoStore => lifetimes.force.is_some() && for_all,
            UncachedReason::Private | UncachedReason::Credentials => lifetimes.private,
            UncachedReason::Cookie => lifetimes.private || lifetimes.cookies,
            _ => false,
        };
        let forced = (self.unforced && lifetimes.force.is_some()).then_some(&UncachedReason::Credentials);
        self.forbidden.iter().chain(forced).find(|reason| !allowed(reason)).copied()
    }

    fn whole(&self, status: StatusCode, lifetimes: &Lifetimes, now: Moment) -> Result<ReuseTerms, UncachedReason> {
        if let Some(reason) = self.forbids(lifetimes) {
            return Err(reason);
        }
        let failure = status.is_client_error() || status.is_server_error();
        let configured = if failure { lifetimes.negative } else { lifetimes.fallback };
        let fresh = |fresh: Duration| ReuseTerms {
            born: now,
            fresh,
            stale_while_revalidate: lifetimes.stale.unwrap_or_default(),
            stale_if_error: lifetimes.stale_if_error.unwrap_or_default(),
            stale_if_unreachable: lifetimes.stale_if_error.unwrap_or(policy::DISCONNECTED),
            ..ReuseTerms::default()
        };
        if let Some(force) = lifetimes.force.filter(|_| !failure) {
            return Ok(fresh(force));
        }
        let declared = self.terms.map(|terms| allow(terms, lifetimes));
        let other = match (self.silent, configured) {
            (Some(_), Some(own)) => Some(fresh(own)),
            (Some(guessed), None) => Some(allow(guessed, lifetimes)),
            (None, Some(own)) if declared.is_none() => Some(fresh(own)),
            (None, _) => None,
        };
        let Some(terms) = declared.into_iter().chain(other).reduce(together) else {
            return Err(UncachedReason::NoLifetime);
        };
        if failure && lifetimes.negative.is_none() {
            return Err(UncachedReason::Status);
        }
        // It is composed, so nothing can validate it.
        if terms.fresh.is_zero() || terms.always_validate { Err(UncachedReason::NoLifetime) } else { Ok(terms) }
    }
}

/// The terms with the lifetimes that the configuration allows beyond those of the parts.
fn allow(terms: ReuseTerms, lifetimes: &Lifetimes) -> ReuseTerms {
    if terms.must_revalidate {
        return terms;
    }
    ReuseTerms {
        stale_while_revalidate: lifetimes.stale.unwrap_or(terms.stale_while_revalidate),
        stale_if_error: lifetimes.stale_if_error.unwrap_or(terms.stale_if_error),
        stale_if_unreachable: lifetimes.stale_if_error.unwrap_or(terms.stale_if_unreachable),
        ..terms
    }
}

/// The terms of two parts together: as old as the older one, fresh as long as both are.
fn together(one: ReuseTerms, other: ReuseTerms) -> ReuseTerms {
    let born = one.born.min(other.born);
    let until = one.born.after(one.fresh).min(other.born.after(other.fresh));
    ReuseTerms {
        born,
        fresh: until.since(born),
        stale_while_revalidate: one.stale_while_revalidate.min(other.stale_while_revalidate),
        stale_if_error: one.stale_if_error.min(other.stale_if_error),
        stale_if_unreachable: one.stale_if_unreachable.min(other.stale_if_unreachable),
        always_validate: one.always_validate || other.always_validate,
        must_revalidate: one.must_revalidate || other.must_revalidate,
    }
}

#[cfg(test)]
mod tests {
    use super::super::composition::*;

    /// The fields of an answer made of parts: of those that say nothing, and of one with this `cache-control`.
    fn described(before: usize, control: Option<&'static str>, after: usize) -> HeaderMap {
        let parts = AnswerParts::new(false);
        let none = |count| (0..count).for_each(|_| assert!(parts.note_plain(&AnswerFields::default())));
        none(before);
        if let Some(control) = control {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static(control));
            let (headers, now) = (AnswerFields::from(headers), Moment::now());
            assert!(!parts.note_plain(&headers), "it says something");
            let asked = (CredentialUse::default(), &AskedWith::default());
            parts.note(StatusCode::OK, &headers, asked, None, FetchTimes { asked: now, came: now });
        }
        none(after);
        let mut answer = Answer::new(StatusCode::OK, AnswerFields::default(), AnswerBody::empty());
        parts.describe(&mut answer, &Dependence::default());
        answer.headers.into_map()
    }

    #[test]
    fn a_part_that_says_nothing_counts_whenever_it_comes() {
        let control = |before, told, after| described(before, Some(told), after).remove("cache-control");
        let is = |text| Some(http::HeaderValue::from_static(text));
        assert_eq!(control(0, "public, max-age=60", 0), is("public, max-age=60"));
        for (before, after) in [(1, 0), (0, 1), (1, 1), (3, 0), (0, 3), (5, 9)] {
            assert_eq!(control(before, "public, max-age=60", after), is("max-age=0"), "{before}, {after}");
            assert_eq!(control(before, "private, max-age=60", after), is("private, max-age=0"));
            assert_eq!(control(before, "no-store", after), is("no-store"));
        }
        assert!(described(4, None, 0).is_empty());
    }

    #[test]
    fn what_says_nothing_is_described_without_a_sum_as_with_one() {
        let names = ["content-type", "date", "etag", "link", "set-cookie", "x-accel-expires", "x-own"];
        for (count, chosen) in (1..4).flat_map(|count| (0..1_u32 << names.len()).map(move |chosen| (count, chosen))) {
            let fields = || {
                let fields = names.iter().enumerate().filter(|(at, _)| chosen & 1 << at != 0);
                let value = http::HeaderValue::from_static("x");
                AnswerFields::from(HeaderMap::from_iter(
                    fields.map(|(_, name)| (HeaderName::from_static(name), value.clone())),
                ))
            };
            let made = |summed: bool| {
                let parts = AnswerParts::new(false);
                (0..count).for_each(|_| assert!(parts.note_plain(&AnswerFields::default())));
                if summed {
                    drop(parts.sum());
                }
                let mut answer = Answer::new(StatusCode::OK, fields(), AnswerBody::empty());
                parts.describe(&mut answer, &Dependence::default());
                (answer.headers.into_map(), parts.sum.get().is_some())
            };
            let ((quick, asked), (slow, _)) = (made(false), made(true));
            assert_eq!(quick, slow, "{count}: {:?}", fields());
            assert_eq!(asked, chosen & 1 << 4 != 0);
        }
    }

    #[test]
    fn a_cache_is_told_of_every_part() {
        assert!(!AnswerParts::kept(false).note_plain(&AnswerFields::default()));
    }

    // Builds without the cache run it too.
    #[cfg(all(feature = "jq", feature = "yaml"))]
    #[tokio::test]
    async fn caches_downstream_are_told_of_every_part() {
        use std::convert::Infallible;
        use std::future::{Ready, ready};
        use std::task::{Context, Poll};

        use http::{Request, Response};

        use crate::{Body, Client};

        #[derive(Clone)]
        struct Shop;

        impl tower_service::Service<Request<Body>> for Shop {
            type Response = Response<Body>;
            type Error = Infallible;
            type Future = Ready<Result<Self::Response, Infallible>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request<Body>) -> Self::Future {
                let own = request.uri().path() == "/own";
                let control = if own { "private, max-age=600" } else { "public, max-age=60" };
                let answer = Response::builder().header("cache-control", control).header("vary", "accept");
                ready(Ok(answer.body(Body::from("{}")).unwrap()))
            }
        }

        let client = Client::builder().transport(Shop).build().unwrap();
        client.upstream("shop", "http://127.0.0.1:1/").unwrap();
        let text = "[ { requests: { own: shop /own, all: shop /all } }, { merge: '[$own, $all] | length' } ]";
        let response = client.read(text).unwrap().answer(Request::new(Body::empty()), &[]).await;
        assert_eq!(response.headers()["cache-control"], "private, max-age=60");
        assert_eq!(response.headers()["vary"], "accept");
        assert_eq!(response.into_body().text().await.unwrap(), "2");
    }
}
