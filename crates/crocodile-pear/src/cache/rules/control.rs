//! Cache directives of requests and answers: `Cache-Control`, `CDN-Cache-Control`, `Pragma`, `Expires`, `Age` and
//! `Date`, parsed once into types.

use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL, DATE, EXPIRES, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, PRAGMA};

use crate::http::date::{self, Moment};
use crate::http::list;

/// `cdn-cache-control` (RFC 9213): `cache-control` for caches like this one.
pub const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// RFC 9111, 1.2.2: what is more counts as this.
const MOST_SECONDS: u64 = 1 << 31;

/// The directives of `cache-control` that do not have these names, as they came.
pub fn without(headers: &HeaderMap, names: &[&str]) -> Vec<String> {
    let mut left = Vec::new();
    for value in headers.get_all(CACHE_CONTROL) {
        let mut rest = value.as_bytes();
        while !rest.is_empty() {
            let (element, after) = split_element(rest);
            rest = after;
            let element = String::from_utf8_lossy(element.trim_ascii()).into_owned();
            let name = element.split('=').next().unwrap_or_default().trim_end();
            if !name.is_empty() && !names.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                left.push(element);
            }
        }
    }
    left
}

/// A directive without fields, with fields, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scoped {
    /// The directive is absent.
    #[default]
    Absent,
    /// The directive names these fields.
    Fields(Vec<HeaderName>),
    /// The directive holds for the whole answer.
    Whole,
}

impl Scoped {
    /// Whether it holds for the whole answer.
    pub fn is_whole(&self) -> bool {
        *self == Scoped::Whole
    }

    pub fn fields(&self) -> &[HeaderName] {
        match self {
            Scoped::Fields(names) => names,
            _ => &[],
        }
    }

    /// The wider one of two.
    fn max(self, other: Scoped) -> Self {
        match (self, other) {
            (Scoped::Whole, _) | (_, Scoped::Whole) => Scoped::Whole,
            (Scoped::Fields(mut names), Scoped::Fields(more)) => {
                names.extend(more);
                Scoped::Fields(names)
            }
            (Scoped::Absent, other) => other,
            (known, Scoped::Absent) => known,
        }
    }

    fn set(&mut self, value: Option<&str>) {
        let names = value.into_iter().flat_map(list::texts);
        let names: Option<Vec<_>> = names.map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect();
        match (names, std::mem::take(self)) {
            (Some(names), Scoped::Absent) if !names.is_empty() => *self = Scoped::Fields(names),
            (Some(names), Scoped::Fields(mut before)) if !names.is_empty() => {
                before.extend(names);
                *self = Scoped::Fields(before);
            }
            // Without fields it holds for all, and what cannot be read as names does so, too.
            _ => *self = Scoped::Whole,
        }
    }
}

/// The directives of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the directives of RFC 9111, 5.2.2, and RFC 5861")]
pub struct AnswerControl {
    pub no_store: bool,
    pub no_cache: Scoped,
    pub private: Scoped,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub immutable: bool,
    /// Whether they are for caches like this one: then `expires` is ignored.
    pub targeted: bool,
    pub max_age: Option<Duration>,
    pub s_maxage: Option<Duration>,
    pub stale_while_revalidate: Option<Duration>,
    pub stale_if_error: Option<Duration>,
}

