//! Names of fields: those that nearly every message has are known at a glance.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_RANGES, AGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION,
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, DATE, ETAG, EXPIRES, HOST, LAST_MODIFIED, LINK, LOCATION,
    ORIGIN, REFERER, SERVER, SET_COOKIE, USER_AGENT, VARY, VIA,
};
use http::{HeaderMap, HeaderName};

/// The name; `None` if the bytes are not one.
pub fn of(bytes: &[u8]) -> Option<HeaderName> {
    match usual(bytes) {
        Some(name) => Some(name.clone()),
        None => HeaderName::from_bytes(bytes).ok(),
    }
}

fn usual(bytes: &[u8]) -> Option<&'static HeaderName> {
    // No two of one length begin with the same letter.
    let name = match (bytes.len(), bytes.first()? | 0x20) {
        (3, b'a') => &AGE,
        (3, b'v') => &VIA,
        (4, b'd') => &DATE,
        (4, b'e') => &ETAG,
        (4, b'h') => &HOST,
        (4, b'l') => &LINK,
        (4, b'v') => &VARY,
        (6, b'a') => &ACCEPT,
        (6, b'c') => &COOKIE,
        (6, b'o') => &ORIGIN,
        (6, b's') => &SERVER,
        (7, b'e') => &EXPIRES,
        (7, b'r') => &REFERER,
        (8, b'l') => &LOCATION,
        (10, b'c') => &CONNECTION,
        (10, b's') => &SET_COOKIE,
        (10, b'u') => &USER_AGENT,
        (12, b'c') => &CONTENT_TYPE,
        (13, b'a') => match bytes[7] | 0x20 {
            b'r' => &ACCEPT_RANGES,
            _ => &AUTHORIZATION,
        },
        (13, b'c') => &CACHE_CONTROL,
        (13, b'l') => &LAST_MODIFIED,
        (14, b'c') => &CONTENT_LENGTH,
        (15, b'a') => match bytes[7] | 0x20 {
            b'l' => &ACCEPT_LANGUAGE,
            _ => &ACCEPT_ENCODING,
        },
        (16, b'c') => &CONTENT_ENCODING,
        _ => return None,
    };
    bytes.eq_ignore_ascii_case(name.as_str().as_bytes()).then_some(name)
}

/// Names of fields that are looked for together.
#[derive(Debug)]
pub struct NameSet {
    names: Vec<HeaderName>,
    /// The same as text: to ask a name for its text again and again costs more than to compare it.
    texts: Vec<Box<[u8]>>,
    /// The marks of all: most other names have none of them.
    marks: u64,
}

impl NameSet {
    /// A set of these names.
    pub fn of(names: impl IntoIterator<Item = HeaderName>) -> Self {
        let names: Vec<HeaderName> = names.into_iter().collect();
        let texts: Vec<Box<[u8]>> = names.iter().map(|name| name.as_str().as_bytes().into()).collect();
        let marks = texts.iter().fold(0, |marks, text| marks | mark(text));
        NameSet { names, texts, marks }
    }

    /// The names, in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &HeaderName> {
        self.names.iter()
    }

    /// Whether it has this name, in any case.
    #[inline]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.may_have(mark(name)) && self.texts.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    /// Whether one of its names is in a map. A map has fewer names than most sets, and a hash costs more than a comparison.
    #[inline]
    pub fn is_in(&self, map: &HeaderMap) -> bool {
        map.keys().any(|name| self.contains(name.as_str().as_bytes()))
    }

    #[inline]
    pub(crate) fn may_have(&self, marks: u64) -> bool {
        self.marks & marks != 0
    }
}

/// A bit of a name, by its length and its first letter in any case: the same name has the same one, and few others have it.
#[inline]
pub(crate) fn mark(name: &[u8]) -> u64 {
    let first = name.first().map_or(0, |first| usize::from(first & 0x1f));
    1 << ((name.len() * 7 + first) % 64)
}

#[cfg(test)]
mod tests {
    use super::super::name::*;

    #[test]
    fn a_name_is_what_it_says_in_any_case() {
        for name in [
            "age",
            "via",
            "date",
            "etag",
            "host",
            "link",
            "vary",
            "accept",
            "cookie",
            "origin",
            "server",
            "expires",
            "referer",
            "location",
            "connection",
            "set-cookie",
            "user-agent",
            "content-type",
            "accept-ranges",
            "authorization",
            "cache-control",
            "last-modified",
            "content-length",
            "accept-language",
            "accept-encoding",
            "content-encoding",
        ] {
            assert_eq!(usual(name.as_bytes()).map(HeaderName::as_str), Some(name));
            assert_eq!(of(name.to_uppercase().as_bytes()).expect("a name").as_str(), name);
        }
        for other in ["x-request-id", "accept-charset", "dare", "etah", "authorizatiom", "\x09ost", "accept-encodinh"] {
            assert_eq!(usual(other.as_bytes()), None, "{other:?}");
        }
        assert_eq!(of(b"X-Request-Id").expect("a name").as_str(), "x-request-id");
        assert_eq!(of(b"a b"), None);
    }

    #[test]
    fn a_set_has_its_names_in_any_case_and_no_others() {
        let set = NameSet::of([AGE, CONTENT_TYPE, HeaderName::from_static("x-tag")]);
        for name in ["age", "AGE", "Content-Type", "content-type", "X-TAG"] {
            assert!(set.contains(name.as_bytes()) && set.may_have(mark(name.as_bytes())), "{name}");
        }
        // Some have the mark of another.
        for other in ["", "via", "age2", "agf", "content-typf", "y-tag", "x-tah"] {
            assert!(!set.contains(other.as_bytes()), "{other}");
        }
        let map = |name: &'static str| HeaderMap::from_iter([(HeaderName::from_static(name), VIA.into())]);
        assert!(set.is_in(&map("x-tag")) && !set.is_in(&map("x-tah")) && !set.is_in(&HeaderMap::new()));
    }
}
