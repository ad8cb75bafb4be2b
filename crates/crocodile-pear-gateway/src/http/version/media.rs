//! Versions in media types: `application/vnd.shop.v2+json`, `application/json;version=2`.

use std::cmp::Reverse;

use crocodile_pear::unstable::http::list;
use http::HeaderValue;

/// A media type whose versions are named behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType(String);

/// The version in a media type of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Spoken<'a> {
    /// The version's name, as it came.
    pub version: &'a str,
    /// The whole media type without weight, for the answer.
    pub media: String,
}

impl MediaType {
    /// Reads `application/vnd.shop`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let token = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.".contains(&byte))
        };
        (token(kind) && token(name)).then(|| MediaType(text.to_ascii_lowercase()))
    }

    /// The version in an element of `Accept`, or in `Content-Type`; `None` if it names no version.
    pub fn read<'a>(&self, element: &'a str) -> Option<Spoken<'a>> {
        let name = list::name(element);
        let lower = name.to_ascii_lowercase();
        let plain = lower.strip_suffix("+json").unwrap_or(&lower);
        if let Some(rest) = plain.strip_prefix(self.0.as_str()).and_then(|rest| rest.strip_prefix('.')) {
            let version = &name[plain.len() - rest.len()..plain.len()];
            return Some(Spoken { version, media: lower.clone() });
        }
        let general = matches!(lower.as_str(), "*/*" | "application/*");
        let version = list::parameter(element, "version")
            .filter(|_| general || plain == self.0 || lower == "application/json")?;
        let media = if general { "application/json" } else { lower.as_str() };
        Some(Spoken { version, media: format!("{media};version={version}") })
    }

    /// The pattern as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The elements of an `Accept` that the client takes, those it likes best first.
pub fn liked(accept: &str) -> Vec<&str> {
    let mut liked: Vec<&str> = list::texts(accept).filter(|element| list::weight(element) > 0).collect();
    // Stable: of those that are liked alike, the first.
    liked.sort_by_cached_key(|element| Reverse(list::weight(element)));
    liked
}

impl Spoken<'_> {
    /// The content type of the answer.
    pub fn content_type(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.media.as_str()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::media::*;

    #[test]
    fn a_version_stands_in_the_name_or_in_a_parameter() {
        let shop = MediaType::parse("application/vnd.Shop").expect("a media type");
        let read = |text| shop.read(text).map(|spoken| (spoken.version, spoken.media));
        let some = |version, media: &str| Some((version, media.to_owned()));
        for (element, wanted) in [
            ("application/vnd.shop.v2+json", some("v2", "application/vnd.shop.v2+json")),
            ("Application/VND.shop.V2+JSON; q=0.5", some("V2", "application/vnd.shop.v2+json")),
            ("application/vnd.shop.2026-01-01", some("2026-01-01", "application/vnd.shop.2026-01-01")),
            ("application/json; version=2", some("2", "application/json;version=2")),
            ("application/vnd.shop+json;Version=\"2\"", some("2", "application/vnd.shop+json;version=2")),
            ("*/*;version=1", some("1", "application/json;version=1")),
            ("text/plain; version=0.0.4", None),
            ("application/vnd.shopping.v2+json", None),
            ("application/json", None),
        ] {
            assert_eq!(read(element), wanted, "{element}");
        }
    }

    #[test]
    fn what_the_client_likes_best_comes_first() {
        assert_eq!(liked("a/a;q=0.5, b/b, c/c;q=0, d/d;q=0.7,"), ["b/b", "d/d;q=0.7", "a/a;q=0.5"]);
    }

    #[test]
    fn what_is_no_media_type_is_refused() {
        for text in ["vnd.shop", "application/vnd.shop+json", "application/*", "a/b;c=d", "/b", ""] {
            assert_eq!(MediaType::parse(text), None, "{text}");
        }
    }
}