/// The directives of a request (RFC 9111, 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the directives")]
pub struct RequestControl {
    pub no_store: bool,
    pub no_cache: bool,
    pub only_if_cached: bool,
    pub max_age: Option<Duration>,
    pub min_fresh: Option<Duration>,
    /// Without a number any answer that is stale will do.
    pub max_stale: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerDates {
    pub date: Option<Moment>,
    /// When it is stale. One that cannot be read is past.
    pub expires: Option<Moment>,
    /// How old it was when it came.
    pub age: Duration,
    /// When it was changed last.
    pub modified: Option<Moment>,
}

impl RequestControl {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut control = RequestControl::default();
        for (name, value) in headers.get_all(CACHE_CONTROL).iter().flat_map(Directives::parse) {
            let seconds = || value.as_deref().and_then(seconds);
            match name.as_str() {
                "no-store" => control.no_store = true,
                "no-cache" => control.no_cache = true,
                "only-if-cached" => control.only_if_cached = true,
                "max-age" => control.max_age = seconds(),
                "min-fresh" => control.min_fresh = seconds(),
                "max-stale" if value.is_none() => control.max_stale = Some(Duration::from_secs(MOST_SECONDS)),
                "max-stale" => control.max_stale = seconds(),
                _ => {}
            }
        }
        // RFC 9111, 5.4: for clients without `cache-control`.
        if !headers.contains_key(CACHE_CONTROL) {
            let pragmas = headers.get_all(PRAGMA).iter().flat_map(Directives::parse);
            control.no_cache = pragmas.into_iter().any(|(name, _)| name == "no-cache");
        }
        control
    }
}

impl AnswerControl {
    /// Reads them: those for caches like this one, if there are some, otherwise those for all.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        match targeted(headers) {
            Some(control) => control,
            None => AnswerControl::general(headers),
        }
    }

    /// The directives for all caches together with those for caches like this one: the stricter of both.
    pub fn all(headers: &HeaderMap) -> Self {
        let mut control = AnswerControl::general(headers);
        let Some(own) = targeted(headers) else { return control };
        let least = |one: Option<Duration>, other: Option<Duration>| one.into_iter().chain(other).min();
        control.no_store |= own.no_store;
        control.no_cache = control.no_cache.max(own.no_cache);
        control.private = control.private.max(own.private);
        control.must_revalidate |= own.must_revalidate;
        control.public &= own.public;
        control.s_maxage = least(control.s_maxage, own.s_maxage.or(own.max_age));
        control
    }

    /// The directives for all caches.
    pub fn general(headers: &HeaderMap) -> Self {
        let mut control = AnswerControl::default();
        for (name, value) in headers.get_all(CACHE_CONTROL).iter().flat_map(Directives::parse) {
            // RFC 9111, 4.2.1: of several the shortest counts, and one that cannot be parsed counts as absent.
            let least = |known: Option<Duration>| {
                let new = value.as_deref().and_then(seconds).unwrap_or_default();
                Some(known.map_or(new, |known| known.min(new)))
            };
            match name.as_str() {
                "no-cache" => control.no_cache.set(value.as_deref()),
                "private" => control.private.set(value.as_deref()),
                "max-age" => control.max_age = least(control.max_age),
                "s-maxage" => control.s_maxage = least(control.s_maxage),
                "stale-while-revalidate" => control.stale_while_revalidate = least(control.stale_while_revalidate),
                "stale-if-error" => control.stale_if_error = least(control.stale_if_error),
                name => control.flag(name),
            }
        }
        control
    }

    fn flag(&mut self, name: &str) {
        match name {
            "no-store" => self.no_store = true,
            "public" => self.public = true,
            "must-revalidate" => self.must_revalidate = true,
            "proxy-revalidate" => self.proxy_revalidate = true,
            "must-understand" => self.must_understand = true,
            "immutable" => self.immutable = true,
            _ => {}
        }
    }
}

