//! The header fields that tell clients and the caches between them and the gateway how an answer may be kept: of an answer
//! that is made of several parts, and of one that the gateway keeps itself. `describe` makes all of them.

use std::sync::LazyLock;
use std::time::Duration;

use http::StatusCode;
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_LOCATION, DATE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, LINK, PRAGMA, SET_COOKIE, VARY, WARNING,
};

use super::dependence::Dependence;
use super::rules::control::{self, AnswerControl, CDN_CACHE_CONTROL};
use super::rules::policy::{self, ReuseTerms};
use super::rules::vary::Vary;
use super::said::{CombinedDirectives, TAGS};
use crate::http::date::Moment;
use crate::http::http1::{AnswerFields, NameSet};

/// How an answer was made.
#[derive(Clone, Copy, Debug)]
pub enum Assembly<'a> {
    /// By one server: its fields are about the whole. Or it was described already, as an answer of several parts.
    Alone,
    /// All parts have arrived.
    Whole(&'a CombinedDirectives),
    /// Some parts are still to come.
    Streaming(&'a CombinedDirectives),
    /// All parts have arrived, and the answer is stored on these terms.
    Kept(&'a CombinedDirectives, &'a ReuseTerms),
}

/// The fields of one part that are not those of the whole.
static OF_PARTS: LazyLock<NameSet> = LazyLock::new(|| {
    let named = [AGE, CACHE_CONTROL, CDN_CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_LOCATION, DATE, ETAG, EXPIRES];
    let more = [LAST_MODIFIED, LINK, PRAGMA, WARNING, HeaderName::from_static("cache-status")];
    NameSet::of(named.into_iter().chain(more).chain(TARGETED).chain(TAGS))
});

/// Fields for certain caches, which heed them more than `cache-control`.
const TARGETED: [HeaderName; 4] = [
    HeaderName::from_static("cloudflare-cdn-cache-control"),
    HeaderName::from_static("edge-control"),
    HeaderName::from_static("surrogate-control"),
    HeaderName::from_static("x-accel-expires"),
];

/// Directives that say something to shared caches.
const SHARING: [&str; 4] = ["private", "public", "s-maxage", "proxy-revalidate"];

/// Gives an answer the fields that say how it may be kept.
pub fn describe(
    status: StatusCode,
    headers: &mut HeaderMap,
    assembly: Assembly<'_>,
    dependence: &Dependence,
    now: Moment,
) {
    // A failure is not what the configuration has called public.
    let public = dependence.public.filter(|_| status.is_success());
    match assembly {
        Assembly::Alone => {
            if let (Some(fresh), true) = (public, policy::says_nothing(headers)) {
                set(headers, CACHE_CONTROL, &format!("public, max-age={}", fresh.as_secs()), dependence);
            }
        }
        Assembly::Whole(said) | Assembly::Streaming(said) | Assembly::Kept(said, _) if said.parts > 0 => {
            compose(headers, said, assembly, (dependence, public), now);
        }
        _ => {}
    }
    let cookie = !matches!(assembly, Assembly::Alone) && headers.contains_key(SET_COOKIE);
    // The upstream may call public what the gateway gives to those with a key alone: a cache in front asks for none.
    if dependence.is_personal() || cookie {
        restrict(headers, dependence);
    }
    if dependence.everything {
        headers.insert(VARY, HeaderValue::from_static("*"));
    } else {
        vary(headers, &dependence.fields);
    }
}

/// Removes the fields of one part that are not those of the whole.
pub fn strip(headers: &mut HeaderMap, dependence: &Dependence) {
    if !OF_PARTS.is_in(headers) {
        return;
    }
    for name in OF_PARTS.iter().filter(|name| !dependence.written.contains(name)) {
        headers.remove(name);
    }
}

/// Removes all of these fields, for a configuration that writes none of them.
pub(super) fn strip_all(headers: &mut AnswerFields) {
    headers.remove_all(&OF_PARTS);
}

/// Replaces the fields of one part by those of the whole.
fn compose(
    headers: &mut HeaderMap,
    said: &CombinedDirectives,
    assembly: Assembly<'_>,
    (dependence, public): (&Dependence, Option<Duration>),
    now: Moment,
) {
    let unnamed = said.unnamed.iter().any(|name| !dependence.names(name));
    // Without a list of the fields, nothing could name those that this request does not have.
    let unlisted = said.sends_all && !dependence.everything && !said.unknown;
    let private = said.private || unnamed || unlisted || dependence.is_personal();
    let (whole, terms) = match assembly {
        Assembly::Alone => return,
        Assembly::Whole(_) => (true, None),
        Assembly::Streaming(_) => (false, None),
        Assembly::Kept(_, terms) => (true, Some(terms)),
    };
    // A single part may have said more than can be added up.
    if said.parts == 1 && whole && terms.is_none() && OF_PARTS.is_in(headers) {
        if private {
            restrict(headers, dependence);
        }
        return vary(headers, &said.absent);
    }
    strip(headers, dependence);
    let control = match whole {
        true => whole_control(said, private, terms, public, now),
        false => Some(streaming_control(said, private, public)),
    };
    if let Some(control) = control {
        set(headers, CACHE_CONTROL, &control, dependence);
    }
    if whole {
        if let Some(modified) = said.modified {
            set(headers, LAST_MODIFIED, &modified.to_date(), dependence);
        }
        if let Some(language) = said.language.as_ref().filter(|_| !dependence.written.contains(&CONTENT_LANGUAGE)) {
            headers.insert(CONTENT_LANGUAGE, language.clone());
        }
        for (name, value) in said.tags.iter().filter(|(name, _)| !dependence.written.contains(name)) {
            headers.append(name, value.clone());
        }
    }
    match said.unknown {
        true => drop(headers.insert(VARY, HeaderValue::from_static("*"))),
        false => vary(headers, &said.vary),
    }
    vary(headers, &said.absent);
}

/// Sets a field, unless the configuration does.
fn set(headers: &mut HeaderMap, name: HeaderName, text: &str, dependence: &Dependence) {
    if let (false, Ok(value)) = (dependence.written.contains(&name), HeaderValue::from_str(text)) {
        headers.insert(name, value);
    }
}

/// The `Cache-Control` of an answer whose parts have all arrived: that of the strictest part.
fn whole_control(
    said: &CombinedDirectives,
    private: bool,
    terms: Option<&ReuseTerms>,
    public: Option<Duration>,
    now: Moment,
) -> Option<String> {
    let mut words = Vec::new();
    if said.no_store {
        words.push("no-store".to_owned());
    }
    if private {
        words.push("private".to_owned());
    } else if said.public || public.is_some() {
        words.push("public".to_owned());
    }
    // Ages are whole seconds, rounded down.
    let seconds = |until: Moment| until.since(now).as_millis().div_ceil(1000) as u64;
    let (times, stale) = match (terms, said.until, public) {
        _ if said.no_store => (None, false),
        _ if said.no_cache => {
            words.push("no-cache".to_owned());
            (None, said.must_revalidate)
        }
        // What is kept has an age. A cache like this one may keep parts for longer than others.
        (Some(terms), declared, _) => {
            let all = declared.map_or(terms.fresh, |(all, _)| all.since(terms.born).min(terms.fresh));
            (Some((all.as_secs(), terms.fresh.as_secs())), terms.must_revalidate)
        }
        (None, declared, Some(own)) => {
            let own = own.as_secs();
            let times = declared.map(|(all, shared)| (seconds(all).min(own), seconds(shared).min(own)));
            (Some(times.unwrap_or((own, own))), said.must_revalidate)
        }
        (None, Some((all, shared)), None) => {
            let guessed = said.guessed.map_or(u64::MAX, seconds);
            (Some((seconds(all).min(guessed), seconds(shared).min(guessed))), said.must_revalidate)
        }
        (None, None, None) => (None, said.must_revalidate),
    };
    if let Some((all, shared)) = times {
        words.push(format!("max-age={all}"));
        words.extend((shared != all && !private).then(|| format!("s-maxage={shared}")));
    }
    words.extend(stale.then(|| "must-revalidate".to_owned()));
    (!words.is_empty()).then(|| words.join(", "))
}

/// The `Cache-Control` of a head that leaves before all parts are known: the next part may be for one client.
fn streaming_control(said: &CombinedDirectives, private: bool, public: Option<Duration>) -> String {
    match public {
        Some(fresh) if !private && !said.no_store => format!("public, max-age={}", fresh.as_secs()),
        _ if said.no_store => "no-store, private".to_owned(),
        _ => "private, no-cache".to_owned(),
    }
}

/// Makes an answer one for its client alone, unless the configuration says what it is.
fn restrict(headers: &mut HeaderMap, dependence: &Dependence) {
    for name in TARGETED.iter().chain([&CDN_CACHE_CONTROL]).filter(|name| !dependence.written.contains(name)) {
        headers.remove(name);
    }
    if dependence.written.contains(&CACHE_CONTROL) {
        return;
    }
    let general = AnswerControl::general(headers);
    if general.private.is_whole() && !general.public {
        return;
    }
    let mut left = vec!["private".to_owned()];
    left.extend(control::without(headers, &SHARING));
    if let Ok(value) = HeaderValue::from_str(&left.join(", ")) {
        headers.insert(CACHE_CONTROL, value);
    }
}

/// Adds names to `vary`, in its one line: some caches look at no other.
fn vary(headers: &mut HeaderMap, names: &[HeaderName]) {
    if names.is_empty() {
        return;
    }
    let known = match Vary::from_headers(headers) {
        Vary::On(known) if names.iter().all(|name| known.contains(name)) => return,
        known => known,
    };
    let text = match known.and(names) {
        Vary::On(names) => names.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(", "),
        Vary::Unknown => "*".to_owned(),
    };
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(VARY, value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::said::AskedWith;
    use super::*;

    const NOW: Moment = Moment(1_700_000_000_000);

    fn fields(text: &str) -> AnswerFields {
        let mut headers = HeaderMap::new();
        for (name, value) in text.split('\n').filter_map(|line| line.split_once(':')) {
            let value = match value.trim().strip_prefix("now") {
                Some(offset) => {
                    Moment((1_700_000_000 + offset.parse::<i64>().expect("seconds")) as u64 * 1000).to_date()
                }
                None => value.trim().to_owned(),
            };
            let name = HeaderName::from_bytes(name.trim().as_bytes()).expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        headers.into()
    }

    fn said(parts: &[&str]) -> CombinedDirectives {
        let mut said = CombinedDirectives::default();
        parts.iter().for_each(|part| said.add(&fields(part), &AskedWith::default(), NOW));
        said
    }

    /// The fields of an answer, without the first part's own.
    fn told(headers: &HeaderMap) -> String {
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect();
        lines.sort();
        lines.join("\n")
    }

    fn whole(parts: &[&str], dependence: &Dependence) -> String {
        let mut headers = fields(parts[0]).into_map();
        describe(StatusCode::OK, &mut headers, Assembly::Whole(&said(parts)), dependence, NOW);
        told(&headers)
    }

    #[test]
    fn a_whole_says_what_its_strictest_part_says() {
        for (one, other, wanted) in [
            ("public, max-age=3600", "private, no-store", "no-store, private"),
            ("public, max-age=3600", "private, max-age=60", "private, max-age=60"),
            ("public, max-age=3600", "public, max-age=60", "public, max-age=60"),
            ("public, max-age=3600", "max-age=60", "max-age=60"),
            ("max-age=60", "no-cache", "no-cache"),
            ("max-age=60", "max-age=90, must-revalidate", "max-age=60, must-revalidate"),
            ("max-age=0, s-maxage=600", "max-age=60", "max-age=0, s-maxage=60"),
            ("s-maxage=600", "private, max-age=60", "private, max-age=0"),
            ("max-age=60, immutable, stale-while-revalidate=60", "max-age=70", "max-age=60"),
        ] {
            let (one, other) = (format!("cache-control: {one}"), format!("cache-control: {other}"));
            for parts in [[&*one, &*other], [&*other, &*one]] {
                assert_eq!(whole(&parts, &Dependence::default()), format!("cache-control: {wanted}"), "{parts:?}");
            }
        }
    }

    #[test]
    fn no_other_field_is_that_of_one_part() {
        let nothing = Dependence::default();
        for (one, other, wanted) in [
            // The rest of its time, by its age, its date or the date of its end.
            ("cache-control: max-age=60\nage: 20", "cache-control: max-age=600", "cache-control: max-age=40"),
            ("cache-control: max-age=60\ndate: now-50", "cache-control: max-age=600", "cache-control: max-age=10"),
            ("expires: now+30\ndate: now+0", "cache-control: max-age=600", "cache-control: max-age=30"),
            // What says nothing may be another one in a moment; what has a date may be guessed to last.
            ("cache-control: max-age=60", "x: y", "cache-control: max-age=0"),
            ("cache-control: max-age=60", "last-modified: now-100", "cache-control: max-age=10"),
            ("x: y", "x: z", "x: y"),
            ("last-modified: now-9", "last-modified: now-5", "last-modified: Tue, 14 Nov 2023 22:13:15 GMT"),
            ("last-modified: now-9", "x: y", ""),
            ("last-modified: now-9", "last-modified: now+9", ""),
            ("content-language: sv", "content-language: sv", "content-language: sv"),
            ("content-language: sv", "content-language: en", ""),
            ("content-language: sv", "x: y", ""),
            ("vary: accept", "vary: X-A, accept", "vary: accept, x-a"),
            ("vary: accept", "vary: *", "vary: *"),
            ("cache-tag: a", "cache-tag: b\nxkey: c", "cache-tag: a\ncache-tag: b\nxkey: c"),
            ("etag: \"a\"\nlink: </x>; rel=next\ncontent-location: /x\nage: 3", "x: y", ""),
            (
                "x-accel-expires: 3600\nsurrogate-control: max-age=9\ncdn-cache-control: max-age=9",
                "x: y",
                "cache-control: max-age=0",
            ),
            ("cdn-cache-control: no-store\ncache-control: max-age=9", "x: y", "cache-control: no-store"),
        ] {
            assert_eq!(whole(&[one, other], &nothing), wanted, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_single_part_keeps_its_fields_and_gets_what_is_missing() {
        let mut dependence = Dependence::default();
        let part = "cache-control: public, max-age=60, immutable\netag: \"a\"\nlink: </x>; rel=next\nvary: accept";
        assert_eq!(whole(&[part], &dependence), part);
        dependence.add_fields(&[HeaderName::from_static("x-a")]);
        assert!(whole(&[part], &dependence).ends_with("vary: accept, x-a"));
        dependence.personalise();
        assert!(whole(&[part], &dependence).starts_with("cache-control: private, max-age=60, immutable\n"));
        assert!(whole(&["x: y"], &dependence).starts_with("cache-control: private\n"));
    }

    #[test]
    fn what_was_asked_for_one_client_is_for_that_one() {
        let part = |asked: AskedWith, vary: &str, dependence: &Dependence| {
            let mut said = said(&["cache-control: public, max-age=60"]);
            said.add(&fields(&format!("cache-control: public, max-age=60\n{vary}")), &asked, NOW);
            let mut headers = HeaderMap::new();
            describe(StatusCode::OK, &mut headers, Assembly::Whole(&said), dependence, NOW);
            headers[CACHE_CONTROL].to_str().expect("text").to_owned()
        };
        let personal = AskedWith { personal: true, ..AskedWith::default() };
        let forwarded = || AskedWith { forwarded: vec![HeaderName::from_static("x-a")], personal: false };
        let mut named = Dependence::default();
        named.add_fields(&[HeaderName::from_static("x-a")]);
        let nothing = Dependence::default();
        assert_eq!(part(personal, "", &nothing), "private, max-age=60");
        assert_eq!(part(forwarded(), "", &nothing), "private, max-age=60");
        assert_eq!(part(forwarded(), "vary: x-a", &nothing), "public, max-age=60");
        assert_eq!(part(forwarded(), "", &named), "public, max-age=60");
        let mut checked = Dependence::default();
        checked.check();
        assert_eq!(part(AskedWith::default(), "", &checked), "private, max-age=60");
    }

    #[test]
    fn a_head_that_leaves_early_promises_nothing_unless_it_is_written() {
        let early = |parts: &[&str], dependence: &Dependence, status: StatusCode| {
            let mut headers = HeaderMap::new();
            describe(status, &mut headers, Assembly::Streaming(&said(parts)), dependence, NOW);
            headers[CACHE_CONTROL].to_str().expect("text").to_owned()
        };
        let (ok, mut public) = (StatusCode::OK, Dependence::default());
        assert_eq!(early(&["cache-control: public, max-age=60"], &public, ok), "private, no-cache");
        assert_eq!(early(&["cache-control: no-store"], &public, ok), "no-store, private");
        public.publish(Duration::from_secs(30));
        assert_eq!(early(&["x: y"], &public, ok), "public, max-age=30");
        assert_eq!(early(&["cache-control: private"], &public, ok), "private, no-cache");
        assert_eq!(early(&["x: y"], &public, StatusCode::BAD_GATEWAY), "private, no-cache");
        let known = |parts: &[&str]| whole(parts, &public);
        assert_eq!(known(&["x: y", "x: z"]), "cache-control: public, max-age=30\nx: y");
        assert_eq!(known(&["cache-control: max-age=5", "x: z"]), "cache-control: public, max-age=5");
    }

    #[test]
    fn what_the_configuration_sets_stands() {
        let mut written = Dependence::default();
        written.write(&[CACHE_CONTROL, LINK]);
        written.personalise();
        let own = "cache-control: max-age=9\nlink: </x>; rel=next";
        let mut headers = fields(own).into_map();
        describe(
            StatusCode::OK,
            &mut headers,
            Assembly::Whole(&said(&["x: y", "cache-control: no-store"])),
            &written,
            NOW,
        );
        assert_eq!(told(&headers), own);
    }

    #[test]
    fn an_answer_for_checked_credentials_is_for_one_client_whatever_it_says() {
        let mut checked = Dependence::default();
        checked.check();
        for (own, wanted) in [
            ("", "private"),
            ("max-age=60", "private, max-age=60"),
            ("max-age=60, private=\"x\"", "private, max-age=60"),
            ("private, max-age=60", "private, max-age=60"),
            ("public, max-age=60", "private, max-age=60"),
            ("s-maxage=60", "private"),
            ("max-age=60, must-revalidate", "private, max-age=60, must-revalidate"),
            ("no-store", "private, no-store"),
        ] {
            let mut headers = HeaderMap::new();
            if !own.is_empty() {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static(own));
            }
            describe(StatusCode::OK, &mut headers, Assembly::Alone, &checked, NOW);
            assert_eq!(headers[CACHE_CONTROL], wanted, "{own}");
        }
    }
}
