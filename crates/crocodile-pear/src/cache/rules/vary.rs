//! `Vary`: which requests an answer is for (RFC 9111, 4.1).

use std::cell::{OnceCell, RefCell};

use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_LANGUAGE, HeaderMap, HeaderName, RANGE, VARY};

use crate::http::list;

/// The fields of a request that an answer depends on, each with its value; `None` if the request did not have it.
pub type Selector = Box<[Selected]>;

/// A field and its value.
pub type Selected = (HeaderName, Option<Box<[u8]>>);

/// The request fields that an answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// On these fields of the request; on none, if there are none.
    On(Vec<HeaderName>),
    /// On more than requests say: `*`, what cannot be read, or too many names.
    Unknown,
}

/// The most names of fields: an answer with more depends on more than requests say.
pub const NAMES: usize = 256;

impl Vary {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut names = Vec::new();
        for name in list::field(headers, &VARY) {
            match HeaderName::from_bytes(name) {
                Ok(name) if name != "*" && names.len() < NAMES => names.push(name),
                _ => return Vary::Unknown,
            }
        }
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        Vary::On(names)
    }

    /// The same, and these too.
    #[must_use]
    pub fn and(self, more: &[HeaderName]) -> Self {
        let Vary::On(mut names) = self else { return self };
        names.extend_from_slice(more);
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        Vary::On(names)
    }
}

/// Adds names that are not there yet.
pub fn add_names(known: &mut Vec<HeaderName>, more: &[HeaderName]) {
    for name in more {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}

/// The values of these fields in a request.
pub fn select(names: &[HeaderName], request: &HeaderMap) -> Selector {
    names.iter().map(|name| (name.clone(), normal(name, request))).collect()
}

/// Whether an answer with this selector and these header fields is for this request, too. Of a part the selector says which
/// one it is, in `range`; that is for the request's range to ask.
#[cfg(test)]
pub fn matches(selector: &Selector, request: &HeaderMap, answer: &HeaderMap) -> bool {
    VaryRequest::from_headers(request).matches(selector, answer)
}

/// A request that is compared with several answers. What its fields mean is made out once.
pub struct VaryRequest<'a> {
    request: &'a HeaderMap,
    /// The fields that were not equal as they came, in one form for all that mean the same.
    normal: RefCell<Vec<Selected>>,
    language: OnceCell<Option<String>>,
}

impl<'a> VaryRequest<'a> {
    /// The request with these header fields.
    pub fn from_headers(request: &'a HeaderMap) -> Self {
        VaryRequest { request, normal: RefCell::default(), language: OnceCell::new() }
    }

    /// Whether an answer with this selector and these header fields is for this request, too.
    pub fn matches(&self, selector: &Selector, answer: &HeaderMap) -> bool {
        selector.iter().filter(|(name, _)| *name != RANGE).all(|(name, value)| {
            let same = match (value, plain(name, self.request)) {
                (None, PlainField::Absent) => true,
                (None, _) | (Some(_), PlainField::Absent) => false,
                (Some(value), PlainField::Line(asked)) if **value == *asked => true,
                _ => self.means(name, value.as_deref()),
            };
            same || *name == ACCEPT_LANGUAGE && self.speaks(answer)
        })
    }

    fn means(&self, name: &HeaderName, value: Option<&[u8]>) -> bool {
        let mut known = self.normal.borrow_mut();
        let at = known.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            known.push((name.clone(), normal(name, self.request)));
            known.len() - 1
        });
        known[at].1.as_deref() == value
    }

    /// Whether an answer is in the one language that the request likes best: any other choice would be worse.
    fn speaks(&self, answer: &HeaderMap) -> bool {
        let mut languages = answer.get_all(CONTENT_LANGUAGE).iter();
        let (Some(language), None) = (languages.next(), languages.next()) else { return false };
        let liked = self.language.get_or_init(|| liked(self.request));
        liked
            .as_deref()
            .is_some_and(|liked| language.to_str().is_ok_and(|language| language.trim().eq_ignore_ascii_case(liked)))
    }
}

/// A field as it came, where it came in one line at most.
enum PlainField<'a> {
    Absent,
    Line(&'a [u8]),
    Lines,
}

fn plain<'a>(name: &HeaderName, request: &'a HeaderMap) -> PlainField<'a> {
    let mut lines = request.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => PlainField::Absent,
        (Some(line), None) => PlainField::Line(line.as_bytes()),
        _ => PlainField::Lines,
    }
}

