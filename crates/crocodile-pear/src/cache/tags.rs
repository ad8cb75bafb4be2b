//! The tags that an answer names itself: `cache-tag`, `surrogate-key` and `xkey`.

use http::header::{HeaderMap, HeaderName};

use super::entry::Tags;

const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
const XKEY: HeaderName = HeaderName::from_static("xkey");

/// The tags of an answer. Those of `cache-tag` stand between commas, the others between spaces.
pub fn of(headers: &HeaderMap) -> Tags {
    let texts = |name: &HeaderName| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags: Vec<&str> = texts(&CACHE_TAG).flat_map(|text| text.split(',')).collect();
    for name in [SURROGATE_KEY, XKEY] {
        tags.extend(texts(&name).flat_map(|text| text.split([' ', ',', '\t'])));
    }
    let tags = tags.into_iter().map(str::trim).filter(|tag| !tag.is_empty());
    Tags::new(tags)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn tags_are_read_as_each_field_has_them() {
        let fields = [("cache-tag", "a b, c"), ("surrogate-key", "d  e"), ("xkey", "f"), ("xkey", "g")];
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(of(&headers), Tags::new(["a b", "c", "d", "e", "f", "g"]));
        assert!(of(&HeaderMap::new()).is_empty());
    }
}
