//! `/cache`: what is kept, and `POST /cache/purge`.

use crocodile_pear::unstable::cache::Store;
use crocodile_pear::unstable::http::media_type::is_json;
use crocodile_pear::unstable::message::body::AnswerBody;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::http::response::{self, refuse};
use crate::server::ClientRequest;
use crate::shared::purge::{ModeSpec, Purging};

/// The most bytes that a purge may be.
const MOST: usize = 256 << 10;

/// The contents of the cache, in figures.
pub fn show(cache: &Store) -> Response<AnswerBody> {
    let seen = cache.counters();
    response::json(&json!({
        "entries": seen.entries, "bytes": seen.bytes, "max_bytes": seen.bound,
        "hits": seen.hits, "misses": seen.misses, "stored": seen.insertions,
        "evicted": seen.evictions, "refused": seen.refused, "purges": seen.purges,
        "copies_made": seen.copies, "copies_used": seen.copied,
    }))
}

pub async fn purge(request: ClientRequest, cache: &Store) -> Response<AnswerBody> {
    // A page of another origin cannot send JSON without asking first, even where its browser says nothing of the origin.
    if !is_json(request.headers.map()) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send `content-type: application/json`");
    }
    let body = match request.body.collect(MOST).await {
        Ok(body) => body,
        Err(error) => return response::fail(&error),
    };
    match read(&body) {
        Ok(purging) => response::json(&json!({ "purged": purging.apply_counted(cache) })),
        Err(told) => refuse(StatusCode::BAD_REQUEST, &told),
    }
}

fn read(body: &[u8]) -> Result<Purging, String> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Purging::of_map(&fields, ModeSpec::Soft),
        Ok(_) => Err("the body is not a JSON object: write `{\"tag\": \"…\"}`".to_owned()),
        Err(error) => Err(format!("the body is not JSON: {error}")),
    }
}
