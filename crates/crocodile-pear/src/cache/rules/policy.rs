//! RFC 9111 as pure functions: whether an answer may be kept, how long it is fresh, whether it may be used for a request,
//! what a 304 changes, and what an unsafe request makes invalid.

use std::time::Duration;

use http::header::{
    AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED,
    SET_COOKIE,
};
use http::{Method, StatusCode};

use super::control::{AnswerControl, AnswerDates, RequestControl, Scoped};
use super::vary::Vary;
use crate::http::date::Moment;
use crate::message::answer::OF_BYTES;

/// The configured lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// How long an answer is fresh that does not declare it.
    pub fallback: Option<Duration>,
    /// How long every answer is fresh, whatever it declares.
    pub force: Option<Duration>,
    /// How long an answer with a cacheable error status is fresh, if it does not declare it.
    pub negative: Option<Duration>,
    /// How long a stale answer is given while a new one is fetched, if it does not declare it.
    pub stale: Option<Duration>,
    /// How long a stale answer is given if no new one can be fetched, if it does not declare it.
    pub stale_if_error: Option<Duration>,
    /// Whether private answers are kept, under a key that identifies the client.
    pub private: bool,
    /// Whether an answer is kept with the cookies that it sets, for all.
    pub cookies: bool,
}

impl Lifetimes {
    /// How long an answer with this status is fresh that does not declare it, if that is configured.
    pub fn configured(&self, status: StatusCode) -> Option<Duration> {
        let failure = status.is_client_error() || status.is_server_error();
        let own = if failure { self.negative } else { self.fallback };
        own.or(self.force.filter(|_| !failure))
    }

    /// The lifetimes of a cache without settings.
    pub const NONE: Lifetimes = Lifetimes {
        fallback: None,
        force: None,
        negative: None,
        stale: None,
        stale_if_error: None,
        private: false,
        cookies: false,
    };
}

/// Properties of a request that may make its answer personal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialUse {
    /// The client's `authorization` was sent.
    pub authorization: bool,
    /// A cookie of the client was sent.
    pub cookie: bool,
    /// The answer depends on the client's address, which is in no field of the client's request.
    pub address: bool,
}

/// Until when, and under which conditions, an answer may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReuseTerms {
    /// When it was made: its age is the time since.
    pub born: Moment,
    /// Up to which age it is fresh.
    pub fresh: Duration,
    /// How long after that it may be given while a new one is fetched.
    pub stale_while_revalidate: Duration,
    /// How long after that it may be given if fetching it fails with an error status.
    pub stale_if_error: Duration,
    /// How long after that it may be given if there is no answer at all.
    pub stale_if_unreachable: Duration,
    /// Whether each use must be validated (`no-cache`).
    pub always_validate: bool,
    /// Whether it must not be used stale.
    pub must_revalidate: bool,
}

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncachedReason {
    /// `no-store`
    NoStore,
    Private,
    /// The request had credentials, and the answer does not allow others to have it.
    Credentials,
    /// The answer sets a cookie and does not declare how long it is fresh.
    Cookie,
    /// `Vary: *`
    Varies,
    Status,
    /// The answer neither declares how long it is fresh nor has a validator.
    NoLifetime,
    /// The answer is larger than `max_size`.
    TooLarge,
    /// The answer is a stream of events, a tunnel, or has no end of its own for another reason.
    Endless,
    Method,
    /// Its tags are too many, or cannot be made.
    Tags,
}

impl UncachedReason {
    /// For `Cache-Status` and `explain`.
    pub fn word(self) -> &'static str {
        match self {
            UncachedReason::NoStore => "no-store",
            UncachedReason::Private => "private",
            UncachedReason::Credentials => "credentials",
            UncachedReason::Cookie => "set-cookie",
            UncachedReason::Varies => "vary",
            UncachedReason::Status => "status",
            UncachedReason::NoLifetime => "no-lifetime",
            UncachedReason::TooLarge => "too-large",
            UncachedReason::Endless => "stream",
            UncachedReason::Method => "method",
            UncachedReason::Tags => "tags",
        }
    }
}

