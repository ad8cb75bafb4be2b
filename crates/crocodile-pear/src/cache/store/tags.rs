//! The tags that an expression finds in an answer, beside those that the answer names itself.

use std::sync::Arc;

use http::StatusCode;
use http::header::HeaderMap;

use super::shared_body::SharedBody;
use crate::cache::rules::tags::Tags;
use crate::jq::{self, Data, Filter, Value};
use crate::message::answer::Answer;
use crate::{format, offload};

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