/// RFC 9213, 2.1: a structured field. One that is empty or cannot be read is not there.
fn targeted(headers: &HeaderMap) -> Option<AnswerControl> {
    let mut values = headers.get_all(CDN_CACHE_CONTROL).iter();
    let first = values.next()?;
    let lines = std::iter::once(first).chain(values).map(|value| value.to_str().ok());
    let text = lines.collect::<Option<Vec<_>>>()?.join(", ");
    let entries = structured::dictionary(&text).filter(|entries| !entries.is_empty())?;
    let mut control = AnswerControl { targeted: true, ..AnswerControl::default() };
    for (name, value) in &entries {
        use structured::BareItem::{Flag, Integer, Text, Token};
        let time = match value {
            Integer(seconds) => Some(Duration::from_secs(u64::try_from(*seconds).unwrap_or(0).min(MOST_SECONDS))),
            _ => None,
        };
        match (name.as_str(), value) {
            ("no-cache", Text(fields) | Token(fields)) => control.no_cache.set(Some(fields)),
            ("private", Text(fields) | Token(fields)) => control.private.set(Some(fields)),
            ("no-cache", Flag(true)) => control.no_cache.set(None),
            ("private", Flag(true)) => control.private.set(None),
            // A wrong type counts as if the directive were absent (RFC 9213, 2.1), and then nothing declares it
            // fresh.
            ("max-age", _) => control.max_age = Some(time?),
            ("s-maxage", _) => control.s_maxage = Some(time?),
            ("stale-while-revalidate", _) => control.stale_while_revalidate = time,
            ("stale-if-error", _) => control.stale_if_error = time,
            (name, Flag(true)) => control.flag(name),
            _ => {}
        }
    }
    Some(control)
}

impl AnswerDates {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        AnswerDates {
            date: single(headers, &DATE).and_then(|date| date::parse(date.as_bytes())),
            expires: expires(headers),
            age: age(headers),
            modified: single(headers, &LAST_MODIFIED).and_then(|date| date::parse(date.as_bytes())),
        }
    }
}

/// The value of a field that is there once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn expires(headers: &HeaderMap) -> Option<Moment> {
    headers.contains_key(EXPIRES).then(|| {
        let date = single(headers, &EXPIRES).and_then(|date| date::parse(date.as_bytes()));
        date.unwrap_or_default()
    })
}

/// RFC 9111, 5.1: the first of several; `None` if it is not a number.
fn age(headers: &HeaderMap) -> Duration {
    let first = headers.get(AGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = first.split(',').next().unwrap_or_default().trim();
    seconds(first).unwrap_or_default()
}

/// RFC 9111, 1.2.2
fn seconds(text: &str) -> Option<Duration> {
    let sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // What overflows is more than the most.
    sound.then(|| Duration::from_secs(text.parse::<u64>().unwrap_or(MOST_SECONDS).min(MOST_SECONDS)))
}

/// The directives of one line: names in lower case, values without their quotes.
struct Directives<'a> {
    rest: &'a [u8],
}

impl<'a> Directives<'a> {
    fn parse(value: &'a HeaderValue) -> Self {
        Directives { rest: value.as_bytes() }
    }
}

impl Iterator for Directives<'_> {
    type Item = (String, Option<String>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.rest.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'))?;
            let (element, rest) = split_element(&self.rest[start..]);
            self.rest = rest;
            let element = String::from_utf8_lossy(element.trim_ascii()).into_owned();
            let (name, value) = match element.split_once('=') {
                Some((name, value)) => (name, Some(unquote(value))),
                None => (element.as_str(), None),
            };
            // A name with a space is not valid. Its time counts as 0, so that the answer cannot be fresh.
            let value = if name.ends_with([' ', '\t']) { value.map(|_| String::new()) } else { value };
            let name = name.trim_end().to_ascii_lowercase();
            if !name.is_empty() {
                return Some((name, value));
            }
        }
    }
}

/// Up to the first comma outside quotes.
fn split_element(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

fn unquote(value: &str) -> String {
    match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(quoted) => quoted.replace('\\', ""),
        None => value.to_owned(),
    }
}

/// Structured fields (RFC 9651), as far as `cdn-cache-control` goes: a dictionary of items.
mod structured {
    /// A bare item (RFC 9651, 3.3), or that there is a list.
    #[derive(Debug, PartialEq)]
    pub(super) enum BareItem {
        Integer(i64),
        Decimal,
        Text(String),
        Token(String),
        Bytes,
        Flag(bool),
        List,
    }