/// When an answer was asked for, and when its head came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchTimes {
    pub asked: Moment,
    /// When its head came.
    pub came: Moment,
}

/// The use of a stored answer for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The answer is sent.
    Fresh,
    /// The stale answer is sent, because the client accepts it.
    Stale,
    /// The stale answer is sent, and a new one is fetched in the background.
    Revalidate,
    /// The answer must be validated before it is sent.
    Validate,
}

/// How long a stale answer is given if its upstream cannot be reached, unless configured or declared (RFC 9111,
/// 4.2.4).
pub const DISCONNECTED: Duration = Duration::from_secs(3600);

/// RFC 9111, 4.2.2: a tenth of the time since the last change, and no more than a day.
const MOST_HEURISTIC: Duration = Duration::from_secs(24 * 3600);

/// RFC 9110, 15.1, and 451 (RFC 7725).
const HEURISTIC: [u16; 13] = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 451, 501];

/// Whether this cache understands the status (RFC 9111, 5.2.2.3).
fn understands(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=206 | 300..=304 | 307 | 308 | 400..=417 | 421..=426 | 428 | 429 | 431 | 451 | 500..=511)
}

/// Whether an answer may be kept, and its terms (RFC 9111, 3).
///
/// # Errors
/// Why not.
pub fn keep(
    status: StatusCode,
    headers: &HeaderMap,
    personal: CredentialUse,
    lifetimes: &Lifetimes,
    fetched: FetchTimes,
) -> Result<ReuseTerms, UncachedReason> {
    let control = AnswerControl::from_headers(headers);
    // What cannot be understood is neither final nor known to be whole.
    if status.is_informational() || status == StatusCode::NOT_MODIFIED {
        return Err(UncachedReason::Status);
    }
    if personal.address || Vary::from_headers(headers) == Vary::Unknown {
        return Err(UncachedReason::Varies);
    }
    if control.private.is_whole() && !lifetimes.private {
        return Err(UncachedReason::Private);
    }
    // An answer to credentials that must not be kept is none to force.
    let forced = lifetimes.force.is_some() && (lifetimes.private || personal == CredentialUse::default());
    let overruled = control.must_understand && understands(status) || forced;
    if control.no_store && !overruled || control.must_understand && !understands(status) {
        return Err(UncachedReason::NoStore);
    }
    let times = AnswerDates::from_headers(headers);
    let explicit = explicit(&control, &times, fetched);
    check_personal(headers, &control, personal, lifetimes, explicit)?;
    let fresh = lifetime(status, &control, &times, lifetimes, explicit, fetched);
    let validates = headers.contains_key(ETAG) || times.modified.is_some();
    match fresh {
        None => return Err(UncachedReason::Status),
        // An answer that is stale at once is useless, unless it can be validated.
        Some(fresh) if fresh.is_zero() && !validates => return Err(UncachedReason::NoLifetime),
        Some(_) => {}
    }
    Ok(terms(&control, &times, lifetimes, fresh.unwrap_or_default(), fetched))
}

/// An answer to a request with credentials is shared only if it allows that (RFC 9111, 3.5 and 7.3), and one that sets a
/// cookie only where that is written. What the configuration overrules (`force`) allows nothing.
fn check_personal(
    headers: &HeaderMap,
    control: &AnswerControl,
    personal: CredentialUse,
    lifetimes: &Lifetimes,
    explicit: Option<Duration>,
) -> Result<(), UncachedReason> {
    if lifetimes.private {
        return Ok(());
    }
    if sets_cookie(headers) && !lifetimes.cookies {
        return Err(UncachedReason::Cookie);
    }
    // A lifetime that is ours is nothing that the answer allows.
    let explicit = explicit.filter(|_| lifetimes.force.is_none());
    let ours = explicit.is_none() && [lifetimes.force, lifetimes.fallback, lifetimes.negative] != [None; 3];
    let shared = control.public || !ours && (control.must_revalidate || control.s_maxage.is_some());
    if personal.authorization && !shared || personal.cookie && !control.public && explicit.is_none() {
        return Err(UncachedReason::Credentials);
    }
    Ok(())
}

