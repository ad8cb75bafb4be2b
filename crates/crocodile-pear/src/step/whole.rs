//! Calls for whole answers.

use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, Method};

/// The fields of a request for a part of an answer, or for none unless something has changed (RFC 9110, 13.1 and 14.2).
const CONDITIONS: [HeaderName; 4] = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];
const RANGES: [HeaderName; 2] = [RANGE, IF_RANGE];

/// Asks for a whole answer, as a step needs that reads it: a client's conditions are about what the client has of this
/// gateway. Those of a write stay, which must not be done without them.
pub fn ask_whole(headers: &mut HeaderMap, method: &Method) {
    if headers.is_empty() {
        return;
    }
    let conditions: &[HeaderName] = if matches!(*method, Method::GET | Method::HEAD) { &CONDITIONS } else { &[] };
    for name in RANGES.iter().chain(conditions) {
        headers.remove(name);
    }
}