/// A field in one form for all that mean the same: its lines as one list without spaces. What is known of a field besides:
/// the order of languages and codings says nothing, nor does their case.
fn normal(name: &HeaderName, request: &HeaderMap) -> Option<Box<[u8]>> {
    let mut lines = request.get_all(name).iter().peekable();
    lines.peek()?;
    let lines: Vec<&[u8]> = lines.map(http::HeaderValue::as_bytes).collect();
    let text = lines.join(&b","[..]);
    // Commas in quotes are no commas of the list.
    if text.contains(&b'"') {
        return Some(text.trim_ascii().into());
    }
    let members = list::members(&text);
    if ![ACCEPT_LANGUAGE, ACCEPT_ENCODING, ACCEPT].contains(name) {
        return Some(members.collect::<Vec<_>>().join(&b","[..]).into());
    }
    let clean = |member: &[u8]| -> Vec<u8> {
        member.iter().filter(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase).collect()
    };
    let mut members: Vec<Vec<u8>> = members.map(clean).collect();
    // Of media types that are equal the first may be preferred.
    if *name != ACCEPT {
        members.sort();
        members.dedup();
    }
    Some(members.join(&b","[..]).into())
}

/// The one language that a request likes best.
fn liked(request: &HeaderMap) -> Option<String> {
    let lines: Vec<&str> = request.get_all(ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok()).collect();
    let text = lines.join(",");
    let mut liked: Vec<(u16, &str)> = Vec::new();
    for member in list::texts(&text) {
        let (range, weight) = member.split_once(';').unwrap_or((member, "q=1"));
        liked.push((quality(weight.trim())?, range.trim()));
    }
    let best = liked.iter().map(|(weight, _)| *weight).max().filter(|best| *best > 0)?;
    let mut best = liked.iter().filter(|(weight, _)| *weight == best);
    match (best.next(), best.next()) {
        (Some((_, range)), None) => Some((*range).to_owned()),
        _ => None,
    }
}

/// Thousandths.
fn quality(text: &str) -> Option<u16> {
    let value = text.strip_prefix("q=").or_else(|| text.strip_prefix("Q="))?;
    let value: f32 = value.trim().parse().ok().filter(|value| (0.0..=1.0).contains(value))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1000")]
    Some((value * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::vary::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn serves(
        vary: &'static str,
        first: &[(&'static str, &'static str)],
        second: &[(&'static str, &'static str)],
    ) -> bool {
        let answer = headers(&[("vary", vary), ("content-language", "de")]);
        match Vary::from_headers(&answer) {
            Vary::On(names) => matches(&select(&names, &headers(first)), &headers(second), &answer),
            Vary::Unknown => false,
        }
    }

    #[test]
    fn an_answer_with_too_many_names_is_for_no_other_request() {
        let of = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("x-{at}")).collect();
            Vary::from_headers(&HeaderMap::from_iter([(
                VARY,
                HeaderValue::from_str(&names.join(", ")).expect("a value"),
            )]))
        };
        assert!(matches!(of(NAMES), Vary::On(names) if names.len() == NAMES));
        assert_eq!(of(NAMES + 1), Vary::Unknown);
        assert_eq!(of(100_000), Vary::Unknown);
    }

    #[test]
    fn an_answer_is_for_those_who_say_the_same() {
        for (vary, first, second, same) in [
            ("foo", &[("foo", "1")][..], &[("foo", "1")][..], true),
            ("foo", &[("foo", "1")], &[("foo", "2")], false),
            ("foo", &[], &[("foo", "1")], false),
            ("foo", &[("foo", "1")], &[], false),
            ("foo", &[("foo", "1"), ("bar", "1")], &[("foo", "1"), ("bar", "2")], true),
            ("Foo, bar", &[("foo", "1"), ("bar", "2")], &[("foo", "1"), ("bar", "2")], true),
            ("foo, bar", &[("foo", "1"), ("bar", "2")], &[("foo", "2"), ("bar", "1")], false),
            ("foo, baz", &[("foo", "1")], &[("foo", "1")], true),
            ("", &[("foo", "1")], &[], true),
            ("*", &[], &[], false),
            ("foo, *", &[("foo", "1")], &[("foo", "1")], false),
            (", *", &[], &[], false),
            ("foo", &[("foo", "1, 2")], &[("foo", "1"), ("foo", "2")], true),
            ("foo", &[("foo", "1,2")], &[("foo", " 1, 2 ")], true),
            ("foo", &[("foo", "a")], &[("foo", "A")], false),
            ("foo", &[("foo", "1, 2")], &[("foo", "2, 1")], false),
            ("foo", &[("foo", "\"a, b\"")], &[("foo", "\"a,b\"")], false),
            ("accept-language", &[("accept-language", "en, de")], &[("accept-language", " De,  eN")], true),
            ("accept-language", &[("accept-language", "en, de")], &[("accept-language", "fr;q=0.5, de;q=1.0")], true),
            ("accept-language", &[("accept-language", "en, de")], &[("accept-language", "fr, de")], false),
            ("accept-language", &[("accept-language", "en, de")], &[("accept-language", "fr, de;q=0.5")], false),
            ("accept-encoding", &[("accept-encoding", "gzip, br")], &[("accept-encoding", "br,gzip")], true),
            ("accept", &[("accept", "a/b, c/d")], &[("accept", "c/d, a/b")], false),
        ] {
            assert_eq!(serves(vary, first, second), same, "{vary}: {first:?} {second:?}");
        }
    }
}