/// Whether it sets a cookie that would be kept with it.
pub fn sets_cookie(headers: &HeaderMap) -> bool {
    let apart = |control: &AnswerControl| {
        let named = [&control.no_cache, &control.private].into_iter().flat_map(Scoped::fields);
        named.into_iter().any(|name| *name == SET_COOKIE)
    };
    headers.contains_key(SET_COOKIE) && !apart(&AnswerControl::from_headers(headers))
}

/// The lifetime that the answer declares (RFC 9111, 4.2.1).
fn explicit(control: &AnswerControl, times: &AnswerDates, fetched: FetchTimes) -> Option<Duration> {
    let expires = || times.expires.map(|expires| expires.since(times.date.unwrap_or(fetched.came)));
    control.s_maxage.or(control.max_age).or_else(|| if control.targeted { None } else { expires() })
}

/// How long it is fresh; `None` for a status that is kept only if the answer declares it, and it does not.
fn lifetime(
    status: StatusCode,
    control: &AnswerControl,
    times: &AnswerDates,
    lifetimes: &Lifetimes,
    explicit: Option<Duration>,
    fetched: FetchTimes,
) -> Option<Duration> {
    let heuristic = HEURISTIC.contains(&status.as_u16());
    let failure = status.is_client_error() || status.is_server_error();
    if let Some(force) = lifetimes.force.filter(|_| heuristic && !failure) {
        return Some(force);
    }
    if let Some(force) = lifetimes.force.and(lifetimes.negative).filter(|_| heuristic && failure) {
        return Some(force);
    }
    if explicit.is_some() {
        return explicit;
    }
    if !heuristic && !control.public {
        return None;
    }
    let configured = if failure { lifetimes.negative } else { lifetimes.fallback };
    if let Some(configured) = configured {
        return Some(configured);
    }
    // A page that its server tells browsers to validate is no better for us.
    Some(guess(times, fetched.came))
}

/// How long an answer may be guessed to be fresh (RFC 9111, 4.2.2).
pub(crate) fn guess(times: &AnswerDates, came: Moment) -> Duration {
    let date = times.date.unwrap_or(came);
    times.modified.map(|modified| (date.since(modified) / 10).min(MOST_HEURISTIC)).unwrap_or_default()
}

fn terms(
    control: &AnswerControl,
    times: &AnswerDates,
    lifetimes: &Lifetimes,
    fresh: Duration,
    fetched: FetchTimes,
) -> ReuseTerms {
    // RFC 9111, 4.2.3
    let apparent = times.date.map_or(Duration::ZERO, |date| fetched.came.since(date));
    let corrected = times.age + fetched.came.since(fetched.asked);
    // RFC 9111, 5.2.2.10: for a shared cache s-maxage has the meaning of proxy-revalidate.
    let must_revalidate = control.must_revalidate || control.proxy_revalidate || control.s_maxage.is_some();
    let must_revalidate = must_revalidate && lifetimes.force.is_none();
    let allowed = |own: Option<Duration>, other: Option<Duration>| match must_revalidate {
        true => Duration::ZERO,
        false => own.or(other).unwrap_or_default(),
    };
    let stale_if_error = allowed(control.stale_if_error, lifetimes.stale_if_error);
    ReuseTerms {
        born: fetched.came.before(apparent.max(corrected)),
        fresh,
        stale_while_revalidate: allowed(control.stale_while_revalidate, lifetimes.stale),
        stale_if_error,
        stale_if_unreachable: match control.stale_if_error.or(lifetimes.stale_if_error) {
            Some(_) => stale_if_error,
            None => allowed(None, Some(DISCONNECTED)),
        },
        always_validate: control.no_cache.is_whole() && lifetimes.force.is_none(),
        must_revalidate,
    }
}

