//! The tags of an answer, by which purges find it: those that it names itself, with `cache-tag`, `surrogate-key` or `xkey`.

use http::header::{HeaderMap, HeaderName};

use super::key::PurgeName;
use crate::http::list;

const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
const XKEY: HeaderName = HeaderName::from_static("xkey");

/// The tags of an answer. Those of `cache-tag` stand between commas, the others between spaces.
pub fn from_headers(headers: &HeaderMap) -> Tags {
    let mut tags: Vec<&str> = list::text_field(headers, &CACHE_TAG).collect();
    for name in [SURROGATE_KEY, XKEY] {
        tags.extend(list::text_field(headers, &name).flat_map(str::split_whitespace));
    }
    Tags::new(tags)
}

/// The tags of an answer. A purge finds it by these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Box<[PurgeName]>);

/// The maximum number of tags of an answer. A composed answer with more is not stored.
pub const MOST_TAGS: usize = 1024;

impl Tags {
    /// The tags with these numbers, as another gateway knows them.
    pub(crate) fn of_numbers(numbers: Vec<u64>) -> Self {
        Tags::from_names(numbers.into_iter().map(PurgeName::of_number).collect())
    }

    /// These tags, each once.
    pub fn new<T: AsRef<str>>(tags: impl IntoIterator<Item = T>) -> Self {
        Tags::from_names(tags.into_iter().map(|tag| PurgeName::of_tag(tag.as_ref())).collect())
    }

    fn from_names(mut names: Vec<PurgeName>) -> Self {
        names.sort_unstable();
        names.dedup();
        Tags(names.into())
    }

    /// The tags of both.
    #[must_use]
    pub fn union(&self, other: &Tags) -> Self {
        if other.0.is_empty() {
            return self.clone();
        }
        Tags::from_names(self.0.iter().chain(&other.0).copied().collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names by which a purge finds it.
    pub fn names(&self) -> &[PurgeName] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::tags::*;

    #[test]
    fn tags_are_read_as_each_field_has_them() {
        let fields = [("cache-tag", "a b, c"), ("surrogate-key", "d  e"), ("xkey", "f"), ("xkey", "g")];
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(from_headers(&headers), Tags::new(["a b", "c", "d", "e", "f", "g"]));
        assert!(from_headers(&HeaderMap::new()).is_empty());
    }

    #[test]
    fn tags_are_a_set() {
        let (one, two) = (Tags::new(["a", "b", "a"]), Tags::new(["b", "c"]));
        assert_eq!((one.len(), one.union(&two)), (2, Tags::new(["c", "b", "a"])));
    }
}
