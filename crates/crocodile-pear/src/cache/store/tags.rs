//! The tags of an answer: those that it names itself, with `cache-tag`, `surrogate-key` or `xkey`, and those of an expression.

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName};

use super::entry::Tags;
use super::shared_body::SharedBody;
use crate::http::list;
use crate::jq::{self, Data, Filter, Value};
use crate::message::answer::Answer;
use crate::{format, offload};

const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
const XKEY: HeaderName = HeaderName::from_static("xkey");

/// The tags of an answer. Those of `cache-tag` stand between commas, the others between spaces.
pub fn of(headers: &HeaderMap) -> Tags {
    let mut tags: Vec<&str> = list::text_field(headers, &CACHE_TAG).collect();
    for name in [SURROGATE_KEY, XKEY] {
        tags.extend(list::text_field(headers, &name).flat_map(str::split_whitespace));
    }
    Tags::new(tags)
}

/// A larger body has no tags of its own.
const MOST_BODY: usize = 16 << 20;

/// The tags that an expression finds in an answer; nothing, if it fails: then no event would find the answer.
pub async fn evaluate(
    filter: Arc<Filter>,
    headers: HeaderMap,
    body: SharedBody,
    known: impl Fn(&str) -> Value + Send + Sync + 'static,
) -> Option<Tags> {
    let item = match filter.reads_item() {
        false => Data::from(jq::null()),
        true => {
            let answer = Answer::new(StatusCode::OK, headers, body.read());
            format::data(format::plain(answer).ok()?, MOST_BODY).await.ok()?
        }
    };
    let find = move || Ok(filter.run(item.clone().into_value(), &mut |name| known(name))?);
    let values =
        offload::run(body.length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0), find).await.ok()?;
    let tags = values.iter().filter_map(jq::as_str).filter(|tag| !tag.is_empty());
    Some(Tags::new(tags))
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
        assert_eq!(of(&headers), Tags::new(["a b", "c", "d", "e", "f", "g"]));
        assert!(of(&HeaderMap::new()).is_empty());
    }
}