impl ReuseTerms {
    /// The terms of an answer that arrived at this moment and is stale at once.
    pub fn stale(born: Moment) -> Self {
        ReuseTerms { born, ..ReuseTerms::default() }
    }

    /// How old it is.
    pub fn age(&self, now: Moment) -> Duration {
        now.since(self.born)
    }

    /// How much longer it is fresh.
    pub fn left(&self, now: Moment) -> Duration {
        self.fresh.saturating_sub(self.age(now))
    }

    /// How long it has been stale.
    pub fn staleness(&self, now: Moment) -> Duration {
        self.age(now).saturating_sub(self.fresh)
    }

    pub fn is_fresh(&self, now: Moment) -> bool {
        self.fresh > self.age(now)
    }

    /// The use of the stored answer for a request (RFC 9111, 4). `invalid`: an event has made it stale.
    pub fn decide(&self, asked: &RequestControl, invalid: bool, now: Moment) -> Use {
        let age = self.age(now);
        if self.always_validate || asked.no_cache || asked.max_age.is_some_and(|most| age > most) {
            return Use::Validate;
        }
        let least = asked.min_fresh.unwrap_or_default();
        if !invalid && self.is_fresh(now) && self.left(now) >= least {
            return Use::Fresh;
        }
        if self.must_revalidate || invalid || !least.is_zero() {
            return Use::Validate;
        }
        let stale = self.staleness(now);
        if !self.stale_while_revalidate.is_zero() && stale <= self.stale_while_revalidate {
            return Use::Revalidate;
        }
        match asked.max_stale {
            Some(most) if stale <= most => Use::Stale,
            _ => Use::Validate,
        }
    }

    /// Whether it may be given stale, now that the upstream has failed or not answered.
    pub fn covers(&self, failure: UpstreamFailure, now: Moment) -> bool {
        let most = match failure {
            UpstreamFailure::Status => self.stale_if_error,
            UpstreamFailure::Unreachable => self.stale_if_unreachable,
        };
        !self.always_validate && !self.must_revalidate && !most.is_zero() && self.staleness(now) <= most
    }
}

/// How an upstream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// The upstream answered with 500, 502, 503 or 504 (RFC 5861, 4).
    Status,
    /// The upstream gave no answer.
    Unreachable,
}

impl UpstreamFailure {
    pub fn from_status(status: StatusCode) -> Option<Self> {
        matches!(status.as_u16(), 500 | 502 | 503 | 504).then_some(UpstreamFailure::Status)
    }
}

/// The header fields that are kept (RFC 9111, 3.1).
pub fn kept(headers: &HeaderMap) -> HeaderMap {
    let control = AnswerControl::from_headers(headers);
    let mut kept = headers.clone();
    let named = [&control.no_cache, &control.private];
    for name in named.into_iter().flat_map(Scoped::fields).chain(&UNKEPT) {
        kept.remove(name);
    }
    kept
}

/// The header fields for one client, which are not kept. Those of the bytes are made anew for each answer.
pub fn unkept(headers: &HeaderMap) -> HeaderMap {
    let control = AnswerControl::from_headers(headers);
    let mut unkept = HeaderMap::new();
    let made = |name: &HeaderName| *name == CONTENT_RANGE || OF_BYTES.contains(name) || UNKEPT.contains(name);
    for name in [&control.no_cache, &control.private].into_iter().flat_map(Scoped::fields) {
        if made(name) || unkept.contains_key(name) {
            continue;
        }
        headers.get_all(name).iter().for_each(|value| {
            unkept.append(name, value.clone());
        });
    }
    unkept
}