    pub(super) fn dictionary(text: &str) -> Option<Vec<(String, BareItem)>> {
        let mut entries: Vec<(String, BareItem)> = Vec::new();
        let mut rest = text.trim_matches(' ');
        while !rest.is_empty() {
            let (name, after) = key(rest)?;
            let (value, after) = match after.strip_prefix('=') {
                Some(value) if value.starts_with('(') => list(value)?,
                Some(value) => item(value)?,
                None => (BareItem::Flag(true), after),
            };
            let after = parameters(after)?.trim_start_matches([' ', '\t']);
            entries.retain(|(known, _)| known != name);
            entries.push((name.to_owned(), value));
            rest = match after.strip_prefix(',') {
                Some(next) => Some(next.trim_start_matches([' ', '\t'])).filter(|next| !next.is_empty())?,
                None if after.is_empty() => after,
                None => return None,
            };
        }
        Some(entries)
    }

    fn key(text: &str) -> Option<(&str, &str)> {
        let may =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*');
        let end = text.bytes().position(|byte| !may(byte)).unwrap_or(text.len());
        let first = text.bytes().next().filter(|byte| byte.is_ascii_lowercase() || *byte == b'*');
        first.map(|_| text.split_at(end))
    }

    fn item(text: &str) -> Option<(BareItem, &str)> {
        match text.bytes().next()? {
            b'-' | b'0'..=b'9' => number(text),
            b'"' => string(text),
            b'?' => match text.get(..2)? {
                "?1" => Some((BareItem::Flag(true), &text[2..])),
                "?0" => Some((BareItem::Flag(false), &text[2..])),
                _ => None,
            },
            b':' => text[1..].split_once(':').map(|(_, rest)| (BareItem::Bytes, rest)),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                let may = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
                let end = text.bytes().position(|byte| !may(byte)).unwrap_or(text.len());
                Some((BareItem::Token(text[..end].to_owned()), &text[end..]))
            }
            _ => None,
        }
    }

    fn number(text: &str) -> Option<(BareItem, &str)> {
        let sign = usize::from(text.starts_with('-'));
        let end = text[sign..].bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.');
        let (number, rest) = text.split_at(end.map_or(text.len(), |end| end + sign));
        match number[sign..].split_once('.') {
            Some((whole, part)) => {
                let sound = (1..=12).contains(&whole.len()) && (1..=3).contains(&part.len()) && !part.contains('.');
                sound.then_some((BareItem::Decimal, rest))
            }
            None => number
                .parse()
                .ok()
                .filter(|_| number.len() - sign <= 15)
                .map(|number| (BareItem::Integer(number), rest)),
        }
    }

    fn string(text: &str) -> Option<(BareItem, &str)> {
        let (mut found, mut characters) = (String::new(), text.char_indices().skip(1));
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return Some((BareItem::Text(found), &text[at + 1..])),
                '\\' => found.push(characters.next().map(|(_, next)| next).filter(|next| matches!(next, '"' | '\\'))?),
                ' '..='~' => found.push(character),
                _ => return None,
            }
        }
        None
    }

    fn list(text: &str) -> Option<(BareItem, &str)> {
        let mut rest = text[1..].trim_start_matches(' ');
        loop {
            if let Some(after) = rest.strip_prefix(')') {
                return Some((BareItem::List, after));
            }
            let after = parameters(item(rest)?.1)?;
            rest = after.trim_start_matches(' ');
            if rest.len() == after.len() && !rest.starts_with(')') {
                return None;
            }
        }
    }

    fn parameters(mut text: &str) -> Option<&str> {
        while let Some(rest) = text.strip_prefix(';') {
            let (_, after) = key(rest.trim_start_matches(' '))?;
            text = match after.strip_prefix('=') {
                Some(value) => item(value)?.1,
                None => after,
            };
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in fields.iter().map(field) {
            headers.append(name, value);
        }
        headers
    }

    fn answer(value: &str) -> AnswerControl {
        AnswerControl::from_headers(&headers(&[("cache-control", value)]))
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn lifetimes_are_read_as_the_rfc_says_and_the_shortest_holds() {
        for (value, wanted) in [
            ("max-age=3600", seconds(3600)),
            ("MaX-aGe=3600", seconds(3600)),
            ("max-age=\"3600\"", seconds(3600)),
            ("max-age=003600", seconds(3600)),
            ("max-age=99999999999999999999999", seconds(MOST_SECONDS)),
            ("foobar, max-age=3600", seconds(3600)),
            ("foobar=\"max-age=3600\", max-age=1", seconds(1)),
            ("max-age=1, foobar=\"\\\", max-age=3600\"", seconds(1)),
            ("max-age=3600, max-age=1", seconds(1)),
            ("max-age='3600'", seconds(0)),
            ("max-age=-3600", seconds(0)),
            ("max-age=3600.0", seconds(0)),
            ("max-age =3600", seconds(0)),
            ("max-age= 3600", seconds(0)),
            ("max-age", seconds(0)),
            ("a=max-age=3600", None),
            ("", None),
        ] {
            assert_eq!(answer(value).max_age, wanted, "{value}");
        }
    }

    #[test]
    fn directives_may_name_fields() {
        let control = answer("no-cache=\"a, Set-Cookie\", private=foo");
        assert_eq!(control.no_cache.fields(), ["a", "set-cookie"]);
        assert_eq!(control.private.fields(), ["foo"]);
        assert!(answer("no-cache=\"a\", no-cache").no_cache.is_whole());
        assert!(answer("private=\"a b\"").private.is_whole());
        assert!(answer("No-CaChE, nO-StOrE").no_store);
    }

    #[test]
    fn what_is_for_caches_like_this_one_takes_the_place_of_what_is_for_all() {
        let both = |own: &str| {
            AnswerControl::from_headers(&headers(&[
                ("cdn-cache-control", own),
                ("cache-control", "no-store, max-age=1"),
            ]))
        };
        assert_eq!(
            both("max-age=3600"),
            AnswerControl { targeted: true, max_age: seconds(3600), ..AnswerControl::default() }
        );
        assert!(both("private;a=b, foo=(1 2);x").private.is_whole());
        for unreadable in ["max-age=10000, &&&&&", "max-age=\"10000\"", "", "max-age = 1", "MaX-aGe=3600", "max-age=1,"]
        {
            assert_eq!(both(unreadable), answer("no-store, max-age=1"), "{unreadable}");
        }
    }

    #[test]
    fn requests_say_what_they_take() {
        let read =
            |value: &str| RequestControl::from_headers(&headers(&[("cache-control", value), ("pragma", "no-cache")]));
        assert_eq!(read("max-stale").max_stale, seconds(MOST_SECONDS));
        assert_eq!(read("max-stale=5, min-fresh=1").max_stale, seconds(5));
        assert!(read("only-if-cached").only_if_cached && !read("x").no_cache);
        assert!(RequestControl::from_headers(&headers(&[("pragma", "no-cache")])).no_cache);
        assert!(!RequestControl::from_headers(&headers(&[("pragma", "foo")])).no_cache);
    }

    #[test]
    fn times_are_read_strictly() {
        let age = |value: &str| AnswerDates::from_headers(&headers(&[("age", value)])).age.as_secs();
        assert_eq!(
            [age("7200"), age("7200, 0"), age("0, 7200"), age("abc"), age("-1"), age("7.0")],
            [7200, 7200, 0, 0, 0, 0]
        );
        assert_eq!(AnswerDates::from_headers(&headers(&[("age", "abc"), ("age", "7")])).age, Duration::ZERO);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let times = AnswerDates::from_headers(&headers(&[("expires", date), ("date", date), ("last-modified", date)]));
        assert!(times.expires.is_some() && times.expires == times.date && times.date == times.modified);
        assert_eq!(AnswerDates::from_headers(&headers(&[("expires", "0")])).expires, Some(Moment::default()));
        assert_eq!(
            AnswerDates::from_headers(&headers(&[("expires", date), ("expires", date)])).expires,
            Some(Moment::default())
        );
    }
}
