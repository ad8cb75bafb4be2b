//! Calls for whole answers.

use http::Method;
use http::header::{
    ACCEPT_ENCODING, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};

use crate::upstream::CallFields;

/// The fields of a request for a part of an answer, or for none unless something has changed (RFC 9110, 13.1 and 14.2).
const CONDITIONS: [HeaderName; 4] = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];
const RANGES: [HeaderName; 2] = [RANGE, IF_RANGE];

/// Asks for a whole answer that is not compressed, because it is changed on its way. The client's conditions stay: they are
/// about the upstream's version.
pub fn ask_plain(fields: &mut CallFields) {
    if fields.is_empty() {
        return;
    }
    for name in RANGES.iter().chain([&ACCEPT_ENCODING]) {
        fields.leave_out(name);
    }
}

/// Asks for a whole answer, because a step will read it. The client's conditions are left out: they are about the copy that the
/// client has of this gateway's answer. A write keeps its conditions, because it must not be done without them.
pub fn ask_whole(fields: &mut CallFields, method: &Method) {
    if fields.is_empty() {
        return;
    }
    let conditions: &[HeaderName] = if matches!(*method, Method::GET | Method::HEAD) { &CONDITIONS } else { &[] };
    for name in RANGES.iter().chain(conditions) {
        fields.leave_out(name);
    }
}