/// Made for each answer, or for one connection.
const UNKEPT: [HeaderName; 8] = [
    AGE,
    HeaderName::from_static("cache-status"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("te"),
];

/// The header fields of a kept answer after a 304, or after the head of the same representation (RFC 9111, 3.2).
pub fn update(kept: &HeaderMap, new: &HeaderMap) -> HeaderMap {
    // They describe the kept bytes.
    let fixed = [CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE];
    let mut updated = kept.clone();
    let new = self::kept(new);
    for name in new.keys().filter(|name| !fixed.contains(name)) {
        updated.remove(name);
        new.get_all(name).iter().for_each(|value| {
            updated.append(name, value.clone());
        });
    }
    updated
}

/// Whether a 304 is for this kept answer (RFC 9111, 4.3.4).
pub fn confirms(kept: &HeaderMap, new: &HeaderMap) -> bool {
    match (new.get(ETAG), kept.get(ETAG)) {
        (Some(new), Some(kept)) => opaque(new.as_bytes()) == opaque(kept.as_bytes()),
        // A kept answer that has none was asked for by its date.
        (Some(_), None) | (None, _) => match (new.get(LAST_MODIFIED), kept.get(LAST_MODIFIED)) {
            (Some(new), Some(kept)) => new == kept,
            _ => true,
        },
    }
}

/// An entity tag without its weakness.
pub fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether a request of this method is safe: others make invalid what is kept of their URL (RFC 9110, 9.2.1).
pub fn is_safe(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY" | "PROPFIND" | "REPORT" | "SEARCH")
}

/// Whether an unsafe request was successful by its answer (RFC 9111, 4.4).
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    !is_safe(method) && (status.is_success() || status.is_redirection())
}

/// Whether waiting requests may share an answer though it is not kept: it is a failure, and not personal. Its `Vary` counts besides.
pub fn is_shared_failure(status: StatusCode, headers: &HeaderMap) -> bool {
    let control = AnswerControl::from_headers(headers);
    let personal = control.no_store || control.private != Scoped::Absent || headers.contains_key(SET_COOKIE);
    UpstreamFailure::from_status(status).is_some() && !personal
}

/// Whether it declares nothing about caching.
pub fn says_nothing(headers: &HeaderMap) -> bool {
    !headers.contains_key(CACHE_CONTROL) && !headers.contains_key(http::header::EXPIRES)
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::policy::*;

    const NOW: Moment = Moment(1_700_000_000_000);

    fn headers(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = match value.trim().strip_prefix("now") {
                Some(offset) => {
                    let offset: i64 = offset.parse().unwrap_or(0);
                    Moment::of_seconds((1_700_000_000 + offset) as u64).to_date()
                }
                None => value.trim().to_owned(),
            };
            let name = HeaderName::from_bytes(name.trim().as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(&value).expect("a value"));
        }
        headers
    }

    fn kept(status: u16, text: &str, personal: CredentialUse, lifetimes: &Lifetimes) -> Result<u64, UncachedReason> {
        let status = StatusCode::from_u16(status).expect("a status");
        let fetched = FetchTimes { asked: NOW, came: NOW };
        keep(status, &headers(text), personal, lifetimes, fetched).map(|terms| terms.left(NOW).as_secs())
    }

    #[test]
    fn an_answer_is_kept_as_it_says() {
        use UncachedReason::{NoLifetime, NoStore, Private, Status, Varies};
        for (status, text, wanted) in [
            (200, "cache-control: max-age=60", Ok(60)),
            (200, "cache-control: max-age=60\nage: 20", Ok(40)),
            (200, "cache-control: max-age=60\ndate: now-30", Ok(30)),
            (200, "cache-control: max-age=60\nexpires: now-9", Ok(60)),
            (200, "cache-control: max-age=9, s-maxage=60", Ok(60)),
            (200, "cache-control: max-age=60, s-maxage=9", Ok(9)),
            (200, "expires: now+60\ndate: now", Ok(60)),
            (200, "expires: now+60\ndate: now+30", Ok(30)),
            (200, "expires: 0", Err(NoLifetime)),
            (200, "expires: 0\netag: x", Ok(0)),
            (200, "last-modified: now-1000\ndate: now", Ok(100)),
            (200, "last-modified: now-9000000\ndate: now", Ok(86_400)),
            (200, "", Err(NoLifetime)),
            (200, "etag: x", Ok(0)),
            (403, "last-modified: now-1000", Err(Status)),
            (403, "cache-control: max-age=60", Ok(60)),
            (599, "last-modified: now-1000\ncache-control: public", Ok(100)),
            (599, "cache-control: max-age=60", Ok(60)),
            (599, "cache-control: max-age=60, no-store, must-understand", Err(NoStore)),
            (200, "cache-control: max-age=60, no-store, must-understand", Ok(60)),
            (200, "cache-control: max-age=60, no-store", Err(NoStore)),
            (200, "cache-control: max-age=60, private", Err(Private)),
            (200, "cache-control: max-age=60, private=foo", Ok(60)),
            (200, "cache-control: max-age=60\nvary: *", Err(Varies)),
            (200, "cache-control: no-store\ncdn-cache-control: max-age=60", Ok(60)),
            (200, "cache-control: max-age=60\ncdn-cache-control: no-store", Err(NoStore)),
            (200, "expires: now+60\ncdn-cache-control: foo", Err(NoLifetime)),
            (200, "set-cookie: a=b\ncache-control: max-age=60", Err(UncachedReason::Cookie)),
            (200, "set-cookie: a=b\ncache-control: s-maxage=60, public", Err(UncachedReason::Cookie)),
            (200, "set-cookie: a=b\nexpires: now+60", Err(UncachedReason::Cookie)),
            (200, "set-cookie: a=b\ncache-control: max-age=60, no-cache=\"set-cookie\"", Ok(60)),
            (200, "set-cookie: a=b\ncache-control: max-age=60, private=\"x, Set-Cookie\"", Ok(60)),
            (200, "set-cookie: a=b\nlast-modified: now-1000", Err(UncachedReason::Cookie)),
            (304, "cache-control: max-age=60", Err(Status)),
        ] {
            let found = kept(status, text, CredentialUse::default(), &Lifetimes::default());
            assert_eq!(found, wanted, "{status} {text}");
        }
    }

    #[test]
    fn what_was_made_for_credentials_is_kept_only_if_it_says_so() {
        let authorized = CredentialUse { authorization: true, ..CredentialUse::default() };
        for (text, wanted) in [
            ("cache-control: max-age=60", Err(UncachedReason::Credentials)),
            ("cache-control: max-age=60, public", Ok(60)),
            ("cache-control: max-age=60, must-revalidate", Ok(60)),
            ("cache-control: s-maxage=60", Ok(60)),
        ] {
            assert_eq!(kept(200, text, authorized, &Lifetimes::default()), wanted, "{text}");
        }
        let cookie = CredentialUse { cookie: true, ..CredentialUse::default() };
        let own = Lifetimes { fallback: Some(Duration::from_secs(30)), ..Lifetimes::default() };
        assert_eq!(kept(200, "", cookie, &own), Err(UncachedReason::Credentials));
        assert_eq!(kept(200, "cache-control: max-age=60", cookie, &own), Ok(60));
        // A lifetime of the configuration is none that the answer declares.
        for (text, wanted) in [
            ("cache-control: must-revalidate", Err(UncachedReason::Credentials)),
            ("cache-control: max-age=60, must-revalidate", Ok(60)),
            ("cache-control: public", Ok(30)),
            ("cache-control: s-maxage=60", Ok(60)),
        ] {
            assert_eq!(kept(200, text, authorized, &own), wanted, "{text}");
        }
        let keyed = Lifetimes { private: true, ..own };
        assert_eq!(kept(200, "", authorized, &keyed), Ok(30));
        assert_eq!(kept(200, "cache-control: private, max-age=60", authorized, &keyed), Ok(60));
    }

    #[test]
    fn the_configuration_fills_in_and_overrules() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let fills = Lifetimes { fallback: seconds(30), negative: seconds(5), ..Lifetimes::default() };
        for (status, text, wanted) in [
            (200, "", Ok(30)),
            (200, "cache-control: max-age=60", Ok(60)),
            (200, "cache-control: no-store", Err(UncachedReason::NoStore)),
            (404, "", Ok(5)),
            (403, "", Err(UncachedReason::Status)),
            (200, "set-cookie: a=b", Err(UncachedReason::Cookie)),
        ] {
            assert_eq!(kept(status, text, CredentialUse::default(), &fills), wanted, "{status} {text}");
        }
        let forces = Lifetimes { force: seconds(30), ..Lifetimes::default() };
        for (text, wanted) in [
            ("cache-control: no-store", Ok(30)),
            ("cache-control: max-age=60, no-cache", Ok(30)),
            ("cache-control: private", Err(UncachedReason::Private)),
            ("set-cookie: a=b", Err(UncachedReason::Cookie)),
        ] {
            assert_eq!(kept(200, text, CredentialUse::default(), &forces), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_personal_is_not_overruled() {
        let seconds = Some(Duration::from_secs(30));
        let forces = Lifetimes { force: seconds, ..Lifetimes::default() };
        let authorized = CredentialUse { authorization: true, ..CredentialUse::default() };
        let cookie = CredentialUse { cookie: true, ..CredentialUse::default() };
        for personal in [authorized, cookie] {
            for (text, wanted) in [
                ("", Err(UncachedReason::Credentials)),
                ("cache-control: max-age=60", Err(UncachedReason::Credentials)),
                ("cache-control: s-maxage=60", Err(UncachedReason::Credentials)),
                ("cache-control: max-age=60, must-revalidate", Err(UncachedReason::Credentials)),
                ("expires: now+60", Err(UncachedReason::Credentials)),
                ("cache-control: no-store", Err(UncachedReason::NoStore)),
                ("cache-control: public, no-store", Err(UncachedReason::NoStore)),
                ("cache-control: private", Err(UncachedReason::Private)),
                ("cache-control: public, max-age=1", Ok(30)),
                ("cache-control: public\nset-cookie: a=b", Err(UncachedReason::Cookie)),
            ] {
                assert_eq!(kept(200, text, personal, &forces), wanted, "{text} {personal:?}");
            }
            let keyed = Lifetimes { private: true, ..forces };
            for text in ["", "cache-control: no-store", "cache-control: private", "set-cookie: a=b"] {
                assert_eq!(kept(200, text, personal, &keyed), Ok(30), "{text}");
            }
        }
        let with_cookies = Lifetimes { cookies: true, ..forces };
        assert_eq!(kept(200, "set-cookie: a=b", CredentialUse::default(), &with_cookies), Ok(30));
        assert_eq!(kept(200, "set-cookie: a=b", cookie, &with_cookies), Err(UncachedReason::Credentials));
        let addressed = CredentialUse { address: true, ..CredentialUse::default() };
        assert_eq!(kept(200, "", addressed, &Lifetimes { private: true, ..forces }), Err(UncachedReason::Varies));
    }

    #[test]
    fn what_is_kept_is_used_as_it_says_and_as_the_request_takes_it() {
        let used = |answer: &str, age: u64, request: &str, invalid| {
            let fetched = FetchTimes { asked: NOW, came: NOW };
            let terms =
                keep(StatusCode::OK, &headers(answer), CredentialUse::default(), &Lifetimes::default(), fetched);
            let asked = RequestControl::from_headers(&headers(request));
            terms.expect("it is kept").decide(&asked, invalid, NOW.after(Duration::from_secs(age)))
        };
        for (answer, age, request, wanted) in [
            ("cache-control: max-age=60", 59, "", Use::Fresh),
            ("cache-control: max-age=60", 60, "", Use::Validate),
            ("cache-control: max-age=60, no-cache", 1, "", Use::Validate),
            ("cache-control: max-age=60", 1, "cache-control: no-cache", Use::Validate),
            ("cache-control: max-age=60", 1, "pragma: no-cache", Use::Validate),
            ("cache-control: max-age=60", 9, "cache-control: max-age=5", Use::Validate),
            ("cache-control: max-age=60", 9, "cache-control: min-fresh=55", Use::Validate),
            ("cache-control: max-age=60", 9, "cache-control: min-fresh=50", Use::Fresh),
            ("cache-control: max-age=60", 70, "cache-control: max-stale", Use::Stale),
            ("cache-control: max-age=60", 70, "cache-control: max-stale=5", Use::Validate),
            ("cache-control: max-age=60, must-revalidate", 70, "cache-control: max-stale", Use::Validate),
            ("cache-control: s-maxage=60", 70, "cache-control: max-stale", Use::Validate),
            ("cache-control: max-age=60, stale-while-revalidate=9", 65, "", Use::Revalidate),
            ("cache-control: max-age=60, stale-while-revalidate=9", 70, "", Use::Validate),
        ] {
            assert_eq!(used(answer, age, request, false), wanted, "{answer} {age} {request}");
        }
        assert_eq!(used("cache-control: max-age=60, stale-while-revalidate=9", 1, "", true), Use::Validate);
    }

    #[test]
    fn a_stale_answer_is_given_for_a_failure_as_it_says() {
        let covers = |answer: &str, failure| {
            let fetched = FetchTimes { asked: NOW, came: NOW };
            let terms =
                keep(StatusCode::OK, &headers(answer), CredentialUse::default(), &Lifetimes::default(), fetched);
            terms.expect("it is kept").covers(failure, NOW.after(Duration::from_secs(70)))
        };
        for (answer, status, unreachable) in [
            ("cache-control: max-age=60", false, true),
            ("cache-control: max-age=60, stale-if-error=60", true, true),
            ("cache-control: max-age=60, stale-if-error=5", false, false),
            ("cache-control: max-age=60, must-revalidate, stale-if-error=60", false, false),
            ("cache-control: max-age=60, proxy-revalidate", false, false),
            ("cache-control: s-maxage=60", false, false),
            ("cache-control: max-age=60, no-cache", false, false),
        ] {
            let found = (covers(answer, UpstreamFailure::Status), covers(answer, UpstreamFailure::Unreachable));
            assert_eq!(found, (status, unreachable), "{answer}");
        }
    }

    #[test]
    fn a_304_changes_all_fields_but_those_of_the_bytes() {
        let kept = headers("a: 1\nb: 1\ncontent-length: 10\ncontent-encoding: gzip\netag: \"x\"");
        let new = headers("a: 2\na: 3\ncontent-length: 0\nage: 7\ncontent-encoding: br");
        assert_eq!(
            update(&kept, &new),
            headers("a: 2\na: 3\nb: 1\ncontent-length: 10\ncontent-encoding: gzip\netag: \"x\"")
        );
        assert!(confirms(&kept, &headers("etag: W/\"x\"")) && confirms(&kept, &headers("")));
        assert!(!confirms(&kept, &headers("etag: \"y\"")));
    }

    #[test]
    fn unsafe_requests_that_were_done_make_invalid() {
        let post = Method::POST;
        assert!(invalidates(&post, StatusCode::OK) && invalidates(&post, StatusCode::SEE_OTHER));
        assert!(!invalidates(&post, StatusCode::INTERNAL_SERVER_ERROR) && !invalidates(&Method::GET, StatusCode::OK));
        assert!(invalidates(&Method::from_bytes(b"FOO").expect("a method"), StatusCode::OK));
    }
}
